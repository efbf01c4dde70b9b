"""Seeded random models of operators that look places up, repeat, sample or normalise by groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from tests.kernels.random_models import RandomNet, Shape, family


def _indices(net: RandomNet, n: int, shape: Shape) -> Any:
    """Known indices: scattered, one alone, or by even steps."""
    kind = net.pick(("scattered", "scattered", "even", "negative"))
    if kind == "even":
        step = int(net.pick((0, 1, 2)))
        many = max(1, (n - 1) // step + 1 if step else 3)
        return (np.arange(many) * step).astype(np.int64)
    low = -n if kind == "negative" else 0
    return net.rng.integers(low, n, shape).astype(np.int64)


@family
def gather(net: RandomNet) -> onnx.ModelProto:
    """Known indices and given ones, of any rank, along any axis; elementwise work behind."""
    shape = net.shape(int(net.rng.integers(1, 4)), 17)
    axis = int(net.rng.integers(-len(shape), len(shape)))
    places = net.shape(int(net.rng.integers(0, 3)), 5)
    n = shape[axis]
    if net.chance():
        # Inputs of the test are drawn from 0 to 8.
        shape = tuple(max(9, d) if i == axis % len(shape) else d for i, d in enumerate(shape))
        kind = net.pick((TensorProto.INT64, TensorProto.INT32))
        value = net("Gather", net.input(*shape), net.input(*places, element=kind), axis=axis)
    else:
        table = net.operand(*shape)
        value = net("Gather", table, _indices(net, n, places), axis=axis)
    return net.finished(net("Mul", value, net.number(2.0)) if net.chance() else value)


@family
def embedding(net: RandomNet) -> onnx.ModelProto:
    """Rows of a table, positions added, normalised."""
    rows, width = net.size(17), int(net.pick((8, 33, 100)))
    tokens = net.input(net.size(3), rows, element=TensorProto.INT64)
    value = net("Gather", net.normal(net.pick((9, 40)), width), tokens)
    value = net("Add", value, net.normal(rows, width))
    return net.finished(net("LayerNormalization", value, net.normal(width)))


@family
def repeated(net: RandomNet) -> onnx.ModelProto:
    """Tile, depth to space and back, turned slices, padding with what is there."""
    kind = net.pick(("tile", "depth", "space", "turned", "pad"))
    if kind == "tile":
        shape = net.shape(int(net.rng.integers(1, 4)), 7)
        repeats = net.rng.integers(1, 4, len(shape)).astype(np.int64)
        return net.finished(net("Tile", net.input(*shape), repeats))
    b = int(net.pick((1, 2, 3)))
    n, c, h, w = net.shape(4, 5)
    if kind == "depth":
        how = {"blocksize": b, "mode": net.pick(("DCR", "CRD"))}
        return net.finished(net("DepthToSpace", net.input(n, c * b * b, h, w), **how))
    if kind == "space":
        return net.finished(net("SpaceToDepth", net.input(n, c, h * b, w * b), blocksize=b))
    if kind == "turned":
        x = net.input(net.size(24), net.size(17))
        numbers = [np.asarray(v, np.int64) for v in ([-1], [-99], [net.pick((0, 1))], [-1])]
        return net.finished(net("Slice", x, *numbers))
    shape = (net.size(3), int(net.rng.integers(4, 12)), int(net.rng.integers(4, 12)))
    pads = np.asarray([0, *net.rng.integers(0, 4, 2), 0, *net.rng.integers(0, 4, 2)], np.int64)
    mode = net.pick(("reflect", "edge"))
    return net.finished(net("Pad", net.input(*shape), pads, mode=mode))


@family
def resized(net: RandomNet) -> onnx.ModelProto:
    """Nearest by whole and by other factors, linear; up and down."""
    x = net.input(
        net.size(2), net.size(5), int(net.rng.integers(2, 9)), int(net.rng.integers(2, 9))
    )
    mode = net.pick(("nearest", "nearest", "linear"))
    factors = (1.0, 2.0, 3.0, 1.5, 0.5)
    scales = np.asarray([1, 1, net.pick(factors), net.pick(factors)], np.float32)
    how: dict[str, Any] = {"mode": mode}
    how["coordinate_transformation_mode"] = net.pick(("half_pixel", "asymmetric"))
    if mode == "nearest":
        how["nearest_mode"] = net.pick(("floor", "round_prefer_floor"))
    empty = np.zeros(0, np.float32)
    return net.finished(net("Resize", x, empty, scales, **how))


@family
def group_norm(net: RandomNet) -> onnx.ModelProto:
    """Each channel, or each group of channels, with an activation behind."""
    groups = int(net.pick((1, 2, 3)))
    channels = groups * net.size(3)
    x = net.input(net.size(3), channels, *net.shape(int(net.pick((1, 2))), 7))
    pair = [net.operand(channels), net.operand(channels)]
    if net.chance():
        value = net("InstanceNormalization", x, *pair, epsilon=1e-3)
    else:
        value = net("GroupNormalization", x, *pair, num_groups=groups, epsilon=1e-3)
    return net.finished(net("Relu", value) if net.chance() else value, opset=21)


@family
def conv_transpose(net: RandomNet) -> onnx.ModelProto:
    """Strides, pads, groups and what is added to the end."""
    group = int(net.pick((1, 1, 2)))
    channels, many = group * net.size(7), net.size(7)
    rank = int(net.pick((1, 2)))
    side = tuple(int(net.rng.integers(2, 9)) for _ in range(rank))
    kernel = tuple(int(net.pick((1, 2, 3, 4))) for _ in range(rank))
    strides = [int(net.pick((1, 2, 3))) for _ in range(rank)]
    pads = [int(net.rng.integers(0, (k + 1) // 2)) for k in (*kernel, *kernel)]
    extra = [int(net.rng.integers(0, s)) for s in strides]
    weights = net.normal(channels, many, *kernel, scale=0.3)
    bias = [net.normal(group * many)] if net.chance() else []
    how: dict[str, Any] = {
        "strides": strides,
        "pads": pads,
        "output_padding": extra,
        "group": group,
    }
    value = net("ConvTranspose", net.input(net.size(2), channels, *side), weights, *bias, **how)
    return net.finished(net("Relu", value) if net.chance() else value)


@family
def best_place(net: RandomNet) -> onnx.ModelProto:
    """Where the largest or the smallest stands along any axis; equals on purpose now and then."""
    shape = net.shape(int(net.rng.integers(1, 4)), 24)
    x = net.input(*shape)
    if net.chance():
        x = net("Floor", x)
    axis = int(net.rng.integers(-len(shape), len(shape)))
    how = {"keepdims": int(net.chance()), "select_last_index": int(net.chance())}
    return net.finished(net(net.pick(("ArgMax", "ArgMin")), x, axis=axis, **how))
