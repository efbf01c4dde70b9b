"""How strided tiles fall into contiguous runs, and what that means for lines and repeats."""

from __future__ import annotations

from functools import lru_cache
from math import prod

LINE_BYTES = 512
"""Device memory moves whole lines of this size."""
REPEAT_BYTES = 256
"""What the vector unit takes in one repeat."""
BLOCK_BYTES = 32
"""The granule a vector repeat gathers from: eight blocks a repeat, each anywhere."""

Sizes = tuple[int, ...]


def runs(size: Sizes, *strides: Sizes) -> tuple[int, int]:
    """How many runs a tile has, and the elements of one, that are contiguous in every view."""
    if any([len(view) != len(size) for view in strides]):
        raise ValueError("a tile has as many strides as dimensions")
    run = 1
    for at in range(len(size) - 1, -1, -1):
        n = size[at]
        if n != 1:
            for view in strides:
                if view[at] != run:
                    return prod(size[: at + 1]), run
            run *= n
    return 1, run


@lru_cache(4096)
def dense(size: Sizes) -> Sizes:
    """The strides of a tile without gaps."""
    strides, step = [], 1
    for n in reversed(size):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def lines(size: Sizes, strides: Sizes, element_bytes: int) -> tuple[int, int]:
    """Bytes that travel for a strided tile in device memory, and its rows.

    Rows whose pitch is no multiple of a line touch one line more and cost twice: measured x2 for
    rows shorter than a line (docs/targets.md).
    """
    rows, run = runs(size, strides)
    run_bytes = run * element_bytes
    if rows == 1:
        return run_bytes, 1
    outer = [s for n, s in zip(size, strides, strict=True) if n > 1 and s >= run]
    if not any([s * element_bytes % LINE_BYTES for s in outer]):
        return rows * run_bytes, rows
    if run_bytes < LINE_BYTES:
        return rows * run_bytes * 2, rows * 2
    return rows * (-(-run_bytes // LINE_BYTES) + 1) * LINE_BYTES, rows * 2


def repeats(size: Sizes, element_bytes: int, *strides: Sizes) -> int:
    """Vector repeats of a tile; a strided innermost dimension costs a block an element.

    An operand that repeats one element along the innermost dimension is filled from a register of
    the unit and costs nothing more, so stride 0 counts as contiguous there.
    """
    inner = next((i for i in reversed(range(len(size))) if size[i] != 1), 0)
    strided = any(s[inner] not in (0, 1) for s in strides)
    moving = [s for s in strides if s[inner] == 1] or [dense(size)]
    rows, run = runs(size, *moving) if not strided else (prod(size) // size[inner], size[inner])
    per_repeat = REPEAT_BYTES // (BLOCK_BYTES if strided else element_bytes)
    return rows * -(-run // per_repeat)
