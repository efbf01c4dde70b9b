"""Attention as one operator."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def

from ge.dialects.graph.base import (
    TENSOR,
    Array,
    Tensor,
    TensorOp,
    broadcast,
    dims,
    need,
    same_element,
    tensor,
)
from ge.dialects.graph.kinds import Bool, Float, Int, attribute
from ge.dialects.graph.precision import in_single


@irdl_op_definition
class AttentionOp(TensorOp):
    """
    `softmax(scale * Q K' + mask) V`, head by head; 3-dim operands hold their heads in the last dim.

    ```mlir
    %r = graph.attention %q, %k, %v {is_causal = true}
      : (tensor<1x4x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x6xf32>) -> tensor<1x4x5x6xf32>
    ```
    """

    name = "graph.attention"
    ONNX: ClassVar = "Attention"
    q = operand_def(TENSOR)
    k = operand_def(TENSOR)
    v = operand_def(TENSOR)
    attn_mask = opt_operand_def(TENSOR)
    is_causal = attribute(Bool(False))
    q_num_heads = attribute(Int(None))
    kv_num_heads = attribute(Int(None))
    scale = attribute(Float(None))
    softcap = attribute(Float(0.0))

    @staticmethod
    def infer(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        *,
        q_num_heads: int | None,
        kv_num_heads: int | None,
        **how: Any,
    ) -> Tensor:
        element = same_element(q, k, v)
        (b, h, s, d), (kb, kh, t, kd), (vb, vh, vt, vd) = (
            _heads(q, q_num_heads, "q_num_heads"),
            _heads(k, kv_num_heads, "kv_num_heads"),
            _heads(v, kv_num_heads, "kv_num_heads"),
        )
        need((b, d) == (kb, kd) and (kb, kh, t) == (vb, vh, vt), f"must fit, got {q}, {k}, {v}")
        need(h % kh == 0, f"heads of k must divide heads of q, got {kh} and {h}")
        if attn_mask is not None:
            fits = broadcast(attn_mask, tensor((b, h, s, t), element)) == (b, h, s, t)
            need(fits, f"the mask must broadcast to {[b, h, s, t]}, got {attn_mask}")
            known = attn_mask.element_type in (i1, element)
            need(known, f"the mask must be i1 or {element}, got {attn_mask}")
        whole = len(dims(q)) == 4
        return tensor((b, h, s, vd) if whole else (b, s, h * vd), element)

    @staticmethod
    @in_single
    def evaluate(
        q: Array,
        k: Array,
        v: Array,
        attn_mask: Array | None = None,
        *,
        is_causal: bool,
        q_num_heads: int | None,
        kv_num_heads: int | None,
        scale: float | None,
        softcap: float,
    ) -> Array:
        qs, ks, vs = _split(q, q_num_heads), _split(k, kv_num_heads), _split(v, kv_num_heads)
        groups = qs.shape[1] // ks.shape[1]
        ks, vs = np.repeat(ks, groups, axis=1), np.repeat(vs, groups, axis=1)
        factor = qs.shape[-1] ** -0.5 if scale is None else scale
        scores = np.matmul(qs, ks.swapaxes(-1, -2)) * np.float32(factor)
        if softcap:
            scores = np.tanh(scores / np.float32(softcap)) * np.float32(softcap)
        for mask in (attn_mask, _causal(scores.shape) if is_causal else None):
            if mask is not None:
                scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
        top = scores.max(axis=-1, keepdims=True)
        e = np.exp(scores - np.where(np.isfinite(top), top, 0))
        # A row without any key left has no weights at all: its result is zero.
        total = e.sum(axis=-1, keepdims=True)
        y = np.matmul(e / np.where(total == 0, 1, total), vs)
        return y if q.ndim == 4 else y.swapaxes(1, 2).reshape(*q.shape[:2], -1)


def _heads(type_: Tensor, heads: int | None, what: str) -> tuple[int, int, int, int]:
    """Batch, heads, length and head size of an operand."""
    match dims(type_):
        case (b, h, s, d):
            return b, h, s, d
        case (b, s, width) if heads and width % heads == 0:
            return b, heads, s, width // heads
    raise _no_heads(type_, what)


def _no_heads(type_: Tensor, what: str) -> Exception:
    from xdsl.utils.exceptions import VerifyException

    return VerifyException(
        f"must have 4 dims, or 3 and '{what}' that divides the last, got {type_}"
    )


def _split(x: Array, heads: int | None) -> Array:
    return x if x.ndim == 4 else x.reshape(*x.shape[:2], heads or 1, -1).swapaxes(1, 2)


def _causal(shape: tuple[int, ...]) -> Array:
    return np.tri(shape[-2], shape[-1], dtype=bool)
