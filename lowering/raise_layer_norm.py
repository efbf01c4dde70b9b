"""raise-layer-norm: `(x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) * scale + b`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.ops.binary import AddOp, DivOp, MulOp, SubOp
from ge.dialects.graph.ops.norm import LayerNormalizationOp
from ge.dialects.graph.ops.reduce import ReduceMeanOp
from ge.lowering.matching import pair
from ge.lowering.norm_matching import (
    Root,
    is_unit,
    over_root,
    row_axis,
    row_parameter,
    times_root,
    unit_scale,
)
from ge.lowering.rewriting import Here, Rules, rewrite


@dataclass(frozen=True)
class RaiseLayerNormPass(ModulePass):
    """Raise a layer norm that an exporter wrote out."""

    name = "raise-layer-norm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, RULES)


def _raise(here: Here, centred: SSAValue, root: Root | None) -> SSAValue | None:
    """The norm of x, where `centred` is x - mean(x) over the same rows as the root."""
    sub = centred.owner
    if root is None or not isinstance(sub, SubOp):
        return None
    mean = sub.rhs.owner
    if not isinstance(mean, ReduceMeanOp) or mean.x is not sub.lhs or row_axis(mean) != root.axis:
        return None
    return here.make(
        LayerNormalizationOp,
        sub.lhs,
        unit_scale(here, sub.lhs, root.axis),
        absorbs=[sub.rhs, centred, *root.values],
        axis=root.axis,
        epsilon=root.epsilon,
    )


def _quotient(here: Here, op: DivOp) -> SSAValue | None:
    """Centred / sqrt(mean(centred * centred) + epsilon)"""
    return _raise(here, op.lhs, over_root(op, op.lhs))


def _product(here: Here, op: MulOp) -> SSAValue | None:
    """Centred * (1 / sqrt(mean(centred * centred) + epsilon))"""
    for x, factor in pair(op):
        value = _raise(here, x, times_root(factor, x))
        if value is not None:
            return value
    return None


def _scale(here: Here, op: MulOp) -> SSAValue | None:
    """layer_norm(x, 1) * scale -> layer_norm(x, scale)"""
    for value, scale in pair(op):
        norm = value.owner
        if not isinstance(norm, LayerNormalizationOp) or not value.has_one_use():
            continue
        plain = norm.b is None and is_unit(norm.scale)
        if plain and row_parameter(scale, value, norm.attrs["axis"]):
            return here.make(LayerNormalizationOp, norm.x, scale, absorbs=[value], **norm.attrs)
    return None


def _bias(here: Here, op: AddOp) -> SSAValue | None:
    """layer_norm(x, scale) + b -> layer_norm(x, scale, b)"""
    for value, b in pair(op):
        norm = value.owner
        if not isinstance(norm, LayerNormalizationOp) or not value.has_one_use():
            continue
        if norm.b is None and row_parameter(b, value, norm.attrs["axis"]):
            return here.make(
                LayerNormalizationOp, norm.x, norm.scale, b, absorbs=[value], **norm.attrs
            )
    return None


RULES: Rules = {DivOp: [_quotient], MulOp: [_product, _scale], AddOp: [_bias]}
