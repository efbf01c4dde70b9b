"""Running sums: products with a triangle of ones, or sums of sums where they must be exact."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects.graph.base import shape_of
from ge.dialects.graph.ops.binary import AddOp
from ge.dialects.graph.ops.layout import PadOp, SliceOp
from ge.dialects.graph.ops.reduce import CumSumOp, ReduceSumOp
from ge.lowering.decompose_indexing import dtype_of, part, reshape
from ge.lowering.rewriting import Here, Rules
from ge.lowering.weighted_sums import weighted

LONGEST = 512
"""Elements whose triangle is multiplied at once; longer rows are summed in pieces."""
PIECE = 256


def _cum_sum(here: Here, op: CumSumOp) -> SSAValue:
    """Running sum -> a product with a triangle of ones, with a piece at a time where it is long"""
    if not dtype_of(op.x).is_float:
        return _doubling(here, op)
    axis = op.attrs["axis"] % len(shape_of(op.x))
    return _running(here, op.x, axis, bool(op.attrs["exclusive"]), bool(op.attrs["reverse"]))


def _running(here: Here, x: SSAValue, axis: int, exclusive: bool, reverse: bool) -> SSAValue:
    """The running sum, of pieces and of what comes before each of them."""
    shape = shape_of(x)
    n, before, behind = shape[axis], shape[:axis], shape[axis + 1 :]
    if n <= LONGEST:
        return _triangle(here, x, axis, exclusive, reverse)
    count = -(-n // PIECE)
    zeros = (0,) * len(shape)
    more = (*zeros[:axis], count * PIECE - n, *zeros[axis + 1 :])
    # What fills the last piece is nothing, so that it matters to no sum in either direction.
    wide = here.make(PadOp, x, pads=(*zeros, *more)) if any(more) else x
    pieces = reshape(here, wide, (*before, count, PIECE, *behind))
    inner = _triangle(here, pieces, axis + 1, exclusive, reverse)
    totals = here.make(ReduceSumOp, pieces, axes=(axis + 1,), keepdims=True)
    flat = reshape(here, totals, (*before, count, *behind))
    outer = _running(here, flat, axis, True, reverse)
    sums = here.make(AddOp, inner, reshape(here, outer, shape_of(totals)))
    return part(here, reshape(here, sums, (*before, count * PIECE, *behind)), axis, 0, n)


def _triangle(here: Here, x: SSAValue, axis: int, exclusive: bool, reverse: bool) -> SSAValue:
    n = shape_of(x)[axis]
    ones = np.tril(np.ones((n, n)), -1 if exclusive else 0)
    return weighted(here, x, axis, ones.T if reverse else ones)


def _doubling(here: Here, op: CumSumOp) -> SSAValue:
    """Running sum of integers -> sums over 2, 4, 8 ... elements, each of two shorter ones"""
    attrs = op.attrs
    shape = shape_of(op.x)
    axis = attrs["axis"] % len(shape)
    n, none = shape[axis], (0,) * len(shape)

    def ahead(value: SSAValue, by: int) -> SSAValue:
        """The value moved on along the axis, zeros behind it."""
        widths = tuple(by if i == axis else 0 for i in range(len(shape)))
        start, pads = (by, (*none, *widths)) if attrs["reverse"] else (0, (*widths, *none))
        ends = {"starts": (start,), "ends": (start + n - by,), "axes": (axis,), "steps": (1,)}
        return here.make(PadOp, here.make(SliceOp, value, **ends), pads=pads)

    value: SSAValue = ahead(op.x, 1) if attrs["exclusive"] else op.x
    step = 1
    while step < n:
        value = here.make(AddOp, value, ahead(value, step))
        step *= 2
    return value


RUNNING_SUMS: Rules = {CumSumOp: [_cum_sum]}
