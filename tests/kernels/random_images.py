"""Seeded random models of convolutions and pools."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from tests.kernels.random_models import RandomNet, Shape, family


def _window(net: RandomNet, side: Shape, kernel: Shape, *, dilate: bool = True) -> dict[str, Any]:
    """Strides, pads and dilations under which a kernel finds a place in the image."""
    dilations = [
        int(net.pick((1, 1, 2))) if dilate and (k - 1) * 2 < s else 1
        for k, s in zip(kernel, side, strict=True)
    ]
    pads = [int(net.rng.integers(k)) for k in (*kernel, *kernel)]
    strides = [int(net.pick((1, 1, 2, 3))) for _ in kernel]
    how: dict[str, Any] = {"pads": pads, "strides": strides}
    return {**how, "dilations": dilations} if dilate else how


def _kernel(net: RandomNet, side: Shape) -> Shape:
    return tuple(min(int(net.pick((1, 2, 3, 3, 5))), s) for s in side)


def _convolution(net: RandomNet, side: Shape, channels: int, many: int, group: int) -> str:
    kernel = _kernel(net, side)
    weights = net.normal(many, channels // group, *kernel, scale=0.3)
    bias = [net.normal(many)] if net.chance() else []
    x = net.input(net.size(3), channels, *side)
    return str(net("Conv", x, weights, *bias, group=group, **_window(net, side, kernel)))


@family
def conv2d(net: RandomNet) -> onnx.ModelProto:
    """Strides, pads, dilations and groups."""
    group = int(net.pick((1, 1, 1, 2, 3)))
    channels, many = group * net.size(13), group * net.size(13)
    if channels == group > 1:
        channels *= 2
    side = (int(net.rng.integers(3, 20)), int(net.rng.integers(3, 20)))
    value = _convolution(net, side, channels, many, group)
    return net.finished(net.epilogue(value, (many, 1, 1)))


@family
def depthwise(net: RandomNet) -> onnx.ModelProto:
    """One channel a group, with one or more results each."""
    group = int(net.pick((2, 3, 8, 17)))
    side = (int(net.rng.integers(3, 16)), int(net.rng.integers(3, 16)))
    many = group * int(net.pick((1, 1, 2, 3)))
    value = _convolution(net, side, group, many, group)
    return net.finished(net.epilogue(value, (many, 1, 1)))


@family
def conv1d(net: RandomNet) -> onnx.ModelProto:
    """One spatial dim, with and without groups."""
    group = int(net.pick((1, 1, 2, 4)))
    channels, many = group * net.size(8), group * net.size(8)
    value = _convolution(net, (int(net.rng.integers(3, 60)),), channels, many, group)
    return net.finished(net.epilogue(value, (many, 1)))


@family
def conv_norm_add(net: RandomNet) -> onnx.ModelProto:
    """A convolution, its batch norm, a residual and an activation in some order."""
    channels = net.size(16)
    side = (int(net.rng.integers(3, 12)), int(net.rng.integers(3, 12)))
    x = net.input(1, channels, *side)
    value = net("Conv", x, net.normal(channels, channels, 3, 3, scale=0.2), pads=[1, 1, 1, 1])
    if net.chance(0.3):
        value = net("Relu", value)
    numbers = [net.normal(channels), net.normal(channels), net.normal(channels)]
    variance = np.abs(net.normal(channels)) + net.number(0.5)
    value = net("BatchNormalization", value, *numbers, variance)
    pair = [value, x] if net.chance() else [x, value]
    value = net("Add", *pair)
    return net.finished(net("Relu", value) if net.chance() else value)


@family
def pool(net: RandomNet) -> onnx.ModelProto:
    """Largest and average, partial windows, padding counted or not, one or two dims."""
    rank = int(net.pick((1, 2, 2)))
    side = tuple(int(net.rng.integers(3, 18)) for _ in range(rank))
    kernel = _kernel(net, side)
    kind = net.pick(("MaxPool", "AveragePool"))
    how = _window(net, side, kernel, dilate=False)
    how["ceil_mode"] = int(net.chance())
    if kind == "AveragePool":
        how["count_include_pad"] = int(net.chance())
    elif net.chance():
        how["dilations"] = [2 if (k - 1) * 2 < s else 1 for k, s in zip(kernel, side, strict=True)]
    channels = net.size(17)
    x = net.input(net.size(3), channels, *side)
    value = net(kind, x, kernel_shape=kernel, **how)
    return net.finished(net.epilogue(value, (channels, *[1] * rank)), opset=19)


@family
def global_pool(net: RandomNet) -> onnx.ModelProto:
    kind = net.pick(("GlobalAveragePool", "GlobalMaxPool"))
    shape = (*net.shape(2, 17), *net.shape(net.pick((1, 2)), 13))
    return net.finished(net(kind, net.input(*shape)))
