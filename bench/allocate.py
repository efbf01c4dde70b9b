"""Places for the buffers of a CSV; `python bench/allocate.py FILE --capacity N [-o OUT]`.

A row is `id,lower,upper,size`: a buffer that is alive from `lower` up to but not at `upper`. What
is written has `offset` besides; it is read again and checked before.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from ge.dialects.diagnostics import CheckFailed, DoesNotFit, InputError
from ge.lowering.lives import Life, height, lower_bound, overlaps
from ge.lowering.pack import pack
from ge.lowering.plan_arena import by_order
from ge.tools.console import (
    check_apart,
    read_text,
    run_tool,
    shown,
    tool_parser,
    write_output,
)

COLUMNS = ("id", "lower", "upper", "size")
NUMBERS = COLUMNS[1:]
STEPS = 10**9
"""More than any time allows."""
SEARCHED = 5000
"""Most buffers that are searched: of each the search knows all others that it meets."""
EXAMPLE = """example:
  python bench/allocate.py buffers.csv --capacity 1048576 -o places.csv"""


class Buffer(NamedTuple):
    """A row, its numbers read."""

    id: str
    lower: int
    upper: int
    size: int


def main(argv: Sequence[str] | None = None) -> int:
    """The tool; its exit status."""
    return run_tool(_allocate, argv)


def _parser() -> argparse.ArgumentParser:
    parser = tool_parser(
        "bench/allocate.py", "Give the buffers of a CSV places in one memory.", EXAMPLE
    )
    parser.add_argument(
        "file", metavar="FILE.csv", type=Path, help="id,lower,upper,size; - is standard input"
    )
    parser.add_argument(
        "--capacity", metavar="N", type=_capacity, required=True, help="bytes of the memory"
    )
    parser.add_argument(
        "--seconds", metavar="S", type=float, default=60, help="time for a search; default: 60"
    )
    parser.add_argument(
        "-o", dest="output", metavar="OUT.csv", type=Path, help="default: standard output"
    )
    return parser


def _capacity(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a number of bytes above 0, got {text!r}")
    return value


def _allocate(argv: Sequence[str]) -> None:
    options = _parser().parse_args(argv)
    check_apart([options.file], [options.output])
    where = shown(options.file)
    buffers = read_buffers(read_text(options.file), where, options.capacity)
    places = _places(buffers, options.capacity, options.seconds, where)
    text = written(buffers, places)
    check(text, buffers, options.capacity)
    if options.output is None:
        sys.stdout.write(text)
    else:
        write_output(options.output, lambda p: p.write_text(text, "utf-8"))


def read_buffers(text: str, where: str, capacity: int) -> list[Buffer]:
    """The rows of a CSV; raises InputError for the first that is at fault."""
    rows = csv.DictReader(io.StringIO(text), restval="", strict=True)
    found: dict[str, Buffer] = {}
    try:
        missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
        if missing:
            raise InputError(f"must have columns {','.join(COLUMNS)}, lacks {missing[0]!r}", where)
        for row in rows:
            at = f"{where}:{rows.line_num}"
            buffer = Buffer(row["id"], *(_number(row, name, at) for name in NUMBERS))
            _check_row(buffer, found, at, capacity)
            found[buffer.id] = buffer
    except csv.Error as e:
        raise InputError(f"must be a CSV: {e}", where) from e
    return list(found.values())


def _number(row: dict[str, str], name: str, at: str) -> int:
    try:
        return int(row[name])
    except ValueError:
        raise InputError(f"'{name}' must be an integer, got {row[name]!r}", at) from None


def _check_row(buffer: Buffer, found: dict[str, Buffer], at: str, capacity: int) -> None:
    if buffer.id in found:
        raise InputError(f"'id' must be of one buffer, {buffer.id!r} is of two", at)
    if buffer.lower >= buffer.upper:
        raise InputError(f"'lower' must be below 'upper', got {buffer.lower}, {buffer.upper}", at)
    if not 0 < buffer.size <= capacity:
        raise InputError(f"'size' must be from 1 to the capacity, got {buffer.size}", at)


def _places(buffers: Sequence[Buffer], capacity: int, seconds: float, where: str) -> list[int]:
    """An offset for each buffer; raises DoesNotFit."""
    lives = _lives(buffers)
    if not lives:
        return []
    bound = lower_bound(lives)
    if bound > capacity:
        raise DoesNotFit(f"must fit {capacity} bytes, {bound} are alive at once", where)
    places = by_order(lives, bound)
    if height(lives, places) <= capacity:
        return places
    end = time.monotonic() + seconds
    searched = len(lives) <= SEARCHED
    found = pack(lives, capacity, STEPS, lambda: time.monotonic() > end) if searched else None
    if found is None:
        tried = (
            f"no plan was found in {seconds:g} s" if time.monotonic() > end else "none was found"
        )
        raise DoesNotFit(f"must fit {capacity} bytes, {tried}; {bound} are alive at once", where)
    return found


def _lives(buffers: Sequence[Buffer]) -> list[Life]:
    """Lives on a time that begins at 0."""
    start = min((b.lower for b in buffers), default=0)
    return [Life(b.lower - start, b.upper - start - 1, b.size) for b in buffers]


def written(buffers: Sequence[Buffer], places: Sequence[int]) -> str:
    """The CSV with offsets."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((*COLUMNS, "offset"))
    writer.writerows((*b, place) for b, place in zip(buffers, places, strict=True))
    return out.getvalue()


def check(text: str, buffers: Sequence[Buffer], capacity: int) -> None:
    """Read the text that is to be written; raises CheckFailed if it is no plan for `buffers`."""
    rows = list(csv.DictReader(io.StringIO(text)))
    read = [Buffer(r["id"], *(int(r[name]) for name in NUMBERS)) for r in rows]
    if read != list(buffers):
        raise CheckFailed("must hold the buffers that were read, does not")
    for fault in _faults(_lives(read), [int(r["offset"]) for r in rows], capacity):
        raise CheckFailed(fault)


def _faults(lives: Sequence[Life], places: Sequence[int], capacity: int) -> Iterator[str]:
    if min(places, default=0) < 0 or height(lives, places) > capacity:
        yield f"must lie from 0 to {capacity}, does not"
    for i, j in overlaps(lives, places):
        yield f"rows {i + 1} and {j + 1} must not overlap, do"


if __name__ == "__main__":
    raise SystemExit(main())
