"""Adapters of operators that onnxruntime adds to ONNX when it optimises a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from ge.dialects.graph.ops.activation import (
    ClipOp,
    GeluForm,
    GeluOp,
    HardSigmoidOp,
    LeakyReluOp,
    ReluOp,
    SigmoidOp,
)
from ge.dialects.graph.ops.binary import AddOp, MulOp
from ge.dialects.graph.ops.conv import ConvOp
from ge.dialects.graph.ops.linear import GemmOp, MatMulOp
from ge.dialects.graph.ops.norm import LayerNormalizationOp, RMSNormalizationOp
from ge.dialects.graph.ops.trigonometry import TanhOp
from ge.frontend.onnx_maths import Maths
from ge.frontend.onnx_nodes import Builder, Node, Refused, Value
from ge.frontend.onnx_versions import adapts
from ge.frontend.onnx_windows import explicit_pads

EPSILON = 1e-5
QUICK = 1.702
"""What the quick form of GELU multiplies by."""

_ACTIVATIONS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "Relu": (ReluOp, ()),
    "Tanh": (TanhOp, ()),
    "Sigmoid": (SigmoidOp, ()),
    "LeakyRelu": (LeakyReluOp, ("alpha",)),
    "HardSigmoid": (HardSigmoidOp, ("alpha", "beta")),
}


def _activated(m: Maths, node: Node, value: Value) -> list[Value]:
    """What a fused operator computes of its sum; the numbers for it stand in one list."""
    name, numbers = node.attrs.get("activation", ""), node.attrs.get("activation_params", ())
    if not name:
        return [value]
    if name == "Clip":
        bounds = [np.asarray(v, m.g.numpy_type(value)) for v in numbers]
        return [m.g.one(ClipOp, value, *bounds)]
    if name not in _ACTIVATIONS:
        known = ", ".join(("Clip", *_ACTIVATIONS))
        raise Refused(f"'activation' must be one of {known}, got '{name}'")
    cls, names = _ACTIVATIONS[name]
    given = [node.attrs.get(f"activation_{n}") for n in names]
    found = numbers or [v for v in given if v is not None]
    return [m.g.one(cls, value, **dict(zip(names, map(float, found), strict=False)))]


@adapts("com.microsoft.FusedConv")
def _conv(g: Builder, node: Node) -> list[Value]:
    m, x, w = Maths(g), node.needed(0), node.needed(1)
    explicit_pads(m.shape(x)[2:], m.shape(w)[2:], node)
    names = ("group", "pads", "strides", "dilations")
    window = {name: node.attrs[name] for name in names if name in node.attrs}
    total = g.one(ConvOp, x, w, node.input(2), **window)
    if (beside := node.input(3)) is not None:
        total = m(AddOp, total, beside)
    return _activated(m, node, total)


@adapts("com.microsoft.FusedGemm")
def _gemm(g: Builder, node: Node) -> list[Value]:
    names = {"alpha": float, "beta": float, "transA": bool, "transB": bool}
    how = {name: kind(node.attrs[name]) for name, kind in names.items() if name in node.attrs}
    total = g.one(GemmOp, node.needed(0), node.needed(1), node.input(2), **how)
    return _activated(Maths(g), node, total)


@adapts("com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul")
def _matmul(g: Builder, node: Node) -> list[Value]:
    m = Maths(g)
    if node.attrs.get("transBatchA") or node.attrs.get("transBatchB"):
        raise Refused("batches must not be transposed")
    operands = []
    for i, name in enumerate(("transA", "transB")):
        x = node.needed(i)
        rank = len(m.shape(x))
        turned = (*range(rank - 2), rank - 1, rank - 2)
        operands.append(m.transpose(x, *turned) if node.attrs.get(name) and rank > 1 else x)
    made = m(MatMulOp, *operands)
    factor = float(node.attrs.get("alpha", 1.0))
    return [made if factor == 1 else m(MulOp, made, factor)]


@adapts("com.microsoft.Gelu", "com.microsoft.BiasGelu")
def _gelu(g: Builder, node: Node) -> list[Value]:
    return [g.one(GeluOp, _biased(g, node))]


@adapts("com.microsoft.FastGelu")
def _fast_gelu(g: Builder, node: Node) -> list[Value]:
    return [g.one(GeluOp, _biased(g, node), approximate=GeluForm.TANH)]


@adapts("com.microsoft.QuickGelu")
def _quick_gelu(g: Builder, node: Node) -> list[Value]:
    m, x = Maths(g), node.needed(0)
    return [m(MulOp, x, m(SigmoidOp, m(MulOp, x, float(node.attrs.get("alpha", QUICK)))))]


def _biased(g: Builder, node: Node) -> Value:
    bias = node.input(1)
    return node.needed(0) if bias is None else g.one(AddOp, node.needed(0), bias)


@adapts("SimplifiedLayerNormalization")
def _rms_norm(g: Builder, node: Node) -> list[Value]:
    node.only_first_output()
    how = {"axis": node.attrs.get("axis", -1), "epsilon": node.attrs.get("epsilon", EPSILON)}
    return [g.one(RMSNormalizationOp, node.needed(0), node.needed(1), **how)]


@adapts("com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization")
def _skip_norm(g: Builder, node: Node) -> list[Value]:
    """The norm of a sum of two and a bias; the sum is the fourth result"""
    if any(node.used[1:3]):
        raise Refused("means and deviations must not be read")
    plain = not node.op.endswith("SkipLayerNormalization")
    total = g.one(AddOp, node.needed(0), node.needed(1))
    if (bias := node.input(3 if plain else 4)) is not None:
        total = g.one(AddOp, total, bias)
    how = {"axis": -1, "epsilon": node.attrs.get("epsilon", EPSILON)}
    if plain:
        made = g.one(RMSNormalizationOp, total, node.needed(2), **how)
    else:
        made = g.one(LayerNormalizationOp, total, node.needed(2), node.input(3), **how)
    return [made, made, made, total]
