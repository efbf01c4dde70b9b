"""`split-rows`: rows that no vector memory holds are reduced in pieces, and those reduced again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf, prod
from typing import Any, TypeAlias

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ge.dialects import dtypes
from ge.dialects.graph.base import GraphOp, shape_of
from ge.dialects.graph.ops import binary, norm, reduce, unary
from ge.dialects.graph.ops.activation import ClipOp, finite_range
from ge.dialects.graph.ops.layout import ConcatOp
from ge.dialects.graph.ops.pool import GlobalAveragePoolOp, GlobalMaxPoolOp, GlobalPoolOp
from ge.dialects.npu import target as targets
from ge.dialects.npu.places import Space
from ge.lowering.decompose_indexing import cast, dtype_of, number, part, reshape
from ge.lowering.kernels.reducing_ops import REDUCING
from ge.lowering.rewriting import Here, Rule, rewrite

Axes = tuple[int, ...]
Write: TypeAlias = "Callable[[Here, Any, Axes], SSAValue]"
"""How an operator is written so that its rows can be reduced in pieces."""

FUSED = 2
"""Rows that are left for what a kernel takes in from its neighbours."""


@dataclass(frozen=True)
class SplitRowsPass(ModulePass):
    """Reduce rows that are longer than the vector memory in pieces."""

    name = "split-rows"
    target: str = "ascend910b1"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = targets.load(self.target)
        room = machine.bytes_of[Space.UB] // dtypes.F32.bytes
        written = {kind: [_rule(_longest(rows, room), way)] for kind, (rows, way) in WAYS.items()}
        longest = _longest(SUMMED, room)
        sums = _rule(longest, partial(_pieces, longest=longest))
        rewrite(op, {**written, **{kind: [sums] for kind in SUMS}})


def _longest(rows: int, room: int) -> int:
    """Elements of a row of which a kernel may hold `rows` at once."""
    return room // (rows + FUSED)


def _rule(longest: int, write: Write) -> Rule:
    """The other way to write it, for rows that leave no room for all that is computed of them."""

    def rule(here: Here, op: GraphOp) -> SSAValue | None:
        shape = shape_of(op.operands[0])
        axes = _axes(op, len(shape))
        if prod(shape[a] for a in axes) <= longest or not prod(shape):
            return None
        return write(here, op, axes)

    return rule


def _axes(op: GraphOp, rank: int) -> Axes:
    if isinstance(op, GlobalPoolOp):
        return tuple(range(2, rank))
    return REDUCING[type(op)].axes(op.attrs, rank)


# What may be reduced piece by piece

SUMS = (reduce.ReduceSumOp, reduce.ReduceMaxOp, reduce.ReduceMinOp, reduce.ReduceProdOp)
SUMMED = 2
"""Rows that a kernel of one of them holds at once."""


def _pieces(here: Here, op: reduce.ReduceOp, axes: Axes, longest: int) -> SSAValue:
    """`r(x) -> r(r(pieces of x))`: over the last axes that are short together, or part of one."""
    x = _wide(here, op.x)
    kind, shape = type(op), shape_of(x)
    short: list[int] = []
    for axis in reversed(axes):
        if prod(shape[a] for a in short) * shape[axis] <= longest:
            short.append(axis)
    if any(shape[axis] > 1 for axis in short):
        inner = here.make(kind, x, axes=tuple(sorted(short)), keepdims=True)
    else:
        axis = next(a for a in reversed(axes) if shape[a] > 1)
        inner = _cut(here, x, kind, axis, longest)
    return _ended(here, op, here.make(kind, inner, axes=axes, keepdims=True))


def _cut(here: Here, x: SSAValue, kind: type[reduce.ReduceOp], axis: int, longest: int) -> SSAValue:
    """The pieces of one axis, reduced; what is left behind the last whole one is a piece too."""
    shape = shape_of(x)
    n = shape[axis]
    count = -(-n // longest)
    length = n // count if n % count == 0 else -(-n // count)
    whole = n // length
    rows = part(here, x, axis, 0, whole * length)
    rows = reshape(here, rows, (*shape[:axis], whole, length, *shape[axis + 1 :]))
    made = here.make(kind, rows, axes=(axis + 1,), keepdims=False)
    if whole * length == n:
        return made
    rest = here.make(kind, part(here, x, axis, whole * length, n), axes=(axis,), keepdims=True)
    return here.make(ConcatOp, made, rest, axis=axis)


# What is written with those


def _of(
    here: Here,
    kind: type[reduce.ReduceOp],
    x: SSAValue,
    axes: Axes,
) -> SSAValue:
    """A reduction that keeps its axes as dims of 1."""
    return here.make(kind, x, axes=axes, keepdims=True)


def _wide(here: Here, x: SSAValue) -> SSAValue:
    """Small floats in single precision, as a kernel computes with them."""
    small = dtype_of(x) in (dtypes.F16, dtypes.BF16)
    return cast(here, x, dtypes.F32) if small else x


def _ended(here: Here, op: Any, value: SSAValue) -> SSAValue:
    """The value in the type and shape that the operator gives."""
    return reshape(here, cast(here, value, dtype_of(op.out)), shape_of(op.out))


def _total(
    before: Callable[[Here, SSAValue], SSAValue], *behind: type[GraphOp]
) -> Callable[[Here, Any, Axes], SSAValue]:
    """A sum of what `before` makes of each element, and what is done to it."""

    def write(here: Here, op: Any, axes: Axes) -> SSAValue:
        value = _of(here, reduce.ReduceSumOp, before(here, _wide(here, op.x)), axes)
        for kind in behind:
            value = here.make(kind, value)
        return _ended(here, op, value)

    return write


def _same(here: Here, x: SSAValue) -> SSAValue:
    return x


def _size(here: Here, x: SSAValue) -> SSAValue:
    return here.make(unary.AbsOp, x)


def _square(here: Here, x: SSAValue) -> SSAValue:
    return here.make(binary.MulOp, x, x)


def _average(here: Here, x: SSAValue, axes: Axes) -> SSAValue:
    n = prod(shape_of(x)[a] for a in axes)
    total, dtype = _of(here, reduce.ReduceSumOp, x, axes), dtype_of(x)
    if dtype.is_float:
        return here.make(binary.MulOp, total, number(here, 1.0 / n, dtype))
    return here.make(binary.DivOp, total, number(here, n, dtype))


def _mean(here: Here, op: Any, axes: Axes) -> SSAValue:
    return _ended(here, op, _average(here, _wide(here, op.x), axes))


def _largest(here: Here, op: Any, axes: Axes) -> SSAValue:
    return _ended(here, op, _of(here, reduce.ReduceMaxOp, op.x, axes))


def _log_sum_exp(here: Here, op: Any, axes: Axes) -> SSAValue:
    x = _wide(here, op.x)
    # An infinite one less itself would be no number.
    ends = (number(here, end, dtypes.F32) for end in finite_range(np.dtype(np.float32)))
    top = here.make(ClipOp, _of(here, reduce.ReduceMaxOp, x, axes), *ends)
    grown = here.make(unary.ExpOp, here.make(binary.SubOp, x, top))
    total = here.make(unary.LogOp, _of(here, reduce.ReduceSumOp, grown, axes))
    return _ended(here, op, here.make(binary.AddOp, total, top))


def _softmax(here: Here, op: Any, axes: Axes) -> SSAValue:
    x = _wide(here, op.x)
    below = here.make(binary.SubOp, x, _of(here, reduce.ReduceMaxOp, x, axes))
    grown = here.make(unary.ExpOp, below)
    total = _of(here, reduce.ReduceSumOp, grown, axes)
    if isinstance(op, norm.LogSoftmaxOp):
        return _ended(here, op, here.make(binary.SubOp, below, here.make(unary.LogOp, total)))
    return _ended(here, op, here.make(binary.DivOp, grown, total))


def _norm(here: Here, op: Any, axes: Axes) -> SSAValue:
    """`(x - mean(x)) / sqrt(mean(square of that) + epsilon) * scale + b`; RMS without the mean."""
    x = _wide(here, op.x)
    layer = isinstance(op, norm.LayerNormalizationOp)
    if layer:
        x = here.make(binary.SubOp, x, _average(here, x, axes))
    variance = _average(here, _square(here, x), axes)
    raised = here.make(binary.AddOp, variance, number(here, op.attrs["epsilon"], dtype_of(x)))
    normal = here.make(binary.DivOp, x, here.make(unary.SqrtOp, raised))
    value = here.make(binary.MulOp, normal, _wide(here, op.scale))
    if layer and op.b is not None:
        value = here.make(binary.AddOp, value, _wide(here, op.b))
    return _ended(here, op, value)


def _place(best: type[reduce.ReduceOp]) -> Callable[[Here, Any, Axes], SSAValue]:
    """Where the elements equal the best one, their places; of these the first or the last."""

    def write(here: Here, op: Any, axes: Axes) -> SSAValue:
        (axis,) = axes
        x, dtype = op.x, dtype_of(op.x)
        n = shape_of(x)[axis]
        line = np.arange(n, dtype=np.int32).reshape(n, *(1,) * (len(shape_of(x)) - 1 - axis))
        if dtype.is_float:
            # What is not a number is the best one in the first place and never in others.
            top = inf if best is reduce.ReduceMaxOp else -inf
            ends = here.constant(np.where(line == 0, top, -top).astype(dtype.numpy))
            x = here.make(binary.WhereOp, here.make(unary.IsNaNOp, x), ends, x)
        found = here.make(binary.EqualOp, x, _of(here, best, x, axes))
        last = op.attrs["select_last_index"]
        other = number(here, -1 if last else n, dtypes.I32)
        places = here.make(binary.WhereOp, found, here.constant(line), other)
        end = reduce.ReduceMaxOp if last else reduce.ReduceMinOp
        return _ended(here, op, _of(here, end, places, axes))

    return write


WAYS: dict[type[GraphOp], tuple[int, Write]] = {
    reduce.ReduceMeanOp: (2, _mean),
    reduce.ReduceL1Op: (3, _total(_size)),
    reduce.ReduceL2Op: (3, _total(_square, unary.SqrtOp)),
    reduce.ReduceSumSquareOp: (3, _total(_square)),
    reduce.ReduceLogSumOp: (2, _total(_same, unary.LogOp)),
    reduce.ReduceLogSumExpOp: (3, _log_sum_exp),
    norm.SoftmaxOp: (4, _softmax),
    norm.LogSoftmaxOp: (5, _softmax),
    norm.LayerNormalizationOp: (6, _norm),
    norm.RMSNormalizationOp: (6, _norm),
    reduce.ArgMaxOp: (4, _place(reduce.ReduceMaxOp)),
    reduce.ArgMinOp: (4, _place(reduce.ReduceMinOp)),
    GlobalAveragePoolOp: (2, _mean),
    GlobalMaxPoolOp: (2, _largest),
}
"""The other operators that span rows: how many a kernel holds at once, and the way."""
