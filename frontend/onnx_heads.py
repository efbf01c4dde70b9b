"""Adapters of the attention that onnxruntime's optimiser writes, and of embeddings before it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ge.dialects import dtypes
from ge.dialects.graph.ops.attention import AttentionOp
from ge.dialects.graph.ops.binary import AddOp, LessOp, MulOp, SubOp
from ge.dialects.graph.ops.index import GatherOp
from ge.dialects.graph.ops.linear import MatMulOp
from ge.dialects.graph.ops.norm import LayerNormalizationOp
from ge.dialects.graph.ops.quantize import MatMulIntegerOp
from ge.dialects.graph.ops.reduce import ReduceSumOp
from ge.frontend.onnx_maths import Maths
from ge.frontend.onnx_nodes import Builder, Node, Refused, Value
from ge.frontend.onnx_optimised import EPSILON
from ge.frontend.onnx_versions import adapts

FAINT = -10000.0
"""What onnxruntime adds to the scores of keys that a mask leaves out."""


@adapts("com.microsoft.Attention")
def _attention(g: Builder, node: Node) -> list[Value]:
    """Queries, keys and values of one product; a mask of the keys, or their number"""
    _no_past(node, 4)
    m = Maths(g)
    made = m(AddOp, m(MatMulOp, node.needed(0), node.needed(1)), node.needed(2))
    return _attend(m, node, _parts(m, node, made), node.input(3), node.input(5))


@adapts("com.microsoft.QAttention")
def _quantised_attention(g: Builder, node: Node) -> list[Value]:
    _no_past(node, 8)
    m = Maths(g)
    total = g.one(MatMulIntegerOp, node.needed(0), node.needed(1), node.input(6), node.input(7))
    factor = m(MulOp, node.needed(3), node.needed(4))
    made = m(AddOp, m(MulOp, m.cast(total, dtypes.F32), factor), node.needed(2))
    return _attend(m, node, _parts(m, node, made), node.input(5), None)


@adapts("com.microsoft.MultiHeadAttention")
def _multi_head(g: Builder, node: Node) -> list[Value]:
    _no_past(node, 6)
    m, parts = Maths(g), [node.needed(i) for i in range(3)]
    if any(len(m.shape(part)) != 3 for part in parts):
        raise Refused("queries, keys and values must have 3 dims")
    if (bias := node.input(3)) is not None:
        ends = np.cumsum([0, *(m.shape(part)[2] for part in parts)]).tolist()
        rows = [m.slice(bias, 0, *pair) for pair in pairwise(ends)]
        parts = [m(AddOp, part, row) for part, row in zip(parts, rows, strict=True)]
    return _attend(m, node, parts, node.input(4), node.input(5))


def _no_past(node: Node, first: int) -> None:
    """Refuse keys and values of earlier calls, which are inputs from `first` on."""
    if node.input(first) is not None or any(node.used[1:]):
        raise Refused("past keys and values are not supported", "the whole sequence at once")
    if node.attrs.get("do_rotary"):
        raise Refused("'do_rotary' must be 0")


def _parts(m: Maths, node: Node, made: Value) -> list[Value]:
    """What one product gives, as queries, keys and values beside each other."""
    whole = m.shape(made)[2]
    sizes = node.attrs.get("qkv_hidden_sizes") or (whole // 3,) * 3
    ends = np.cumsum([0, *sizes]).tolist()
    return [m.slice(made, 2, *pair) for pair in pairwise(ends)]


def _attend(
    m: Maths, node: Node, parts: list[Value], mask: Value | None, bias: Value | None
) -> list[Value]:
    """Attention head by head under what a mask and a bias add to the scores."""
    if mask is not None:
        faint = float(node.attrs.get("mask_filter_value", FAINT))
        added = _added(m, mask, m.shape(parts[1])[1], m.dtype(parts[0]), faint)
        bias = added if bias is None else m(AddOp, bias, added)
    heads = node.attrs["num_heads"]
    scale = node.attrs.get("scale") or None
    how = {"q_num_heads": heads, "kv_num_heads": heads, "scale": scale}
    causal = bool(node.attrs.get("unidirectional", 0))
    return [m.g.one(AttentionOp, *parts, bias, is_causal=causal, **how)]


def _added(m: Maths, mask: Value, keys: int, dtype: dtypes.DType, faint: float) -> Value:
    """0 for a key that a mask keeps, `faint` for another; one dim says how many are kept."""
    shape = m.shape(mask)
    if len(shape) == 1:
        line = np.arange(keys, dtype=m.g.numpy_type(mask))
        mask = m(LessOp, line, m.reshape(mask, shape[0], 1))
        shape = m.shape(mask)
    if len(shape) > 4 or shape[-1] != keys:
        raise Refused(f"a mask must be of the {keys} keys, got {list(shape)}")
    between = (1,) * (4 - len(shape))
    wide = m.reshape(mask, shape[0], *between, *shape[1:])
    return m(MulOp, m(SubOp, 1.0, m.cast(wide, dtype)), faint)


@adapts("com.microsoft.EmbedLayerNormalization")
def _embed(g: Builder, node: Node) -> list[Value]:
    """The norm of the sum of rows: of words, of places, of segments; then how many are kept"""
    m, ids = Maths(g), node.needed(0)
    batch, length = m.shape(ids)
    places = node.input(8)
    if places is None:
        places = np.arange(length)[None]
    total = m(AddOp, _rows(m, node, 2, ids), _rows(m, node, 3, places))
    if (segments := node.input(1)) is not None:
        total = m(AddOp, total, _rows(m, node, 4, segments))
    how = {"axis": -1, "epsilon": node.attrs.get("epsilon", EPSILON)}
    made = g.one(LayerNormalizationOp, total, node.needed(5), node.input(6), **how)
    mask = node.input(7)
    kept: Value = np.zeros(batch, np.int32)
    if mask is not None and any(node.used[1:2]):
        kept = m(ReduceSumOp, mask, axes=(1,), keepdims=False)
    return [made, kept, total]


def _rows(m: Maths, node: Node, table: int, places: Value) -> Value:
    return m.g.one(GatherOp, node.needed(table), places, axis=0)
