"""Indices that name whole rows, or that are known: rows are fetched, boxes are put in their place.

Where they name elements one by one, and only when the program runs, see `decompose_indexing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from ge.dialects import dtypes
from ge.dialects.graph.base import constant_of, shape_of
from ge.dialects.graph.module import lies_over
from ge.dialects.graph.ops.binary import (
    AddOp,
    EqualOp,
    GreaterOp,
    LessOp,
    MaxOp,
    MulOp,
    SubOp,
    WhereOp,
)
from ge.dialects.graph.ops.index import (
    GatherElementsOp,
    GatherOp,
    ScatterElementsOp,
    ScatterMode,
    ScatterNDOp,
)
from ge.dialects.graph.ops.layout import ConcatOp, ExpandOp, ReshapeOp, TransposeOp
from ge.dialects.graph.ops.reduce import ReduceMaxOp
from ge.dialects.graph.ops.unary import CastOp
from ge.lowering.decompose_indexing import (
    cast,
    dtype_of,
    flat_places,
    number,
    one_by_one,
    part,
    places,
    reshape,
)
from ge.lowering.rewriting import Here, Rules

Places = NDArray[np.int64]

FETCH = 7000
"""Elements that are compared in the time in which one row is fetched."""
MOST_RUNS = 16
"""Pieces that a tensor is cut into at most, for some of them to be others."""


def _from_front(here: Here, indices: SSAValue, n: int) -> SSAValue:
    """Indices of a dim of `n` places as i32, those from its end made ones from its front."""
    at = cast(here, indices, dtypes.I32)
    behind = here.make(AddOp, at, number(here, n, dtypes.I32))
    return here.make(WhereOp, here.make(LessOp, at, number(here, 0, dtypes.I32)), behind, at)


def _spread(value: SSAValue) -> tuple[SSAValue, Places]:
    """The tensor whose elements a value repeats, and which of them stands where."""
    owner = value.owner
    if isinstance(owner, CastOp) and not dtype_of(owner.x).is_float:
        return _spread(owner.x)
    if isinstance(owner, ReshapeOp | ExpandOp | TransposeOp):
        source, at = _spread(owner.x)
        return source, np.asarray(owner.evaluate(at, **owner.attrs))
    return value, np.arange(prod(shape_of(value))).reshape(shape_of(value))


def _along(here: Here, indices: SSAValue, axes: Sequence[int]) -> SSAValue | None:
    """Indices that are the same along all dims but these, as a tensor of these, else None."""
    source, at = _spread(indices)
    known = constant_of(source)
    values = at if known is None else known.reshape(-1)[at]
    first = tuple(slice(None) if i in axes else slice(1) for i in range(at.ndim))
    shape = [at.shape[i] for i in axes]
    if (values != values[first]).any():
        return None
    if known is not None:
        return here.constant(values[first].reshape(shape))
    line = at[first].reshape(-1)
    whole = line.size == prod(shape_of(source)) and (line == np.arange(line.size)).all()
    return reshape(here, source, shape) if whole else None


def _row_indices(here: Here, indices: SSAValue, axis: int) -> SSAValue | None:
    """Indices that are the same along all dims behind their axis, under two dims."""
    shape = shape_of(indices)
    rows = _along(here, indices, range(axis + 1)) if prod(shape[axis + 1 :]) > 1 else None
    return None if rows is None else reshape(here, rows, (prod(shape[:axis]), shape[axis]))


def gather_elements(here: Here, op: GatherElementsOp) -> SSAValue | None:
    """Gather elements -> a gather of rows, or of elements where an axis has very many places"""
    shape, axis = shape_of(op.indices), op.attrs["axis"] % len(shape_of(op.x))
    x = op.x
    for i, size in enumerate(shape):
        x = x if i == axis else part(here, x, i, 0, size)
    n = shape_of(x)[axis]
    flat = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    outer, _, width = flat
    rows = _row_indices(here, op.indices, axis)
    if n * (1 if rows is None else width) < FETCH or not prod(flat):
        return None
    at = _from_front(here, reshape(here, op.indices, flat) if rows is None else rows, n)
    first = np.arange(outer, dtype=np.int32).reshape(-1, *(1,) * (len(shape_of(at)) - 1)) * n
    if outer > 1:
        at = here.make(AddOp, at, here.constant(first.astype(np.int32)))
    if rows is None and width > 1:
        at = here.make(MulOp, at, number(here, width, dtypes.I32))
        at = here.make(AddOp, at, here.constant(np.arange(width, dtype=np.int32)))
    wide = 1 if rows is None else width
    table = reshape(here, x, (prod(shape_of(x)) // wide, wide))
    line = reshape(here, at, (prod(shape_of(at)),))
    return reshape(here, here.make(GatherOp, table, line, axis=0), shape)


def scatter_elements(here: Here, op: ScatterElementsOp) -> SSAValue | None:
    """Scatter elements -> rows put in their places, where the indices name rows"""
    if not prod(shape_of(op.updates)):
        return op.x
    shape, axis = shape_of(op.indices), op.attrs["axis"] % len(shape_of(op.x))
    n = shape_of(op.x)[axis]
    as_x = (*shape[:axis], n, *shape[axis + 1 :]) == shape_of(op.x)
    flat = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    if op.attrs["reduction"] is not ScatterMode.NONE or not as_x:
        return None
    outer, count, width = flat
    rows = _row_indices(here, op.indices, axis)
    if rows is None and width == 1:
        rows = reshape(here, op.indices, (outer, count))
    if rows is None:
        return None
    x, updates = reshape(here, op.x, (outer, n, width)), reshape(here, op.updates, flat)
    if (known := constant_of(rows)) is not None:
        first = np.broadcast_to(np.arange(outer)[:, None], known.shape)
        made = _known_rows(here, x, np.stack([first, known % n], -1), updates)
    elif outer == 1:
        front = _from_front(here, reshape(here, rows, (count,)), n)
        made = _computed_rows(here, x, front, updates)
    else:
        return None
    return None if made is None else reshape(here, made, shape_of(op.x))


def scatter_in_place(here: Here, op: ScatterElementsOp) -> SSAValue | None:
    """Scatter elements over an input -> a scatter of slices, which leaves all others alone"""
    return scatter_slices(here, op) if lies_over(op.out, op.x) else None


def scatter_slices(here: Here, op: ScatterElementsOp) -> SSAValue | None:
    """Scatter elements, indices alike for whole slices -> a scatter of slices, turned round"""
    shape, axis = shape_of(op.indices), op.attrs["axis"] % len(shape_of(op.x))
    rest = [i for i in range(len(shape)) if i != axis]
    whole = all(shape[i] == shape_of(op.x)[i] for i in rest)
    column = _along(here, op.indices, [axis]) if whole else None
    if column is None or op.attrs["reduction"] is not ScatterMode.NONE:
        return None
    perm = (axis, *rest)
    x, updates = (here.make(TransposeOp, v, perm=perm) for v in (op.x, op.updates))
    put = here.make(ScatterNDOp, x, reshape(here, column, (shape[axis], 1)), updates)
    return here.make(TransposeOp, put, perm=tuple(perm.index(i) for i in range(len(perm))))


def scatter_nd(here: Here, op: ScatterNDOp) -> SSAValue | None:
    """Scatter by tuples -> boxes and rows put in their places"""
    if not prod(shape_of(op.updates)):
        return op.x
    shape, indices = shape_of(op.x), shape_of(op.indices)
    k = indices[-1]
    count, width = prod(indices[:-1]), prod(shape[k:])
    if op.attrs["reduction"] is not ScatterMode.NONE or not k:
        return None
    if lies_over(op.out, op.x) and one_by_one(op):
        return None
    x = reshape(here, op.x, (*shape[:k], width))
    updates = reshape(here, op.updates, (count, width))
    if (known := constant_of(op.indices)) is not None:
        tuples = known.reshape(count, k) % np.asarray(shape[:k])
        made = _known_rows(here, x, tuples, updates)
    elif one_by_one(op):
        return None
    else:
        at = flat_places(here, reshape(here, op.indices, (count, k)), shape[:k])
        made = _computed_rows(here, x, at, updates)
    return None if made is None else reshape(here, made, shape)


def _known_rows(here: Here, x: SSAValue, tuples: Places, updates: SSAValue) -> SSAValue | None:
    """`x` with rows in it replaced, which lie along its last dim at known tuples of the others."""
    *dims, width = shape_of(x)
    columns = tuples.reshape(-1, len(dims)).T
    low, high = columns.min(1), columns.max(1) + 1
    box = tuple(int(n) for n in high - low)
    inside = np.ravel_multi_index(tuple(columns - low[:, None]), box)
    if inside.size == prod(box) and (inside == np.arange(inside.size)).all():
        new = reshape(here, updates, (*box, width))
        return _replaced(here, x, new, [(int(a), int(b)) for a, b in zip(low, high, strict=True)])
    number_of, count = prod(dims), columns.shape[1]
    source = np.full(number_of, -1)
    source[np.ravel_multi_index(tuple(columns), tuple(dims))] = np.arange(count)
    rows, new = reshape(here, x, (number_of, width)), reshape(here, updates, (count, width))
    cuts = [0, *(np.flatnonzero(_breaks(source)) + 1), number_of]
    if len(cuts) <= MOST_RUNS:
        runs = [(int(a), int(b), int(source[a])) for a, b in pairwise(cuts)]
        pieces = [
            part(here, rows, 0, a, b) if at < 0 else part(here, new, 0, at, at + b - a)
            for a, b, at in runs
        ]
        return here.make(ConcatOp, *pieces, axis=0)
    if count * width < FETCH:
        return None
    found = here.make(GatherOp, new, here.constant(np.maximum(source, 0)), axis=0)
    return here.make(WhereOp, here.constant(source.reshape(-1, 1) >= 0), found, rows)


def _breaks(source: Places) -> NDArray[np.bool_]:
    """Where the next row does not come from the place behind the one before it."""
    before, behind = source[:-1], source[1:]
    follows = np.where(before < 0, behind < 0, behind == before + 1)
    return np.asarray(~follows)


def _replaced(
    here: Here, x: SSAValue, new: SSAValue, box: Sequence[tuple[int, int]], axis: int = 0
) -> SSAValue:
    """`x` with a box of it replaced, dim by dim: what lies before, inside and behind it."""
    if axis == len(box):
        return new
    low, high = box[axis]
    n = shape_of(x)[axis]
    middle = _replaced(here, part(here, x, axis, low, high), new, box, axis + 1)
    ends = [part(here, x, axis, a, b) for a, b in ((0, low), (high, n)) if a < b]
    if not ends:
        return middle
    pieces = [middle, *ends] if low == 0 else [ends[0], middle, *ends[1:]]
    return here.make(ConcatOp, *pieces, axis=axis)


def _computed_rows(here: Here, x: SSAValue, at: SSAValue, updates: SSAValue) -> SSAValue | None:
    """`x` with rows replaced at computed places: of each row it is found which update it gets.

    The last of those that name it, as onnxruntime has it.
    """
    *dims, width = shape_of(x)
    count, number_of = shape_of(at)[0], prod(dims)
    if count * (width - 1) < FETCH:
        return None
    mask = here.make(EqualOp, reshape(here, at, (1, count)), places(here, number_of, 1))
    order = here.constant(np.arange(1, count + 1, dtype=np.float32))
    named = here.make(WhereOp, mask, order, number(here, 0, dtypes.F32))
    last = here.make(ReduceMaxOp, named, axes=(1,), keepdims=False)
    row = here.make(MaxOp, here.make(SubOp, last, number(here, 1, dtypes.F32)), _zero(here))
    table = reshape(here, updates, (count, width))
    found = here.make(GatherOp, table, cast(here, row, dtypes.I32), axis=0)
    any_ = reshape(here, here.make(GreaterOp, last, _zero(here)), (number_of, 1))
    rows = here.make(WhereOp, any_, found, reshape(here, x, (number_of, width)))
    return reshape(here, rows, shape_of(x))


def _zero(here: Here) -> SSAValue:
    return number(here, 0, dtypes.F32)


ROWS: Rules = {
    GatherElementsOp: [gather_elements],
    ScatterElementsOp: [scatter_in_place, scatter_elements, scatter_slices],
    ScatterNDOp: [scatter_nd],
}
