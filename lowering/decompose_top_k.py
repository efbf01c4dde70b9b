"""The largest of a row by counting, for each element, how many come before it."""

from __future__ import annotations

from math import inf, prod

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects import dtypes
from ge.dialects.dtypes import DType
from ge.dialects.graph.base import GraphOp, shape_of
from ge.dialects.graph.ops.binary import AndOp, EqualOp, GreaterOp, LessOp, OrOp
from ge.dialects.graph.ops.index import TopKOp
from ge.dialects.graph.ops.layout import ConcatOp, TransposeOp
from ge.dialects.graph.ops.reduce import ArgMaxOp, ArgMinOp, ReduceMaxOp, ReduceMinOp, ReduceSumOp
from ge.lowering.decompose_indexing import cast, dtype_of, picked, places, reshape
from ge.lowering.rewriting import Here, Rules

SHORTEST = 64
"""Elements of a piece below which it is not worth while to look at pieces first."""


def top_k(here: Here, op: TopKOp) -> tuple[SSAValue, SSAValue]:
    """The best k of each row, and where they are; of equal ones the first come first."""
    shape, k = shape_of(op.x), op.attrs["k"]
    axis = op.attrs["axis"] % len(shape)
    order = (*(i for i in range(len(shape)) if i != axis), axis)
    if k == 1:
        return _best(here, op, axis)
    outer = tuple(shape[i] for i in order[:-1])
    turned = here.make(TransposeOp, op.x, perm=order) if axis != len(shape) - 1 else op.x
    values = reshape(here, turned, (prod(outer), shape[axis]))
    indices = places(here, shape[axis], 0)
    largest: bool = op.attrs["largest"]
    piece = max(SHORTEST, 2 * k)
    while shape_of(values)[-1] > 2 * piece:
        cut, at = _pieces(here, values, indices, piece, largest)
        values, indices = _ranked(here, cut, at, k, largest)
        row = (prod(outer), prod(shape_of(values)[1:]))
        values, indices = reshape(here, values, row), reshape(here, indices, row)
    found = _ranked(here, values, indices, k, largest)
    back = tuple(order.index(i) for i in range(len(shape)))

    def result(value: SSAValue) -> SSAValue:
        wide = reshape(here, value, (*outer, k))
        return wide if axis == len(shape) - 1 else here.make(TransposeOp, wide, perm=back)

    return result(found[0]), result(cast(here, found[1], dtypes.I64))


def _best(here: Here, op: TopKOp, axis: int) -> tuple[SSAValue, SSAValue]:
    """One element of each row needs no ranks."""
    largest = op.attrs["largest"]
    value, place = (ReduceMaxOp, ArgMaxOp) if largest else (ReduceMinOp, ArgMinOp)
    one = here.make(value, op.x, axes=(axis,), keepdims=True)
    return one, here.make(place, op.x, axis=axis, keepdims=True)


def _pieces(
    here: Here, values: SSAValue, indices: SSAValue, piece: int, largest: bool
) -> tuple[SSAValue, SSAValue]:
    """Rows and their places in pieces of one length; what fills the last comes after all else."""
    rows, n = shape_of(values)
    count = -(-n // piece)
    missing = count * piece - n
    lead = shape_of(indices)[:-1]
    if missing:
        values = _filled(here, values, missing, _worst(dtype_of(values), largest))
        indices = _filled(here, indices, missing, 0)
    return (
        reshape(here, values, (rows, count, piece)),
        reshape(here, indices, (*lead, count, piece)),
    )


def _worst(dtype: DType, largest: bool) -> float:
    """What nothing comes after."""
    if dtype.is_float:
        return -inf if largest else inf
    info = np.iinfo(dtype.numpy)
    return int(info.min if largest else info.max)


def _filled(here: Here, value: SSAValue, missing: int, filling: float) -> SSAValue:
    """The value with more elements at the end of its rows."""
    shape = (*shape_of(value)[:-1], missing)
    more = here.constant(np.full(shape, filling, dtype_of(value).numpy))
    return here.make(ConcatOp, value, more, axis=len(shape) - 1)


def _ranked(
    here: Here, values: SSAValue, indices: SSAValue, k: int, largest: bool
) -> tuple[SSAValue, SSAValue]:
    """The elements of ranks 0 to k along the last axis, and their places."""
    *outer, n = shape_of(values)
    own, other = reshape(here, values, (*outer, n, 1)), reshape(here, values, (*outer, 1, n))
    before: type[GraphOp] = GreaterOp if largest else LessOp
    earlier = here.constant(np.tril(np.ones((n, n), bool), -1))
    ties = here.make(AndOp, here.make(EqualOp, other, own), earlier)
    ahead = here.make(OrOp, here.make(before, other, own), ties)
    last = len(outer) + 1
    ranks = here.make(ReduceSumOp, cast(here, ahead, dtypes.F32), axes=(last,), keepdims=False)
    whole = cast(here, reshape(here, ranks, (*outer, 1, n)), dtypes.I32)
    mask = here.make(EqualOp, whole, places(here, k, 1))
    lead = shape_of(indices)[:-1]
    at = reshape(here, indices, (*lead, 1, n))
    return picked(here, mask, other, last), picked(here, mask, at, last)


TOP_K: Rules = {TopKOp: [top_k]}
