"""The graphs whose generated code is measured: single kernels, and layers of known models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from examples.models import Net

F16 = np.float16
Shapes = dict[str, tuple[int, ...]]


def half(inputs: Shapes, body: Callable[[Net], Any], opset: int = 23) -> onnx.ModelProto:
    """A model of half floats; weights that are inputs need no memory."""
    net = Net()
    made = body(net)
    outputs = [made] if isinstance(made, str) else list(made)
    return net.model(inputs, outputs, opset, dict.fromkeys(inputs, TensorProto.FLOAT16))


def product(rows: int, inner: int, columns: int, gelu: bool = False) -> onnx.ModelProto:
    """One product, perhaps with a GELU behind it."""

    def body(net: Net) -> Any:
        y = net("MatMul", "a", "b")
        return net("Gelu", y, approximate="tanh") if gelu else y

    return half({"a": (rows, inner), "b": (inner, columns)}, body)


def addition(rows: int, columns: int) -> onnx.ModelProto:
    """Two tensors added."""
    shape = (rows, columns)
    return half({"a": shape, "b": shape}, lambda net: net("Add", "a", "b"))


def attention(length: int, depth: int = 128) -> onnx.ModelProto:
    """One head, written out."""

    def body(net: Net) -> Any:
        scores = net("MatMul", "q", net("Transpose", "k", perm=[0, 2, 1]))
        shares = net("Softmax", net("Mul", scores, F16(depth**-0.5)), axis=-1)
        return net("MatMul", shares, "v")

    return half(dict.fromkeys("qkv", (1, length, depth)), body)


def convolution(batch: int, inputs: int, height: int, width: int, outputs: int) -> onnx.ModelProto:
    """A 3x3 convolution that keeps the size."""

    def body(net: Net) -> Any:
        weights = np.zeros((outputs, inputs, 3, 3), F16)
        return net("Conv", "x", weights, pads=[1, 1, 1, 1])

    return half({"x": (batch, inputs, height, width)}, body)


def encoder(
    layers: int = 6, hidden: int = 384, batch: int = 32, length: int = 128, heads: int = 12
) -> onnx.ModelProto:
    """Encoder layers with biases, GELU and layer norms behind the residuals."""

    def body(net: Net) -> Any:
        def linear(x: str, inputs: int, outputs: int) -> Any:
            weights = net.normal(inputs, outputs, scale=0.05).astype(F16)
            return net("Add", net("MatMul", x, weights), net.normal(outputs).astype(F16))

        def split(x: str) -> Any:
            shape = np.array([batch, length, heads, hidden // heads])
            return net("Transpose", net("Reshape", x, shape), perm=[0, 2, 1, 3])

        def norm(x: str) -> Any:
            scale, bias = (net.normal(hidden).astype(F16) for _ in range(2))
            return net("LayerNormalization", x, scale, bias)

        x = "x"
        for _ in range(layers):
            q, k, v = (split(linear(x, hidden, hidden)) for _ in range(3))
            scores = net("MatMul", q, net("Transpose", k, perm=[0, 1, 3, 2]))
            shares = net("Softmax", net("Mul", scores, F16((hidden // heads) ** -0.5)), axis=-1)
            mixed = net("Transpose", net("MatMul", shares, v), perm=[0, 2, 1, 3])
            joined = net("Reshape", mixed, np.array([batch, length, hidden]))
            x = norm(net("Add", x, linear(joined, hidden, hidden)))
            inner = net("Gelu", linear(x, hidden, 4 * hidden))
            x = norm(net("Add", x, linear(inner, 4 * hidden, hidden)))
        return x

    return half({"x": (batch, length, hidden)}, body)


def resnet50(batch: int = 8) -> onnx.ModelProto:
    """ResNet-50 on images of 224 x 224, batch norms folded into its convolutions."""

    def body(net: Net) -> Any:
        def conv(x: str, shape: Sequence[int], step: int = 1, add: str = "", relu: int = 1) -> Any:
            outputs, inputs, kernel = shape
            weights = net.normal(outputs, inputs, kernel, kernel, scale=0.05).astype(F16)
            bias = net.normal(outputs).astype(F16)
            y = net("Conv", x, weights, bias, pads=[kernel // 2] * 4, strides=[step, step])
            y = net("Add", y, add) if add else y
            return net("Relu", y) if relu else y

        x = conv("x", (64, 3, 7), 2)
        x = net("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        before = 64
        for blocks, inner, stride in ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)):
            for block in range(blocks):
                step, outer = (stride, 4 * inner) if block == 0 else (1, 4 * inner)
                skip = x if block else conv(x, (outer, before, 1), step, relu=0)
                y = conv(conv(x, (inner, before, 1)), (inner, inner, 3), step)
                x, before = conv(y, (outer, inner, 1), add=skip), outer
        pooled = net("Flatten", net("GlobalAveragePool", x))
        last, bias = net.normal(2048, 1000, scale=0.05), net.normal(1000)
        return net("Gemm", pooled, last.astype(F16), bias.astype(F16))

    return half({"x": (batch, 3, 224, 224)}, body)
