"""`fold-batch-norm`: a convolution takes the batch norm behind it into its weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.passes import ModulePass

from ge.dialects.graph.base import Array, ConstantOp, constant_of
from ge.dialects.graph.module import functions_of
from ge.dialects.graph.ops.conv import ConvOp
from ge.dialects.graph.ops.norm import BatchNormalizationOp
from ge.lowering.image_anchors import folded_batch_norm
from ge.lowering.rewriting import drop_unread

FOLDED = "batch_norms_folded"
HALF = 2
"""Bytes of a half float."""
LOST = 2.0**-7
"""An error of all weights together that is more than rounding them gives, in bf16 too."""


@dataclass(frozen=True)
class FoldBatchNormPass(ModulePass):
    """Fold batch norms into the convolutions before them.

    batch_norm(conv(x, w, b)) -> conv(x, w * factor, b * factor + summand), when only it reads.
    """

    name = "fold-batch-norm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        folded = 0
        for norm in [n for function in functions_of(op) for n in function.body.block.ops]:
            if isinstance(norm, BatchNormalizationOp):
                folded += _fold(norm)
        op.attributes[FOLDED] = IntegerAttr(folded, i64)


def _lost(exact: Array, rounded: Array) -> bool:
    """Whether weights became so small that half floats do not hold them any more."""
    if rounded.dtype.itemsize > HALF:
        return False
    error = np.linalg.norm(rounded.astype(np.float64) - exact)
    return bool(error > LOST * np.linalg.norm(exact))


def _fold(norm: BatchNormalizationOp) -> bool:
    conv = norm.x.owner
    if not isinstance(conv, ConvOp) or not conv.results[0].has_one_use():
        return False
    weights = constant_of(conv.w)
    bias = constant_of(conv.b) if conv.b is not None else None
    parameters = [constant_of(v) for v in (norm.scale, norm.b, norm.mean, norm.var)]
    known = [p for p in parameters if p is not None]
    if weights is None or len(known) != 4 or (conv.b is not None and bias is None):
        return False
    wide = [p.astype(np.float64) for p in known]
    factor, summand = folded_batch_norm(wide, norm.attrs["epsilon"])
    if bias is not None:
        summand = bias * factor + summand
    column = factor.reshape(-1, *(1,) * (weights.ndim - 1))
    exact = (weights * column, summand)
    rounded = [np.ascontiguousarray(a.astype(weights.dtype)) for a in exact]
    if _lost(exact[0], rounded[0]):
        return False
    new = [ConstantOp.of(a) for a in rounded]
    merged = ConvOp.make(conv.x, new[0].out, new[1].out, **conv.attrs)
    if names := [o.source for o in (conv, norm) if o.source]:
        merged.attributes["source"] = StringAttr(",".join(names))
    block = norm.parent
    assert block is not None
    block.insert_ops_before([*new, merged], norm)
    norm.results[0].replace_all_uses_with(merged.results[0])
    # With them go the constants that are folded, or every text would carry those too.
    drop_unread(norm)
    return True
