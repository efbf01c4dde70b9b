"""Adapters of quantised operators: a product in integers, scaled, and quantised again."""

from __future__ import annotations

from ge.dialects import dtypes
from ge.dialects.dtypes import DType
from ge.dialects.graph.ops.binary import (
    AddOp,
    DivOp,
    EqualOp,
    MaxOp,
    MinOp,
    MulOp,
    SubOp,
    WhereOp,
)
from ge.dialects.graph.ops.layout import ReshapeOp
from ge.dialects.graph.ops.quantize import ConvIntegerOp, MatMulIntegerOp, QuantizeLinearOp
from ge.dialects.graph.ops.reduce import ReduceMaxOp, ReduceMinOp
from ge.dialects.graph.ops.unary import CastOp, NegOp, RoundOp
from ge.frontend.onnx_maths import Maths
from ge.frontend.onnx_nodes import Builder, Node, Value
from ge.frontend.onnx_versions import adapts
from ge.frontend.onnx_windows import explicit_pads

STEPS = 255
"""Steps of an unsigned byte."""


def quantised(m: Maths, x: Value) -> tuple[Value, Value, Value]:
    """The value in unsigned bytes, the scale that its range gives, and the zero point."""
    low = m(MinOp, m.g.one(ReduceMinOp, x, axes=_all(m, x), keepdims=False), 0.0)
    high = m(MaxOp, m.g.one(ReduceMaxOp, x, axes=_all(m, x), keepdims=False), 0.0)
    step = m(DivOp, m(SubOp, high, low), float(STEPS))
    scale = m(WhereOp, m(EqualOp, step, 0.0), 1.0, step)
    place = m.g.one(RoundOp, m(DivOp, m.g.one(NegOp, low), scale))
    zero = m.cast(m(MaxOp, m(MinOp, place, float(STEPS)), 0.0), dtypes.U8)
    return m.g.one(QuantizeLinearOp, x, scale, zero), scale, zero


def _all(m: Maths, x: Value) -> tuple[int, ...]:
    return tuple(range(len(m.shape(x))))


@adapts("DynamicQuantizeLinear")
def _dynamic(g: Builder, node: Node) -> list[Value]:
    return list(quantised(Maths(g), node.needed(0)))


@adapts("QuantizeLinear")
def _quantize(g: Builder, node: Node) -> None:
    node.drop("saturate", "precision")
    if not node.attrs.get("output_dtype"):
        node.drop("output_dtype")


@adapts("DequantizeLinear")
def _dequantize(g: Builder, node: Node) -> list[Value] | None:
    to = node.attrs.pop("output_dtype", 0)
    if to:
        node.inputs[1] = _cast(g, node.needed(1), dtypes.BY_ONNX[to])
    return None


@adapts("ConvInteger")
def _conv_integer(g: Builder, node: Node) -> None:
    kernel = g.shape_of(node.needed(1))[2:]
    explicit_pads(g.shape_of(node.needed(0))[2:], kernel, node)
    node.drop("kernel_shape")


def _cast(g: Builder, value: Value, to: DType) -> Value:
    same = dtypes.of_ir(g.type_of(value).element_type) is to
    return value if same else g.one(CastOp, value, to=to)


def _shaped(g: Builder, value: Value, shape: tuple[int, ...]) -> Value:
    """One number without axes, or several under `shape`."""
    one = g.shape_of(value) in ((), (1,))
    return g.one(ReshapeOp, value, shape=() if one else shape)


def _requantised(g: Builder, total: Value, factor: Value, scale: Value, zero: Value) -> list[Value]:
    """The sum in integers times the scales of both operands, as integers of another scale."""
    real = g.one(MulOp, _cast(g, total, dtypes.F32), factor)
    wide = _shaped(g, _cast(g, scale, dtypes.F32), (-1,))
    return [g.one(QuantizeLinearOp, real, wide, _shaped(g, zero, (-1,)))]


@adapts("QLinearMatMul")
def _matmul(g: Builder, node: Node) -> list[Value]:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (node.needed(i) for i in range(8))
    total = g.one(MatMulIntegerOp, a, b, a_zero, b_zero)
    rows = _shaped(g, _cast(g, a_scale, dtypes.F32), (*g.shape_of(a_scale), 1))
    columns = _shaped(g, _cast(g, b_scale, dtypes.F32), g.shape_of(b_scale))
    return _requantised(g, total, g.one(MulOp, rows, columns), scale, zero)


@adapts("QLinearConv")
def _conv(g: Builder, node: Node) -> list[Value]:
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero = (node.needed(i) for i in range(8))
    explicit_pads(g.shape_of(x)[2:], g.shape_of(w)[2:], node)
    names = ("group", "pads", "strides", "dilations")
    window = {name: node.attrs[name] for name in names if name in node.attrs}
    total = g.one(ConvIntegerOp, x, w, x_zero, w_zero, **window)
    column = (g.shape_of(w)[0], *(1,) * (len(g.shape_of(w)) - 2))
    if (bias := node.input(8)) is not None:
        total = g.one(AddOp, total, g.one(ReshapeOp, bias, shape=column))
    factor = g.one(MulOp, _shaped(g, x_scale, ()), _shaped(g, w_scale, column))
    return _requantised(g, total, factor, scale, zero)
