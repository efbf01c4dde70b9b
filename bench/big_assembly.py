"""A long assembly text: the kernels of a program again and again, each with labels of its own.

`python -m bench.big_assembly PROGRAM.s OUT.s LINES` writes it, and prints how many lines it has.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

KERNEL = "        .kernel "
MAIN = "        .function main\n"


def repeated(text: str, lines: int) -> str:
    """About `lines` lines: as many whole kernels as there is room for, and the rest of `text`."""
    first, after = text.index(KERNEL), text.index(MAIN)
    kernels = re.split(f"(?m)^(?={re.escape(KERNEL)})", text[first:after])[1:]
    room = lines - text[:first].count("\n") - text[after:].count("\n")
    parts: list[str] = []
    while room > 0:
        copy = len(parts) // len(kernels) * len(kernels)
        parts.append(_renumbered(kernels[len(parts) - copy], copy))
        room -= parts[-1].count("\n")
    return "".join((text[:first], *parts, text[after:]))


def _renumbered(kernel: str, by: int) -> str:
    return re.sub(r"(\bk|\.Lk)(\d+)", lambda m: f"{m[1]}{int(m[2]) + by}", kernel)


if __name__ == "__main__":
    source, out, count = sys.argv[1:]
    made = repeated(Path(source).read_text("utf-8"), int(count))
    Path(out).write_text(made, "utf-8")
    print(made.count("\n"))
