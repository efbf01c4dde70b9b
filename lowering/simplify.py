"""simplify: operations that change nothing go, those that undo or repeat each other are joined."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ge.dialects import dtypes
from ge.dialects.dtypes import DType
from ge.dialects.graph.base import GraphOp, shape_of
from ge.dialects.graph.ops.activation import ReluOp
from ge.dialects.graph.ops.binary import AddOp, DivOp, MulOp, PowOp, SubOp
from ge.dialects.graph.ops.layout import (
    ConcatOp,
    ExpandOp,
    FlattenOp,
    PadOp,
    ReshapeOp,
    SliceOp,
    SplitOp,
    SqueezeOp,
    TileOp,
    TransposeOp,
    UnsqueezeOp,
)
from ge.dialects.graph.ops.linear import GemmOp
from ge.dialects.graph.ops.norm import SoftmaxOp
from ge.dialects.graph.ops.unary import CastOp, DropoutOp, IdentityOp, SqrtOp
from ge.lowering.decompose_indexing import dtype_of
from ge.lowering.matching import number_of, pair
from ge.lowering.rewriting import Here, Rules, rewrite


@dataclass(frozen=True)
class SimplifyPass(ModulePass):
    """Remove operations that change nothing, join those that undo each other."""

    name = "simplify"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, RULES)


def _operand(here: Here, op: IdentityOp) -> SSAValue:
    """identity(x) -> x"""
    return op.x


def _dropout(here: Here, op: DropoutOp) -> SSAValue | None:
    """dropout(x) -> x, but behind a softmax it stays: one kernel computes the two of them."""
    return None if isinstance(op.x.owner, SoftmaxOp) else op.x


def _add_zero(here: Here, op: AddOp) -> SSAValue | None:
    """X + 0 -> x"""
    return next((x for x, y in pair(op) if number_of(y) == 0 and x.type == op.out.type), None)


def _times_one(here: Here, op: MulOp) -> SSAValue | None:
    """X * 1 -> x"""
    return next((x for x, y in pair(op) if number_of(y) == 1 and x.type == op.out.type), None)


def _minus_zero(here: Here, op: SubOp) -> SSAValue | None:
    """X - 0 -> x"""
    return op.lhs if number_of(op.rhs) == 0 and op.lhs.type == op.out.type else None


def _over_one(here: Here, op: DivOp) -> SSAValue | None:
    """X / 1 -> x"""
    return op.lhs if number_of(op.rhs) == 1 and op.lhs.type == op.out.type else None


def _power(here: Here, op: PowOp) -> SSAValue | None:
    """X ** 1 -> x, x ** 2 -> x * x, x ** 0.5 -> sqrt(x)"""
    if op.lhs.type != op.out.type:
        return None
    match number_of(op.rhs):
        case 1.0:
            return op.lhs
        case 2.0:
            return here.make(MulOp, op.lhs, op.lhs)
        case 0.5 if _element(op.lhs).is_float:
            return here.make(SqrtOp, op.lhs)
    return None


def _cast(here: Here, op: CastOp) -> SSAValue | None:
    """cast(x) to its own type -> x; cast(cast(x)) -> cast(x) when the first one loses nothing"""
    if op.x.type == op.out.type:
        return op.x
    inner = op.x.owner
    if not isinstance(inner, CastOp) or not _holds(_element(op.x), _element(inner.x)):
        return None
    if inner.x.type == op.out.type:
        return inner.x
    return here.make(CastOp, inner.x, absorbs=[op.x], to=op.attrs["to"])


def _element(value: SSAValue) -> DType:
    type_: Any = value.type
    return dtypes.of_ir(type_.element_type)


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is one of `wide`."""
    if wide.is_float and narrow.is_float:
        # bf16 has the range of f32 and f16 has not: neither of the two holds the other.
        return wide.bits > narrow.bits or wide is narrow
    if wide.is_float or narrow.is_float or dtypes.B8 in (wide, narrow):
        return wide is narrow
    return wide.bits > narrow.bits and (wide.name[0] == "i" or narrow.name[0] == "u")


