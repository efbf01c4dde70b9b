"""A sequential kernel whose tiles follow each other without a gap, from one block to the next.

What stands in front of the sequential loop and behind it moves into its first and its last
iteration: then no unit runs dry where a block ends.
"""

from __future__ import annotations

from dataclasses import replace

from ge.dialects.npu.axes import Axis
from ge.lowering.kernels.description import Description, DimKind, Statement


def in_flow(d: Description) -> Description:
    """`init; [body]; final` as `[first: init; body; last: final]`.

    The first product runs one iteration further ahead: the vector unit's queue is always full.
    """
    (over,) = d.dims_with(DimKind.SEQUENTIAL)
    begin = d.matrices[0]

    def later(statement: Statement) -> Statement:
        return statement if statement is begin else replace(statement, stage=statement.stage + 1)

    first = first_tile(over)
    init = (later(replace(v, when=first)) for v in d.init)
    final = (later(replace(v, last=True)) for v in d.final)
    return replace(d, init=(), body=(*init, *map(later, d.body), *final), final=())


def first_of(d: Description) -> Axis | None:
    """Where the sequential dimension begins, if there is one."""
    over = d.dims_with(DimKind.SEQUENTIAL)
    return first_tile(over[0]) if over else None


def first_tile(over: str) -> Axis:
    """Above 0 on the tile that a dimension begins with."""
    return Axis(((over, -1),), 1)
