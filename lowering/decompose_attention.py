"""Attention as one operator, written as what its fusion knows: product, softmax, product."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects import dtypes
from ge.dialects.graph.base import shape_of
from ge.dialects.graph.ops.attention import AttentionOp
from ge.dialects.graph.ops.binary import AddOp, AndOp, GreaterOp, MaxOp, MulOp, WhereOp
from ge.dialects.graph.ops.layout import TransposeOp
from ge.dialects.graph.ops.linear import MatMulOp
from ge.dialects.graph.ops.norm import SoftmaxOp
from ge.dialects.graph.ops.reduce import ReduceMaxOp
from ge.dialects.graph.ops.trigonometry import TanhOp
from ge.lowering.decompose_indexing import cast, dtype_of, number, reshape
from ge.lowering.rewriting import Here, Rules

HIDDEN = {dtypes.F32: -3e38, dtypes.BF16: -3e38, dtypes.F16: -65504.0}
"""The score of a key that a query must not see: no weight comes of it, and no nan either."""


def _attention(here: Here, op: AttentionOp) -> SSAValue:
    """softmax(scale * Q K' + mask) V; queries that share a head of keys stand beside each other"""
    attrs = op.attrs
    q = _heads(here, op.q, attrs["q_num_heads"])
    k, v = (_heads(here, x, attrs["kv_num_heads"]) for x in (op.k, op.v))
    b, h, s, d = shape_of(q)
    heads, t = shape_of(k)[1:3]
    shared = h // heads
    if shared > 1:
        q = reshape(here, q, (b, heads, shared, s, d))
        k, v = (reshape(here, x, (b, heads, 1, t, shape_of(x)[-1])) for x in (k, v))
    rank = len(shape_of(k))
    turned = here.make(TransposeOp, k, perm=(*range(rank - 2), rank - 1, rank - 2))
    dtype = dtype_of(q)
    factor = d**-0.5 if attrs["scale"] is None else attrs["scale"]
    scores = here.make(MulOp, here.make(MatMulOp, q, turned), number(here, factor, dtype))
    if cap := attrs["softcap"]:
        capped = here.make(TanhOp, here.make(MulOp, scores, number(here, 1 / cap, dtype)))
        scores = here.make(MulOp, capped, number(here, cap, dtype))
    mask, seen = _mask(here, op, (s, t), shared)
    if mask is not None:
        scores = _masked(here, scores, mask)
    y = here.make(MatMulOp, here.make(SoftmaxOp, scores, axis=-1), v)
    if seen is not None:
        y = here.make(WhereOp, seen, y, number(here, 0, dtype))
    y = reshape(here, y, (b, h, s, shape_of(v)[-1]))
    if len(shape_of(op.q)) == 4:
        return y
    return reshape(here, here.make(TransposeOp, y, perm=(0, 2, 1, 3)), shape_of(op.out))


def _heads(here: Here, x: SSAValue, heads: int | None) -> SSAValue:
    """Batch, heads, length and head size as dims of their own."""
    if len(shape_of(x)) == 4:
        return x
    b, s, width = shape_of(x)
    assert heads is not None
    apart = reshape(here, x, (b, s, heads, width // heads))
    return here.make(TransposeOp, apart, perm=(0, 2, 1, 3))


def _masked(here: Here, scores: SSAValue, mask: SSAValue) -> SSAValue:
    dtype = dtype_of(scores)
    hidden = number(here, HIDDEN[dtype], dtype)
    if dtype_of(mask) is dtypes.B8:
        return here.make(WhereOp, mask, scores, hidden)
    return here.make(AddOp, scores, here.make(MaxOp, mask, hidden))


def _mask(
    here: Here, op: AttentionOp, size: tuple[int, int], shared: int
) -> tuple[SSAValue | None, SSAValue | None]:
    """What is seen of the keys, and whether a query sees any; None where that is not in doubt."""
    causal = here.constant(np.tri(*size, dtype=bool)) if op.attrs["is_causal"] else None
    mask: SSAValue | None = op.attn_mask
    if mask is None:
        return causal, None
    own = (1,) * (4 - len(shape_of(mask))) + shape_of(mask)
    if shared > 1:
        groups = (own[1] // shared, shared) if own[1] > 1 else (1, 1)
        own = (own[0], *groups, *own[2:])
    mask = reshape(here, mask, own)
    if dtype_of(mask) is not dtypes.B8:
        hidden = number(here, HIDDEN[dtype_of(mask)], dtype_of(mask))
        if causal is not None:
            mask = here.make(WhereOp, causal, mask, hidden)
        best = here.make(ReduceMaxOp, mask, axes=(len(own) - 1,), keepdims=True)
        return mask, here.make(GreaterOp, best, hidden)
    if causal is not None:
        mask = here.make(AndOp, mask, causal)
    flags = cast(here, mask, dtypes.F16)
    best = here.make(ReduceMaxOp, flags, axes=(len(shape_of(flags)) - 1,), keepdims=True)
    return mask, cast(here, best, dtypes.B8)


ATTENTION: Rules = {AttentionOp: [_attention]}