def _transpose(here: Here, op: TransposeOp) -> SSAValue | None:
    """Two transposes -> one; one that moves only dims of 1 -> reshape; one that moves none -> x"""
    perm = op.attrs["perm"]
    inner = op.x.owner
    if isinstance(inner, TransposeOp):
        first = inner.attrs["perm"]
        joined = tuple(first[p] for p in perm)
        return here.make(TransposeOp, inner.x, absorbs=[op.x], perm=joined)
    shape = shape_of(op.x)
    moved = [p for p in perm if shape[p] != 1]
    if perm == tuple(sorted(perm)):
        return op.x
    return here.make(ReshapeOp, op.x, shape=shape_of(op.out)) if moved == sorted(moved) else None


def _reshape(here: Here, op: Any) -> SSAValue | None:
    """Every view -> reshape; a view of a view -> one; to the same shape -> x"""
    if op.x.type == op.out.type:
        return op.x  # type: ignore[no-any-return]
    inner = op.x.owner
    if isinstance(inner, VIEWS):
        source: SSAValue = inner.operands[0]
        if source.type == op.out.type:
            return source
        return here.make(ReshapeOp, source, absorbs=[op.x], shape=shape_of(op.out))
    return None if isinstance(op, ReshapeOp) else here.make(ReshapeOp, op.x, shape=shape_of(op.out))


def _same_type(here: Here, op: Any) -> SSAValue | None:
    """slice, pad, expand, tile or split that gives all of its only operand -> x"""
    single = len(op.operands) == 1 and len(op.results) == 1
    return op.operands[0] if single and op.operands[0].type == op.results[0].type else None


def _only_part(here: Here, op: ConcatOp) -> SSAValue | None:
    """concat(x, y) -> x, when y has no elements"""
    parts = [v for v in op.operands if prod(shape_of(v))]
    return parts[0] if len(parts) == 1 else None


def _only_bias(here: Here, op: GemmOp) -> SSAValue | None:
    """gemm(a, b, c) -> expand(c * beta), when there is nothing to sum"""
    if op.c is None or 0 not in shape_of(op.a) or 0 in shape_of(op.out):
        return None
    beta = np.asarray(op.attrs["beta"], dtype_of(op.c).numpy)
    scaled = here.make(MulOp, op.c, here.constant(beta))
    return here.make(ExpandOp, scaled, shape=shape_of(op.out))


def _slice(here: Here, op: SliceOp) -> SSAValue | None:
    """Slice of everything, forwards -> x"""
    forwards = all(step > 0 for step in op.attrs["steps"]) or prod(shape_of(op.x)) == 0
    return op.x if forwards and op.x.type == op.out.type else None


def _pad(here: Here, op: PadOp) -> SSAValue | None:
    """Pad by nothing -> x"""
    return None if any(op.attrs["pads"]) else op.x


def _relu(here: Here, op: ReluOp) -> SSAValue | None:
    """relu(relu(x)) -> relu(x)"""
    return op.x if isinstance(op.x.owner, ReluOp) else None


VIEWS: tuple[type[GraphOp], ...] = (ReshapeOp, FlattenOp, SqueezeOp, UnsqueezeOp)

RULES: Rules = {
    IdentityOp: [_operand],
    DropoutOp: [_dropout],
    AddOp: [_add_zero],
    SubOp: [_minus_zero],
    MulOp: [_times_one],
    DivOp: [_over_one],
    PowOp: [_power],
    CastOp: [_cast],
    TransposeOp: [_transpose],
    **{cls: [_reshape] for cls in VIEWS},
    SliceOp: [_slice],
    PadOp: [_pad],
    **{cls: [_same_type] for cls in (ExpandOp, TileOp, SplitOp)},
    GemmOp: [_only_bias],
    ConcatOp: [_only_part],
    ReluOp: [_relu],
}
