"""Adapters of operators that onnxruntime adds to ONNX when it quantises a model."""

from __future__ import annotations

from ge.dialects import dtypes
from ge.dialects.graph.ops.binary import MulOp
from ge.dialects.graph.ops.quantize import MatMulIntegerOp
from ge.frontend.onnx_nodes import Builder, Node, Value
from ge.frontend.onnx_quantized import quantised
from ge.frontend.onnx_recurrent import Direction, lstm
from ge.frontend.onnx_versions import adapts


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


@adapts("com.microsoft.DynamicQuantizeLSTM")
def _lstm(g: Builder, node: Node) -> list[Value]:
    return lstm(g, node, _Quantised)
