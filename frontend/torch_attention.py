"""torch's attention as ONNX's, whatever the rank, and where batches or heads are shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxscript import opset23 as op
from torch.onnx._internal.exporter._torchlib.ops.nn import (
    aten_scaled_dot_product_attention_23 as with_dropout,
)

RANK = 4
"""Batch, heads, places, width."""
_Shaped = tuple[Any, list[Any]]
"""A value and its dims: what is made here does not know them."""


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """`aten::scaled_dot_product_attention`: what is before the last two dims is broadcast."""
    if dropout_p:
        how = {"scale": scale, "enable_gqa": enable_gqa}
        return with_dropout(query, key, value, attn_mask, dropout_p, is_causal, **how)
    rank = len(query.shape)
    ends = op.Concat(op.Shape(query, start=0, end=-1), _last(value, 1), axis=0)
    ins = [(v, list(v.shape)) for v in (query, key, value)]
    ins = [_of_rank(*v) for v in _alike(ins, range(rank - 3))]
    # A head may be shared as it is: the operator has it so.
    heads = [dims[1] for _, dims in ins]
    if not enable_gqa and (heads[1] != heads[2] or heads[1] not in (1, heads[0])):
        ins = _alike(ins, [1])
    if attn_mask is not None and rank > RANK and len(attn_mask.shape) >= RANK:
        before = op.Concat(op.Shape(query, start=0, end=-3), _last(attn_mask, 3), axis=0)
        dims = [*query.shape[:-3], *attn_mask.shape[-3:]]
        attn_mask, _ = _of_rank(op.Expand(attn_mask, before), dims)
    (q, _), (k, _), (v, _) = ins
    y, _, _, _ = op.Attention(q, k, v, attn_mask=attn_mask, scale=scale, is_causal=int(is_causal))
    return y if rank == RANK else op.Reshape(y, ends)


def _alike(values: Sequence[_Shaped], axes: Sequence[int]) -> list[_Shaped]:
    """The values, those with 1 along one of the axes repeated as often as the others have it."""
    found = list(values)
    for axis in axes:
        longest, dims = next((v for v in found if v[1][axis] != 1), found[0])
        size = op.Shape(longest, start=axis, end=axis + 1)
        for i, (v, own) in enumerate(found):
            if own[axis] != dims[axis]:
                parts = [op.Shape(v, start=0, end=axis), size, op.Shape(v, start=axis + 1)]
                wide = op.Expand(v, op.Concat(*parts[axis == 0 :], axis=0))
                found[i] = wide, [*own[:axis], dims[axis], *own[axis + 1 :]]
    return found


def _of_rank(value: Any, dims: list[Any]) -> _Shaped:
    """With dims of 1 in front, or the first ones joined."""
    more = RANK - len(dims)
    if more > 0:
        return op.Unsqueeze(value, op.Constant(value_ints=list(range(more)))), [1] * more + dims
    if more == 0:
        return value, dims
    joined = op.Constant(value_ints=[-1])
    return op.Reshape(value, op.Concat(joined, _last(value, 3), axis=0)), [-1, *dims[-3:]]


def _last(value: Any, count: int) -> Any:
    return op.Shape(value, start=-count)
