"""Small ONNX models for tests, built with onnx.helper and seeded weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from examples.models import Net as Net
from examples.models import model as model


def layer_norm(net: Net, x: str, width: int, *, whole: bool, axes: Any = (-1,)) -> str:
    """A layer norm as one operator, or as exporters of opset below 17 write it."""
    scale, b = net.normal(width), net.normal(width)
    if whole:
        return str(net("LayerNormalization", x, scale, b, axis=-1, epsilon=1e-6))
    mean = net("ReduceMean", x, axes=list(axes))
    centred = net("Sub", x, mean)
    variance = net("ReduceMean", net("Pow", centred, np.float32(2)), axes=list(axes))
    root = net("Sqrt", net("Add", variance, np.float32(1e-6)))
    return str(net("Add", net("Mul", net("Div", centred, root), scale), b))


def gelu(net: Net, x: str) -> str:
    """GELU by erf, written out."""
    share = net("Add", net("Erf", net("Div", x, np.float32(np.sqrt(2)))), np.float32(1))
    return str(net("Mul", net("Mul", x, share), np.float32(0.5)))


def transformer(opset: int, *, batch: int | str = 2, width: int = 24, heads: int = 3) -> Any:
    """One encoder block whose shapes come from Shape, Gather and Concat, as exporters do."""
    net, length = Net(opset), 5
    flat = net("Shape", "x")
    parts = [
        net("Unsqueeze", net("Gather", flat, np.int64(i)), axes=[0])
        if opset < 13
        else net("Unsqueeze", net("Gather", flat, np.int64(i)), np.array([0]))
        for i in (0, 1)
    ]
    split = net("Concat", *parts, np.array([heads, width // heads]), axis=0)
    joined = net("Concat", *parts, np.array([width]), axis=0)
    q, k, v = (
        net("Transpose", net("Reshape", net("MatMul", "x", w), split), perm=[0, 2, *rest])
        for w, rest in zip(
            [net.normal(width, width, scale=0.2) for _ in range(3)],
            ([1, 3], [3, 1], [1, 3]),
            strict=True,
        )
    )
    scores = net("Div", net("MatMul", q, k), np.float32(np.sqrt(width // heads)))
    mixed = net("MatMul", net("Softmax", scores, axis=-1 if opset >= 13 else 3), v)
    heads_joined = net("Reshape", net("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
    whole = opset >= 17
    y = layer_norm(net, net("Add", "x", heads_joined), width, whole=whole)
    hidden = net("Add", net("MatMul", y, net.normal(width, 4 * width, scale=0.2)), net.normal(96))
    out = net("MatMul", gelu(net, hidden), net.normal(4 * width, width, scale=0.2))
    z = layer_norm(net, net("Add", y, out), width, whole=whole)
    return net.model({"x": (batch, length, width)}, [z], opset)


def convolutional(opset: int, side: int = 16) -> Any:
    """Conv, batch norm, relu, pools, a residual, hard swish, and a classifier."""
    net = Net(opset)

    def conv(x: str, i: int, o: int, k: int, **how: Any) -> str:
        y = net("Conv", x, net.normal(o, i // how.get("group", 1), k, k, scale=0.3), **how)
        numbers = [net.normal(o), net.normal(o), net.normal(o), np.abs(net.normal(o)) + 0.5]
        return str(net("BatchNormalization", y, *numbers, epsilon=1e-3))

    def clip(x: str, low: float, high: float) -> str:
        if opset < 11:
            return str(net("Clip", x, min=float(low), max=float(high)))
        return str(net("Clip", x, np.float32(low), np.float32(high)))

    stem = net("Relu", conv("x", 3, 8, 3, auto_pad="SAME_UPPER", strides=[2, 2]))
    pooled = net("MaxPool", stem, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    deep = conv(pooled, 8, 8, 3, group=8, pads=[1, 1, 1, 1])
    swish = net("Div", net("Mul", deep, clip(net("Add", deep, np.float32(3)), 0, 6)), np.float32(6))
    residual = net("Relu", net("Add", swish, pooled))
    mean = net("GlobalAveragePool", residual)
    logits = net("Gemm", net("Flatten", mean), net.normal(5, 8), net.normal(5), transB=1)
    return net.model({"x": (1, 3, side, side)}, [net("Softmax", logits, axis=1)], opset)
