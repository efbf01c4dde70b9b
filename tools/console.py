"""What every tool does around its work: exit statuses, messages, and files."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ge.dialects.diagnostics import InputError

FAULT = 70
"""Exit status of a fault of ours; those of users' errors stand with their classes."""
INTERRUPTED = 130


def run_tool(work: Callable[[Sequence[str]], int | None], argv: Sequence[str] | None = None) -> int:
    """Do `work` on the arguments; the exit status. No exception but argparse's own gets out."""
    from ge.dialects.diagnostics import GeError

    # IR and code are many small objects that live long: fewer collections halve their time.
    gc.set_threshold(100_000, 50, 100)
    try:
        status = work(sys.argv[1:] if argv is None else argv) or 0
        sys.stdout.flush()
    except GeError as e:
        print(e, file=sys.stderr)
        return e.status
    except BrokenPipeError:
        # The reader has what it wanted; nothing more may be flushed into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as e:
        import traceback

        kind = type(e).__name__
        print(f"error: a fault of this program, please report it: {kind}: {e}", file=sys.stderr)
        traceback.print_exc()
        return FAULT
    return status


def read_bytes(path: Path) -> bytes:
    """The contents of an input file; raises InputError."""
    try:
        return path.read_bytes()
    except OSError as e:
        raise InputError(f"must be a readable file: {e.strerror}", str(path)) from e


def read_text(path: Path) -> str:
    """The contents of an input text; raises InputError."""
    try:
        return read_bytes(path).decode().replace("\r\n", "\n")
    except UnicodeDecodeError as e:
        raise InputError(f"must be UTF-8 text, is not at byte {e.start}", str(path)) from e


def write_output(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` make the output file `path`; raises InputError if it cannot."""
    try:
        write(path)
    except OSError as e:
        raise InputError(f"must be writable: {e.strerror}", str(path)) from e
