"""raise-rms-norm: `x / sqrt(mean(x * x) + epsilon) * scale` is one operator."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.ops.binary import DivOp, MulOp
from ge.dialects.graph.ops.norm import RMSNormalizationOp
from ge.lowering.matching import pair
from ge.lowering.norm_matching import (
    Root,
    is_unit,
    over_root,
    row_parameter,
    times_root,
    unit_scale,
)
from ge.lowering.rewriting import Here, Rules, rewrite


@dataclass(frozen=True)
class RaiseRmsNormPass(ModulePass):
    """Raise an RMS norm that an exporter wrote out."""

    name = "raise-rms-norm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, RULES)


def _raise(here: Here, x: SSAValue, root: Root) -> SSAValue:
    scale = unit_scale(here, x, root.axis)
    return here.make(
        RMSNormalizationOp, x, scale, absorbs=root.values, axis=root.axis, epsilon=root.epsilon
    )


def _quotient(here: Here, op: DivOp) -> SSAValue | None:
    """X / sqrt(mean(x * x) + epsilon)"""
    root = over_root(op, op.lhs)
    return None if root is None else _raise(here, op.lhs, root)


def _product(here: Here, op: MulOp) -> SSAValue | None:
    """X * (1 / sqrt(mean(x * x) + epsilon))"""
    for x, factor in pair(op):
        root = times_root(factor, x)
        if root is not None:
            return _raise(here, x, root)
    return None


def _scale(here: Here, op: MulOp) -> SSAValue | None:
    """rms_norm(x, 1) * scale -> rms_norm(x, scale)"""
    for value, scale in pair(op):
        norm = value.owner
        if not isinstance(norm, RMSNormalizationOp) or not value.has_one_use():
            continue
        axis = norm.attrs["axis"]
        if is_unit(norm.scale) and row_parameter(scale, value, axis):
            return here.make(RMSNormalizationOp, norm.x, scale, absorbs=[value], **norm.attrs)
    return None


RULES: Rules = {DivOp: [_quotient], MulOp: [_product, _scale]}
