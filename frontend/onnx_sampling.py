"""Images read between their elements: weights of all elements for each place, then a product.

A place between elements takes a share of a few of them along each axis. As a matrix, the share of
every element for every place, sampling is a product, wherever the places come from.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ge.dialects import dtypes
from ge.dialects.graph.base import need
from ge.dialects.graph.ops.binary import (
    AddOp,
    AndOp,
    EqualOp,
    GreaterOp,
    GreaterOrEqualOp,
    LessOrEqualOp,
    MaxOp,
    MinOp,
    MulOp,
    SubOp,
    WhereOp,
)
from ge.dialects.graph.ops.index import GatherOp
from ge.dialects.graph.ops.linear import MatMulOp
from ge.dialects.graph.ops.reduce import ReduceMaxOp, ReduceMeanOp
from ge.dialects.graph.ops.unary import FloorOp, RoundOp
from ge.dialects.graph.ops.window import Window
from ge.frontend.onnx_maths import Maths
from ge.frontend.onnx_nodes import Builder, Node, Refused, Value
from ge.frontend.onnx_versions import adapts

CUBIC = -0.75
"""The parameter of cubic weights that ONNX takes for grids."""


def hat(m: Maths, at: Value, size: int) -> Value:
    """Linear weights of `size` elements for each place; outside the elements there is nothing."""
    below = m(FloorOp, at)
    share = m(SubOp, at, below)
    first = _one_hot(m, below, size, m(SubOp, 1.0, share))
    return m(AddOp, first, _one_hot(m, m(AddOp, below, 1.0), size, share))


def _one_hot(m: Maths, places: Value, size: int, weights: Value) -> Value:
    """The weight of each place at the element that it names, in a new last dim."""
    shape = m.shape(places)
    line = np.arange(size, dtype=np.float32)
    mask = m(EqualOp, m.reshape(places, *shape, 1), line)
    return m(WhereOp, mask, m.reshape(weights, *shape, 1), 0.0)


def _reflected(m: Maths, x: Value, low: float, high: float) -> Value:
    """A coordinate thrown back at both ends."""
    span = high - low
    if span <= 0:
        return m(MulOp, x, 0.0)
    over = m(SubOp, x, low)
    turns = m(FloorOp, m(MulOp, over, 0.5 / span))
    rest = m(SubOp, over, m(MulOp, turns, 2.0 * span))
    back = m(WhereOp, m(GreaterOp, rest, span), m(SubOp, 2.0 * span, rest), rest)
    return m(AddOp, back, low)


def _inside(m: Maths, x: Value, size: int, padding: str, aligned: bool) -> Value:
    """A coordinate brought to where there are elements, as the padding says."""
    if padding == "border":
        return m(MinOp, m(MaxOp, x, 0.0), float(size - 1))
    if padding == "reflection":
        low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
        return _reflected(m, x, low, high)
    return x


def _weights(m: Maths, at: Value, size: int, mode: str, padding: str, aligned: bool) -> Value:
    """The weights of the elements of one axis for each coordinate."""
    at = m(RoundOp, at) if mode == "nearest" else at
    # Of cubic weights only the elements are brought back, not the place between them.
    at = at if mode == "cubic" else _inside(m, at, size, padding, aligned)
    if mode == "nearest":
        at = m(RoundOp, _inside(m, at, size, "border", aligned)) if padding != "zeros" else at
        return _one_hot(m, at, size, m(AddOp, m(MulOp, at, 0.0), 1.0))
    below = m(FloorOp, at)
    share = m(SubOp, at, below)
    taps = _cubic(m, share) if mode == "cubic" else [(0, m(SubOp, 1.0, share)), (1, share)]
    total: Value | None = None
    for step, weight in taps:
        place = _inside(m, m(AddOp, below, float(step)), size, padding, aligned)
        if padding == "reflection":
            place = m(RoundOp, place)
        part = _one_hot(m, place, size, weight)
        total = part if total is None else m(AddOp, total, part)
    assert total is not None
    return total


def _cubic(m: Maths, share: Value) -> list[tuple[int, Value]]:
    """The weights of the four elements around."""

    def near(t: Value) -> Value:
        value = m(AddOp, m(MulOp, t, CUBIC + 2), -(CUBIC + 3))
        return m(AddOp, m(MulOp, m(MulOp, value, t), t), 1.0)

    def far(t: Value) -> Value:
        value = m(AddOp, m(MulOp, t, CUBIC), -5 * CUBIC)
        value = m(AddOp, m(MulOp, value, t), 8 * CUBIC)
        return m(AddOp, m(MulOp, value, t), -4 * CUBIC)

    rest = m(SubOp, 1.0, share)
    ends = far(m(AddOp, share, 1.0)), far(m(AddOp, rest, 1.0))
    return [(-1, ends[0]), (0, near(share)), (1, near(rest)), (2, ends[1])]


def crossed(m: Maths, weights: list[Value]) -> Value:
    """The weights of all elements of a grid from those along each axis, flattened."""
    total = weights[0]
    for other in weights[1:]:
        *outer, n = m.shape(total)
        k = m.shape(other)[-1]
        both = m(MulOp, m.reshape(total, *outer, n, 1), m.reshape(other, *outer, 1, k))
        total = m.reshape(both, *outer, n * k)
    return total


@adapts("GridSample")
def _grid_sample(g: Builder, node: Node) -> list[Value]:
    m, x, grid = Maths(g), node.needed(0), node.needed(1)
    modes = {"bilinear": "linear", "bicubic": "cubic"}
    mode = node.attrs.get("mode", "linear")
    mode = modes.get(mode, mode)
    padding = node.attrs.get("padding_mode", "zeros")
    aligned = bool(node.attrs.get("align_corners", 0))
    batch, channels, *size = m.shape(x)
    out = m.shape(grid)[1:-1]
    points = m.reshape(m.cast(grid, dtypes.F32), batch, prod(out), len(size))
    places = []
    for axis, n in enumerate(size):
        place = m.place(points, 2, len(size) - 1 - axis)
        half = (n - 1) / 2 if aligned else n / 2
        places.append(m(AddOp, m(MulOp, place, half), (n - 1) / 2))
    how = (mode, padding, aligned)
    weights = [_weights(m, at, n, *how) for at, n in zip(places, size, strict=True)]
    flat = m.reshape(m.cast(x, dtypes.F32), batch, channels, prod(size))
    turned = m.transpose(crossed(m, weights), 0, 2, 1)
    y = m.reshape(m(MatMulOp, flat, turned), batch, channels, *out)
    return [m.cast(y, m.dtype(x))]


@adapts("AffineGrid")
def _affine_grid(g: Builder, node: Node) -> list[Value]:
    """The places of an image of this size, all of them known, times a matrix each"""
    m, theta, size = Maths(g), node.needed(0), node.ints(1, "size") or ()
    rank = len(size) - 2
    fits = rank in (2, 3) and m.shape(theta) == (size[0], rank, rank + 1)
    need(fits, f"'size' must have 4 or 5 dims that fit theta's, got {list(size)}")
    dtype = g.numpy_type(theta)
    lines = [_middles(n, bool(node.attrs.get("align_corners", 0))) for n in size[2:]]
    places = np.stack(np.meshgrid(*lines, indexing="ij")[::-1], -1).reshape(-1, rank)
    ones = np.ones((len(places), 1))
    columns = np.concatenate([places, ones], 1).astype(dtype)
    moved = m(MatMulOp, columns, m.transpose(theta, 0, 2, 1))
    return [m.reshape(moved, size[0], *size[2:], rank)]


def _middles(n: int, aligned: bool) -> Any:
    """Where the places of an axis are, from -1 to 1; one alone is the last, as in onnxruntime."""
    if aligned:
        return np.linspace(-1, 1, n) if n > 1 else np.ones(1)
    return (np.arange(n) + 0.5) * 2 / n - 1


@adapts("RoiAlign")
def _roi_align(g: Builder, node: Node) -> list[Value]:
    m, x, rois, batches = Maths(g), node.needed(0), node.needed(1), node.needed(2)
    attrs = node.attrs
    count = attrs.get("sampling_ratio", 0)
    if count < 1:
        raise Refused("'sampling_ratio' must be given", "1 or more")
    usual = "output_half_pixel" if node.version < 16 else "half_pixel"
    half = attrs.get("coordinate_transformation_mode", usual)
    shift = 0.5 if half == "half_pixel" else 0.0
    scale = float(attrs.get("spatial_scale", 1.0))
    size, out = m.shape(x)[2:], (attrs.get("output_height", 1), attrs.get("output_width", 1))
    regions = m.shape(rois)[0]
    ends = [m(AddOp, m(MulOp, m.slice(rois, 1, i, i + 1), scale), -shift) for i in range(4)]
    axes = []
    for axis, n in enumerate(size):
        start, extent = ends[1 - axis], m(SubOp, ends[3 - axis], ends[1 - axis])
        extent = m(MaxOp, extent, 1.0) if not shift else extent
        steps = (np.arange(out[axis] * count, dtype=np.float32) + 0.5) / (out[axis] * count)
        at = m(AddOp, start, m(MulOp, extent, steps.astype(np.float32)))
        axes.append((at, n))
    image = m(GatherOp, x, batches, axis=0)
    if attrs.get("mode", "avg") == "max":
        return [_largest(m, image, axes, out, count)]
    rows, columns = (_roi_weights(m, at, n, out[i], count) for i, (at, n) in enumerate(axes))
    columns = m.reshape(m.transpose(columns, 0, 2, 1), regions, 1, size[1], out[1])
    made = m(MatMulOp, m.reshape(rows, regions, 1, out[0], size[0]), image)
    return [m(MatMulOp, made, columns)]


def _kept(m: Maths, at: Value, n: int) -> tuple[Value, Value]:
    """A coordinate between the elements, and whether it lies no more than one outside."""
    near = m(AndOp, m(GreaterOrEqualOp, at, -1.0), m(LessOrEqualOp, at, float(n)))
    return m(MinOp, m(MaxOp, at, 0.0), float(n - 1)), near


def _roi_weights(m: Maths, at: Value, n: int, out: int, count: int) -> Value:
    """The mean weights of the samples of each output place along one axis."""
    clamped, near = _kept(m, at, n)
    weights = hat(m, clamped, n)
    weights = m(WhereOp, m.reshape(near, *m.shape(near), 1), weights, 0.0)
    apart = m.reshape(weights, m.shape(at)[0], out, count, n)
    return m(ReduceMeanOp, apart, axes=(2,), keepdims=False)


def _largest(
    m: Maths, image: Value, axes: list[tuple[Value, int]], out: tuple[int, int], count: int
) -> Value:
    """The largest of the weighted corners of all samples of an output place."""
    sides = []
    for at, n in axes:
        clamped, near = _kept(m, at, n)
        below = m(FloorOp, clamped)
        share = m(SubOp, clamped, below)
        above = m(MinOp, m(AddOp, below, 1.0), float(n - 1))
        pairs = ((below, m(SubOp, 1.0, share)), (above, share))
        sides.append([_one_hot(m, p, n, m(WhereOp, near, w, 0.0)) for p, w in pairs])
    regions, channels = m.shape(image)[:2]
    best: Value | None = None
    for rows in sides[0]:
        left = m(MatMulOp, m.reshape(rows, regions, 1, *m.shape(rows)[1:]), image)
        for columns in sides[1]:
            right = m.transpose(columns, 0, 2, 1)
            made = m(MatMulOp, left, m.reshape(right, regions, 1, *m.shape(right)[1:]))
            best = made if best is None else m(MaxOp, best, made)
    assert best is not None
    apart = m.reshape(best, regions, channels, out[0], count, out[1], count)
    return m(ReduceMaxOp, apart, axes=(3, 5), keepdims=False)


@adapts("DeformConv")
def _deform_conv(g: Builder, node: Node) -> list[Value]:
    """Every place of the kernel sampled where its offset says, then a product"""
    m = Maths(g)
    x, w, offset = (node.needed(i) for i in range(3))
    attrs = node.attrs
    window = Window.of(
        m.shape(w)[2:], *(attrs.get(n, ()) for n in ("strides", "pads", "dilations"))
    )
    group, shared = attrs.get("group", 1), attrs.get("offset_group", 1)
    batch, channels, *size = m.shape(x)
    out, n = window.out(size), len(size)
    taps, points = prod(window.kernel), prod(out)
    moved = m.reshape(offset, batch, shared, taps, n, points)
    weights = []
    for axis, length in enumerate(size):
        start = np.arange(out[axis]) * window.strides[axis] - window.pads[axis]
        spread_ = start.reshape([-1 if i == axis else 1 for i in range(n)])
        whole = np.broadcast_to(spread_, out).reshape(-1)
        steps = np.indices(window.kernel)[axis].reshape(-1, 1) * window.dilations[axis]
        at = m(AddOp, m.place(moved, 3, axis), (whole + steps).astype(np.float32))
        weights.append(hat(m, at, length))
    matrix = m.transpose(crossed(m, weights), 0, 1, 2, 4, 3)
    images = m.reshape(x, batch, shared, 1, channels // shared, prod(size))
    columns = m(MatMulOp, images, matrix)
    if (mask := node.input(4)) is not None:
        columns = m(MulOp, columns, m.reshape(mask, batch, shared, taps, 1, points))
    columns = m.reshape(
        m.transpose(columns, 0, 1, 3, 2, 4), batch, group, channels // group * taps, points
    )
    kernel = m.reshape(w, group, m.shape(w)[0] // group, m.shape(w)[1] * taps)
    y = m.reshape(m(MatMulOp, kernel, columns), batch, m.shape(w)[0], *out)
    bias = node.input(3)
    if bias is None:
        return [y]
    return [m(AddOp, y, m.reshape(bias, m.shape(w)[0], *(1,) * n))]
