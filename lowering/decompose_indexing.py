"""Operators that find elements by index, as comparisons of indices with places.

An index picks one place of an axis: the places that equal it are a mask, and what the mask leaves
is summed. That is regular, whatever the indices are; slices are fetched one by one instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects import dtypes
from ge.dialects.dtypes import DType
from ge.dialects.graph.base import GraphOp, shape_of, type_of
from ge.dialects.graph.ops.binary import (
    AddOp,
    EqualOp,
    LessOp,
    MaxOp,
    MinOp,
    MulOp,
    OrOp,
    SubOp,
    WhereOp,
)
from ge.dialects.graph.ops.index import (
    GatherElementsOp,
    GatherNDOp,
    GatherOp,
    OneHotOp,
    ScatterElementsOp,
    ScatterMode,
    ScatterNDOp,
    ScatterPlaces,
    TensorScatterOp,
)
from ge.dialects.graph.ops.layout import ExpandOp, PadOp, ReshapeOp, SliceOp
from ge.dialects.graph.ops.norm import HardmaxOp
from ge.dialects.graph.ops.reduce import (
    ArgMaxOp,
    ReduceMaxOp,
    ReduceMinOp,
    ReduceProdOp,
    ReduceSumOp,
)
from ge.dialects.graph.ops.unary import CastOp
from ge.lowering.rewriting import Here, Rules

Shape = tuple[int, ...]

NARROW = (dtypes.B8, dtypes.I8, dtypes.U8, dtypes.I16, dtypes.U16)
"""Element types that are widened to be summed."""


def dtype_of(value: SSAValue) -> DType:
    """The element type of a tensor."""
    return dtypes.of_ir(type_of(value).element_type)


def number(here: Here, value: float, dtype: DType) -> SSAValue:
    """A number as a constant."""
    return here.constant(np.asarray(value).astype(dtype.numpy))


def reshape(here: Here, x: SSAValue, shape: Sequence[int]) -> SSAValue:
    """The value under another shape."""
    return x if shape_of(x) == tuple(shape) else here.make(ReshapeOp, x, shape=tuple(shape))


def cast(here: Here, x: SSAValue, to: DType) -> SSAValue:
    """The value as another element type."""
    return x if dtype_of(x) is to else here.make(CastOp, x, to=to)


def part(here: Here, x: SSAValue, axis: int, start: int, end: int) -> SSAValue:
    """The places `start` up to `end` of an axis."""
    if (start, end) == (0, shape_of(x)[axis]):
        return x
    return here.make(SliceOp, x, starts=(start,), ends=(end,), axes=(axis,), steps=(1,))


def places(here: Here, n: int, behind: int) -> SSAValue:
    """0 up to n along an axis with `behind` axes after it."""
    return here.constant(np.arange(n, dtype=np.int32).reshape(n, *(1,) * behind))


def hits(here: Here, indices: SSAValue, n: int, axis: int, behind: int) -> SSAValue:
    """Where the places 0..n of a new axis are those that the indices name, negative ones too."""
    shape = shape_of(indices)
    spread = reshape(here, cast(here, indices, dtypes.I32), (*shape[:axis], 1, *shape[axis:]))
    at = places(here, n, behind)
    from_end = here.constant(np.arange(-n, 0, dtype=np.int32).reshape(n, *(1,) * behind))
    front, back = here.make(EqualOp, spread, at), here.make(EqualOp, spread, from_end)
    return here.make(OrOp, front, back)


def picked(here: Here, mask: SSAValue, x: SSAValue, axis: int) -> SSAValue:
    """The one element that the mask leaves along an axis, which is gone; 0 if there is none."""
    dtype = dtype_of(x)
    wide = dtypes.I32 if dtype in NARROW else dtype
    left = here.make(WhereOp, mask, cast(here, x, wide), number(here, 0, wide))
    return cast(here, here.make(ReduceSumOp, left, axes=(axis,), keepdims=False), dtype)


def _sub_box(here: Here, x: SSAValue, shape: Shape, axis: int) -> SSAValue:
    """As much of x as `shape` has, but for an axis, which stays whole."""
    for i, n in enumerate(shape):
        if i != axis:
            x = part(here, x, i, 0, n)
    return x


def _gather_elements(here: Here, op: GatherElementsOp) -> SSAValue:
    """Gather elements -> a mask of places, then the sum of what it leaves"""
    shape, axis = shape_of(op.indices), op.attrs["axis"] % len(shape_of(op.x))
    x = _sub_box(here, op.x, shape, axis)
    n = shape_of(x)[axis]
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    mask = hits(here, reshape(here, op.indices, (outer, shape[axis], inner)), n, 2, 1)
    rows = reshape(here, x, (outer, 1, n, inner))
    return reshape(here, picked(here, mask, rows, 2), shape)


def flat_places(here: Here, indices: SSAValue, extents: Shape) -> SSAValue:
    """Tuples of indices, the last axis, as places in the flattened `extents`."""
    wide = cast(here, indices, dtypes.I32)
    sizes = np.asarray(extents, np.int32)
    below = here.make(LessOp, wide, number(here, 0, dtypes.I32))
    ends = here.make(WhereOp, below, here.constant(sizes), number(here, 0, dtypes.I32))
    front = here.make(AddOp, wide, ends)
    steps = np.asarray([prod(extents[i + 1 :]) for i in range(len(extents))], np.int32)
    parts = here.make(MulOp, front, here.constant(steps))
    return here.make(ReduceSumOp, parts, axes=(len(shape_of(indices)) - 1,), keepdims=False)


def _gather_nd(here: Here, op: GatherNDOp) -> SSAValue:
    """Gather by tuples -> their places, then a gather of slices"""
    b = op.attrs["batch_dims"]
    shape, indices = shape_of(op.x), shape_of(op.indices)
    k = indices[-1]
    batches, extents, rest = prod(shape[:b]), shape[b : b + k], shape[b + k :]
    tuples = reshape(here, op.indices, (batches, prod(indices[b:-1]), k))
    at = flat_places(here, tuples, extents)
    if batches > 1:
        first = np.arange(batches, dtype=np.int32).reshape(-1, 1) * prod(extents)
        at = here.make(AddOp, at, here.constant(first.astype(np.int32)))
    rows = reshape(here, op.x, (batches * prod(extents), prod(rest)))
    return reshape(here, here.make(GatherOp, rows, at, axis=0), shape_of(op.out))


_NEUTRAL = {ScatterMode.NONE: 0, ScatterMode.ADD: 0, ScatterMode.MUL: 1}
_REDUCE: dict[ScatterMode, type[GraphOp]] = {
    ScatterMode.NONE: ReduceSumOp,
    ScatterMode.ADD: ReduceSumOp,
    ScatterMode.MUL: ReduceProdOp,
    ScatterMode.MAX: ReduceMaxOp,
    ScatterMode.MIN: ReduceMinOp,
}
_INTO: dict[ScatterMode, type[GraphOp]] = {
    ScatterMode.ADD: AddOp,
    ScatterMode.MUL: MulOp,
    ScatterMode.MAX: MaxOp,
    ScatterMode.MIN: MinOp,
}


def _limit(mode: ScatterMode, dtype: DType) -> float:
    """What a reduction gives back of nothing."""
    if mode in _NEUTRAL:
        return _NEUTRAL[mode]
    largest = mode is ScatterMode.MIN
    if dtype.is_float:
        return np.inf if largest else -np.inf
    info = np.iinfo(dtype.numpy)
    return int(info.max if largest else info.min)


def _scattered(
    here: Here, mode: ScatterMode, x: SSAValue, mask: SSAValue, updates: SSAValue, axis: int
) -> tuple[SSAValue, SSAValue]:
    """Where anything arrives, and there the combination of x and what does.

    `axis` is that of the updates in the mask; x has it no more.
    """
    dtype = dtype_of(x)
    wide = dtypes.I32 if dtype in NARROW else dtype
    nothing = number(here, _limit(mode, wide), wide)
    arriving = here.make(WhereOp, mask, cast(here, updates, wide), nothing)
    total = here.make(_REDUCE[mode], arriving, axes=(axis,), keepdims=False)
    flags = cast(here, mask, dtypes.F16)
    any_ = cast(here, here.make(ReduceMaxOp, flags, axes=(axis,), keepdims=False), dtypes.B8)
    if mode in _INTO:
        total = here.make(_INTO[mode], cast(here, x, wide), total)
    return any_, cast(here, total, dtype)


SLICE = 16
"""Elements of a slice from which on any number of slices is put in one by one."""


def one_by_one(op: ScatterNDOp) -> bool:
    """Whether slices are written where they go; their number is small, or they are not."""
    shape, indices = shape_of(op.x), shape_of(op.indices)
    few = prod(indices[:-1]) <= SLICE or prod(shape[indices[-1] :]) >= SLICE
    return few and indices[-1] > 0 and op.attrs["reduction"] is ScatterMode.NONE


def _scatter_elements(here: Here, op: ScatterElementsOp) -> SSAValue:
    """Scatter elements -> a mask of places, then a reduction over the updates of each"""
    shape, axis = shape_of(op.indices), op.attrs["axis"] % len(shape_of(op.x))
    box = _sub_box(here, op.x, shape, axis)
    n, outer, inner = shape_of(box)[axis], prod(shape[:axis]), prod(shape[axis + 1 :])
    flat = (outer, shape[axis], inner)
    mask = hits(here, reshape(here, op.indices, flat), n, 2, 1)
    updates = reshape(here, op.updates, (outer, shape[axis], 1, inner))
    rows = reshape(here, box, (outer, n, inner))
    any_, total = _scattered(here, op.attrs["reduction"], rows, mask, updates, 1)
    any_, total = (reshape(here, v, shape_of(box)) for v in (any_, total))
    if shape_of(box) != shape_of(op.x):
        ends = [a - b for a, b in zip(shape_of(op.x), shape_of(box), strict=True)]
        pads = (*(0,) * len(ends), *ends)
        any_, total = (here.make(PadOp, v, pads=pads) for v in (any_, total))
    return here.make(WhereOp, any_, total, op.x)


def _scatter_nd(here: Here, op: ScatterNDOp) -> SSAValue | None:
    """Scatter by tuples -> slices one by one, or a mask and a reduction over what arrives"""
    shape, indices = shape_of(op.x), shape_of(op.indices)
    k = indices[-1]
    n, count = prod(shape[:k]), prod(indices[:-1])
    if k == 1 and one_by_one(op):
        return None
    at = flat_places(here, reshape(here, op.indices, (count, k)), shape[:k])
    if one_by_one(op):
        rest = (prod(shape[k:]),)
        rows, updates = reshape(here, op.x, (n, *rest)), reshape(here, op.updates, (count, *rest))
        put = here.make(ScatterNDOp, rows, reshape(here, at, (count, 1)), updates)
        return reshape(here, put, shape)
    mask = here.make(EqualOp, reshape(here, at, (1, count, 1)), places(here, n, 2))
    rows = reshape(here, op.x, (n, prod(shape[k:])))
    updates = reshape(here, op.updates, (1, count, prod(shape[k:])))
    any_, total = _scattered(here, op.attrs["reduction"], rows, mask, updates, 1)
    return reshape(here, here.make(WhereOp, any_, total, rows), shape)


def _one_hot(here: Here, op: OneHotOp) -> SSAValue:
    """One hot -> a mask of places, then a choice of two numbers"""
    shape, depth = shape_of(op.indices), op.attrs["depth"]
    axis = op.attrs["axis"] % (len(shape) + 1)
    mask = hits(here, op.indices, depth, axis, len(shape) - axis)
    off, on = (reshape(here, part(here, op.values, 0, i, i + 1), ()) for i in (0, 1))
    return here.make(WhereOp, mask, on, off)


def _hardmax(here: Here, op: HardmaxOp) -> SSAValue:
    """Hardmax -> where the places are those of the largest"""
    axis = op.attrs["axis"] % len(shape_of(op.x))
    n, behind = shape_of(op.x)[axis], len(shape_of(op.x)) - axis - 1
    best = here.make(ArgMaxOp, op.x, axis=axis, keepdims=True)
    at = places(here, n, behind)
    return cast(here, here.make(EqualOp, cast(here, best, dtypes.I32), at), dtype_of(op.x))


def _circular(here: Here, op: TensorScatterOp) -> SSAValue | None:
    """A cache that goes round -> where an update lies, it, else what was there"""
    if op.attrs["mode"] is ScatterPlaces.LINEAR:
        return None
    shape, rank = shape_of(op.x), len(shape_of(op.x))
    axis = op.attrs["axis"] % rank
    count, most = shape_of(op.updates)[axis], shape[axis]
    line = places(here, most, rank - axis - 1)
    place = line
    if op.start is not None:
        column = reshape(here, cast(here, op.start, dtypes.I32), (shape[0], *(1,) * (rank - 1)))
        place = here.make(SubOp, line, column)
        around = here.make(AddOp, place, number(here, most, dtypes.I32))
        below = here.make(LessOp, place, number(here, 0, dtypes.I32))
        place = here.make(WhereOp, below, around, place)
    inside = here.make(LessOp, place, number(here, count, dtypes.I32))
    index = here.make(WhereOp, inside, place, number(here, 0, dtypes.I32))
    index = here.make(ExpandOp, index, shape=shape)
    return here.make(
        WhereOp, inside, here.make(GatherElementsOp, op.updates, index, axis=axis), op.x
    )


INDEXING: Rules = {
    GatherElementsOp: [_gather_elements],
    GatherNDOp: [_gather_nd],
    ScatterElementsOp: [_scatter_elements],
    ScatterNDOp: [_scatter_nd],
    TensorScatterOp: [_circular],
    OneHotOp: [_one_hot],
    HardmaxOp: [_hardmax],
}
