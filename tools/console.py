"""What every tool does around its work: arguments, exit statuses, messages, and files."""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ge.dialects.diagnostics import DoesNotFit, GeError, InputError

FAULT = 70
"""Exit status of a fault of ours; those of users' errors stand with their classes."""
INTERRUPTED = 130
STDIN = Path("-")
"""An input file of this name is standard input."""
_TRACEBACK = "--traceback"


def tool_parser(prog: str, description: str, example: str, **more: Any) -> argparse.ArgumentParser:
    """The parser of a tool, with what all have; `example` stands below its help."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=description,
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **more,
    )
    parser.add_argument(
        _TRACEBACK, action="store_true", help="show where in this program a message comes from"
    )
    return parser


def run_tool(work: Callable[[Sequence[str]], int | None], argv: Sequence[str] | None = None) -> int:
    """Do `work` on the arguments; the exit status. No exception but argparse's own gets out."""
    # IR and code are many small objects that live long: fewer collections halve their time.
    gc.set_threshold(100_000, 50, 100)
    # What is left at the end goes with the process: looking for cycles in it takes seconds.
    atexit.register(gc.freeze)
    arguments = sys.argv[1:] if argv is None else argv
    warnings.formatwarning = lambda message, *_, **__: f"{message}\n"
    try:
        status = work(arguments) or 0
        sys.stdout.flush()
    except GeError as e:
        if _TRACEBACK in arguments:
            _print_traceback()
        print(e, file=sys.stderr)
        return e.status
    except BrokenPipeError:
        # The reader has what it wanted; nothing more may be flushed into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except MemoryError as e:
        print(f"error: must fit the memory of this computer: {e}", file=sys.stderr)
        return DoesNotFit.status
    except Exception as e:
        kind = type(e).__name__
        print(f"error: a fault of this program, please report it: {kind}: {e}", file=sys.stderr)
        _print_traceback()
        return FAULT
    return status


def _print_traceback() -> None:
    import traceback

    traceback.print_exc()


def shown(path: Path) -> str:
    """What messages call an input file."""
    return "<stdin>" if path == STDIN else str(path)


def read_bytes(path: Path) -> bytes:
    """The contents of an input file; raises InputError."""
    try:
        return sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except OSError as e:
        raise InputError(f"must be a readable file: {e.strerror}", shown(path)) from e


def read_text(path: Path) -> str:
    """The contents of an input text; raises InputError."""
    try:
        return read_bytes(path).decode().replace("\r\n", "\n")
    except UnicodeDecodeError as e:
        raise InputError(f"must be UTF-8 text, is not at byte {e.start}", shown(path)) from e


def check_apart(inputs: Iterable[Path], outputs: Iterable[Path | None]) -> None:
    """Raise InputError where an output would overwrite an input, or another output."""
    taken = {path.resolve(): "an input" for path in inputs if path != STDIN}
    for path in outputs:
        if path is None or path == Path(os.devnull):
            continue
        if (other := taken.get(path.resolve())) is not None:
            raise InputError(f"must be a file of its own, is also {other}", str(path))
        taken[path.resolve()] = "an output"


def write_output(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` make the output file `path`; raises InputError if it cannot."""
    try:
        write(path)
    except OSError as e:
        raise InputError(f"must be writable: {e.strerror}", str(path)) from e
