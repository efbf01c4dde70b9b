"""Adapters of operators that onnxruntime adds to ONNX when it quantises a model."""

from __future__ import annotations

from ge.dialects import dtypes
from ge.dialects.graph.base import GraphOp
from ge.dialects.graph.ops.activation import LeakyReluOp, SigmoidOp
from ge.dialects.graph.ops.binary import AddOp, MulOp
from ge.dialects.graph.ops.norm import SoftmaxOp
from ge.dialects.graph.ops.pool import AveragePoolOp, GlobalAveragePoolOp
from ge.dialects.graph.ops.quantize import DequantizeLinearOp, MatMulIntegerOp, QuantizeLinearOp
from ge.frontend.onnx_maths import Maths
from ge.frontend.onnx_nodes import Builder, Node, Refused, Value
from ge.frontend.onnx_quantized import quantised
from ge.frontend.onnx_recurrent import Direction, lstm
from ge.frontend.onnx_versions import ADAPTERS, Adapter, adapts
from ge.frontend.onnx_windows import explicit_pads


class _Quantised(Direction):
    """Weights in bytes; what they multiply is quantised by its own range at each product."""

    def weights(self, node: Node, number: int) -> tuple[Value, Value]:
        """Both lie as they are multiplied: the plain operator has them turned."""
        m = self.m
        self.steps = [m.place(node.needed(i), 0, number) for i in (8, 10)]
        self.zeros = [m.place(node.needed(i), 0, number) for i in (9, 11)]
        return m.place(node.needed(1), 0, number), m.place(node.needed(2), 0, number)

    def project(self, flat: Value) -> Value:
        return self._product(flat, self.w, 0)

    def recur(self, h: Value) -> Value:
        return self._product(h, self.r, 1)

    def _product(self, x: Value, w: Value, which: int) -> Value:
        m = self.m
        made, scale, zero = quantised(m, x)
        total = m.g.one(MatMulIntegerOp, made, w, zero, self.zeros[which])
        factor = m(MulOp, scale, self.steps[which])
        return m(MulOp, m.cast(total, dtypes.F32), factor)


def _real(g: Builder, node: Node, i: int) -> Value:
    """Inputs `i` to `i + 2`, a value in bytes, its scale and its zero point, as floats."""
    return g.one(DequantizeLinearOp, node.needed(i), node.needed(i + 1), node.input(i + 2))


def _in_bytes(g: Builder, node: Node, value: Value, i: int) -> list[Value]:
    """A value by the scale and the zero point that are inputs `i` and `i + 1`."""
    return [g.one(QuantizeLinearOp, value, node.needed(i), node.input(i + 1))]


def _of_two(cls: type[GraphOp]) -> Adapter:
    def adapter(g: Builder, node: Node) -> list[Value]:
        return _in_bytes(g, node, g.one(cls, _real(g, node, 0), _real(g, node, 3)), 6)

    return adapter


def _of_one(cls: type[GraphOp], *names: str) -> Adapter:
    def adapter(g: Builder, node: Node) -> list[Value]:
        if node.attrs.get("channels_last"):
            raise Refused("'channels_last' must be 0")
        how = {name: node.attrs[name] for name in names if name in node.attrs}
        return _in_bytes(g, node, g.one(cls, _real(g, node, 0), **how), 3)

    return adapter


ADAPTERS |= {
    "com.microsoft.QLinearAdd": _of_two(AddOp),
    "com.microsoft.QLinearMul": _of_two(MulOp),
    "com.microsoft.QLinearSigmoid": _of_one(SigmoidOp),
    "com.microsoft.QLinearLeakyRelu": _of_one(LeakyReluOp, "alpha"),
    "com.microsoft.QLinearSoftmax": _of_one(SoftmaxOp, "axis"),
    "com.microsoft.QLinearGlobalAveragePool": _of_one(GlobalAveragePoolOp),
}


@adapts("com.microsoft.QLinearAveragePool")
def _average_pool(g: Builder, node: Node) -> list[Value]:
    explicit_pads(g.shape_of(node.needed(0))[2:], node.attrs["kernel_shape"], node)
    for name in ("ceil_mode", "count_include_pad"):
        node.attrs[name] = bool(node.attrs.get(name, 0))
    names = ("kernel_shape", "pads", "strides", "ceil_mode", "count_include_pad")
    return _of_one(AveragePoolOp, *names)(g, node) or []


@adapts("com.microsoft.QLinearConcat")
def _concat(g: Builder, node: Node) -> list[Value]:
    parts = [_real(g, node, i) for i in range(2, len(node.inputs), 3)]
    return _in_bytes(g, node, Maths(g).concat(parts, node.attrs["axis"]), 0)


@adapts("com.microsoft.QuantizeLinear", "com.microsoft.DequantizeLinear")
def _linear(g: Builder, node: Node) -> list[Value]:
    cls = QuantizeLinearOp if node.op.endswith(".QuantizeLinear") else DequantizeLinearOp
    how = {"axis": node.attrs["axis"]} if "axis" in node.attrs else {}
    return [g.one(cls, node.needed(0), node.needed(1), node.input(2), **how)]


@adapts("com.microsoft.QGemm")
def _gemm(g: Builder, node: Node) -> list[Value]:
    m = Maths(g)
    names = ("transA", "transB")
    a, b = (
        m.transpose(node.needed(i), 1, 0) if node.attrs.get(name) else node.needed(i)
        for i, name in zip((0, 3), names, strict=True)
    )
    total = g.one(MatMulIntegerOp, a, b, node.input(2), node.input(5))
    if (bias := node.input(6)) is not None:
        total = g.one(AddOp, total, bias)
    factor = m(MulOp, node.needed(1), node.needed(4))
    real = m(MulOp, m.cast(total, dtypes.F32), m(MulOp, factor, float(node.attrs.get("alpha", 1))))
    return [real] if node.input(7) is None else _in_bytes(g, node, real, 7)


@adapts("com.microsoft.MatMulIntegerToFloat")
def _matmul_to_float(g: Builder, node: Node) -> list[Value]:
    factor = g.one(MulOp, node.needed(2), node.needed(3))
    total = g.one(MatMulIntegerOp, node.needed(0), node.needed(1), node.input(4), node.input(5))
    return _scaled(g, total, factor, node.input(6))


@adapts("com.microsoft.DynamicQuantizeMatMul")
def _dynamic_matmul(g: Builder, node: Node) -> list[Value]:
    made, scale, zero = quantised(Maths(g), node.needed(0))
    total = g.one(MatMulIntegerOp, made, node.needed(1), zero, node.input(3))
    return _scaled(g, total, g.one(MulOp, scale, node.needed(2)), node.input(4))


def _scaled(g: Builder, total: Value, factor: Value, bias: Value | None) -> list[Value]:
    real = g.one(MulOp, Maths(g).cast(total, dtypes.F32), factor)
    return [real if bias is None else g.one(AddOp, real, bias)]


@adapts("com.microsoft.DynamicQuantizeLSTM")
def _lstm(g: Builder, node: Node) -> list[Value]:
    return lstm(g, node, _Quantised)
