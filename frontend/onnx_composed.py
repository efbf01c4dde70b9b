"""Operators that are written as formulas of others when a model is imported."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects import dtypes
from ge.dialects.graph.ops.binary import (
    AddOp,
    DivOp,
    EqualOp,
    MulOp,
    PowOp,
    SubOp,
    WhereOp,
)
from ge.dialects.graph.ops.index import ScatterElementsOp
from ge.dialects.graph.ops.pool import AveragePoolOp
from ge.dialects.graph.ops.reduce import ReduceL1Op, ReduceL2Op, ReduceMeanOp, ReduceSumOp
from ge.dialects.graph.ops.unary import AbsOp, SqrtOp
from ge.dialects.graph.ops.window import Window
from ge.frontend.onnx_maths import Maths
from ge.frontend.onnx_nodes import Builder, Node, Refused, Value
from ge.frontend.onnx_versions import adapts
from ge.frontend.onnx_windows import explicit_pads


@adapts("LpNormalization")
def _lp_normalization(g: Builder, node: Node) -> list[Value]:
    """X over its norm along an axis, 0 where that is 0"""
    m, x = Maths(g), node.needed(0)
    axis = node.attrs.get("axis", -1) % len(m.shape(x))
    norm = m(ReduceL1Op if node.attrs.get("p", 2) == 1 else ReduceL2Op, x, axes=(axis,))
    return [m(WhereOp, m(EqualOp, norm, 0.0), 0.0, m(DivOp, x, norm))]


@adapts("LpPool")
def _lp_pool(g: Builder, node: Node) -> list[Value]:
    """(sum |x|^p) ^ (1/p) of each window"""
    m, x = Maths(g), node.needed(0)
    kernel = node.attrs["kernel_shape"]
    explicit_pads(m.shape(x)[2:], kernel, node)
    attrs = {n: node.attrs.get(n, ()) for n in ("strides", "pads", "dilations")}
    p = float(node.attrs.get("p", 2))
    power = m(PowOp, m(AbsOp, x), p)
    window = Window.of(kernel, **attrs, ceil=bool(node.attrs.get("ceil_mode", 0)))
    return [m(PowOp, sum_pool(m, power, window), 1.0 / p)]


@adapts("GlobalLpPool")
def _global_lp_pool(g: Builder, node: Node) -> list[Value]:
    """(sum |x|^p) ^ (1/p) of each channel"""
    m, x = Maths(g), node.needed(0)
    p = float(node.attrs.get("p", 2))
    power = m(PowOp, m(AbsOp, x), p)
    total = m(ReduceSumOp, power, axes=tuple(range(2, len(m.shape(x)))), keepdims=True)
    return [m(PowOp, total, 1.0 / p)]


@adapts("MeanVarianceNormalization")
def _mean_variance(g: Builder, node: Node) -> list[Value]:
    """(x - mean) / deviation: centred first, for squares of large numbers cancel"""
    m, x = Maths(g), node.needed(0)
    how = {"axes": tuple(node.attrs.get("axes", (0, 2, 3))), "keepdims": True}
    centred = m(SubOp, x, m(ReduceMeanOp, x, **how))
    return [m(DivOp, centred, m(SqrtOp, m(ReduceMeanOp, m(MulOp, centred, centred), **how)))]


def sum_pool(m: Maths, x: Value, window: Window) -> Value:
    """The sum of each window: the mean of it and its padding, times its elements."""
    size, n = m.shape(x)[2:], len(window.kernel)
    rows = zip(size, window.out(size), window.strides, window.extent, window.pads[:n], strict=True)
    ends = [max(0, (out - 1) * s + e - d - p) for d, out, s, e, p in rows]
    begins = window.pads[:n]
    wide = m.pad(x, (0, 0, *begins), (0, 0, *ends))
    mean = m(
        AveragePoolOp,
        wide,
        kernel_shape=window.kernel,
        strides=window.strides,
        dilations=window.dilations,
    )
    return m(MulOp, mean, float(prod(window.kernel)))


@adapts("CumProd")
def _cum_prod(g: Builder, node: Node) -> list[Value]:
    """Products of ever longer runs: each step doubles them"""
    m, x = Maths(g), node.needed(0)
    known = node.ints(1, "axis") or (0,)
    shape = m.shape(x)
    axis = known[0] % len(shape)
    n, backwards = shape[axis], bool(node.attrs.get("reverse", 0))

    def ahead(value: Value, by: int) -> Value:
        """The value moved on along the axis, ones behind it."""
        kept = m.slice(value, axis, by, n) if backwards else m.slice(value, axis, 0, n - by)
        widths = tuple(by if i == axis else 0 for i in range(len(shape)))
        none = (0,) * len(shape)
        return m.pad(kept, none, widths, 1) if backwards else m.pad(kept, widths, none, 1)

    value = ahead(x, 1) if node.attrs.get("exclusive", 0) else x
    step = 1
    while step < n:
        value = m(MulOp, value, ahead(value, step))
        step *= 2
    return [value]


@adapts("Col2Im")
def _col2im(g: Builder, node: Node) -> list[Value]:
    """Blocks put back where they were cut out; what overlaps adds up"""
    m, x = Maths(g), node.needed(0)
    image, block = node.ints(1, "image_shape"), node.ints(2, "block_shape")
    if image is None or block is None:
        raise Refused("needs the shapes of image and block")
    attrs = {n: node.attrs.get(n, ()) for n in ("strides", "pads", "dilations")}
    window = Window.of(block, **attrs)
    n, (batch, wide) = len(block), m.shape(x)[:2]
    count = window.out(image)
    columns = m.reshape(x, batch, wide // prod(block), prod(block), *count)
    total: Value | None = None
    for number, tap in enumerate(np.ndindex(*block)):
        part = spread(m, m.place(columns, 2, number), window.strides)
        first = [t * d - p for t, d, p in zip(tap, window.dilations, window.pads[:n], strict=True)]
        rest = [i - f - s for i, f, s in zip(image, first, m.shape(part)[2:], strict=True)]
        part = m.pad(part, (0, 0, *first), (0, 0, *rest))
        total = part if total is None else m(AddOp, total, part)
    assert total is not None
    return [total]


def spread(m: Maths, x: Value, strides: tuple[int, ...]) -> Value:
    """Images with `strides[i] - 1` zeros between the elements along spatial dim i."""
    for axis, step in enumerate(strides, 2):
        shape = m.shape(x)
        if step > 1:
            apart = m.reshape(x, *shape[: axis + 1], 1, *shape[axis + 1 :])
            behind = tuple(step - 1 if i == axis + 1 else 0 for i in range(len(shape) + 1))
            wide = m.pad(apart, (0,) * len(behind), behind)
            whole = m.reshape(wide, *shape[:axis], shape[axis] * step, *shape[axis + 1 :])
            x = m.slice(whole, axis, 0, (shape[axis] - 1) * step + 1)
    return x


@adapts("MaxUnpool")
def _max_unpool(g: Builder, node: Node) -> list[Value]:
    """The largest elements put back at their places of the flattened image, zeros elsewhere

    Places are those of the smallest image that has such a result, as in the suite of onnx; or of
    the image that a pooling found them in.
    """
    m, x = Maths(g), node.needed(0)
    kernel = node.attrs["kernel_shape"]
    n = len(kernel)
    window = Window.of(kernel, node.attrs.get("strides", ()), node.attrs.get("pads", ()), ())
    ends = zip(window.pads[:n], window.pads[n:], strict=True)
    size = zip(m.shape(x)[2:], window.strides, kernel, ends, strict=True)
    inner = tuple((d - 1) * s + k - p - q for d, s, k, (p, q) in size)
    asked = node.ints(2, "output_shape")
    places = node.needed(1)
    own = (*m.shape(x)[:2], *inner)
    if isinstance(places, SSAValue) and g.images.get(places) == tuple(asked or ()):
        own = g.images[places]
    zeros = np.zeros(prod(own), g.numpy_type(x))
    flat = [m.reshape(v, prod(m.shape(v))) for v in (places, x)]
    put = m.reshape(g.one(ScatterElementsOp, zeros, *flat, axis=0), *own)
    rest = tuple(a - b for a, b in zip(asked or own, own, strict=True))
    return [m.pad(put, (0,) * (n + 2), rest)]


@adapts("MelWeightMatrix")
def _mel_weights(g: Builder, node: Node) -> list[Value]:
    """Triangles over the bins of a spectrum, all of it known"""
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    known = [node.known(i, name) for i, name in enumerate(names)]
    if any(v is None for v in known):
        raise Refused("needs five inputs")
    bins, length, rate, low, high = (float(v.reshape(-1)[0]) for v in known if v is not None)
    to = dtypes.BY_ONNX[node.attrs.get("output_datatype", dtypes.F32.onnx)]
    count = int(length) // 2 + 1
    edges = np.arange(int(bins) + 2, dtype=np.float64)
    scale = [2595 * np.log10(1 + edge / 700) for edge in (low, high)]
    mels = edges * ((scale[1] - scale[0]) / (bins + 2)) + scale[0]
    hertz = 700 * (10 ** (mels / 2595) - 1)
    places = ((length + 1) * hertz // rate).astype(int)
    weights = np.zeros((count, int(bins)), np.float64)
    for i, (left, top, right) in enumerate(zip(places, places[1:], places[2:], strict=False)):
        if left == top:
            weights[top, i] = 1
        else:
            weights[left : top + 1, i] = (np.arange(left, top + 1) - left) / (top - left)
        if top != right:
            weights[top:right, i] = (right - np.arange(top, right)) / (right - top)
    return [weights.astype(to.numpy)]


@adapts("BatchNormalization")
def _batch_norm(g: Builder, node: Node) -> list[Value] | None:
    """In training by the mean and variance of the batch; the running ones follow them slowly"""
    if not node.attrs.pop("training_mode", 0):
        if not node.attrs.pop("spatial", 1):
            raise Refused("'spatial' must be 1")
        node.only_first_output()
        node.drop("momentum", "is_test", "consumed_inputs")
        return None
    m = Maths(g)
    x, scale, b, mean, var = (node.needed(i) for i in range(5))
    axes = tuple(i for i in range(len(m.shape(x))) if i != 1)
    column = (m.shape(x)[1], *(1,) * (len(axes) - 1))
    own = m(ReduceMeanOp, x, axes=axes, keepdims=False)
    centred = m(SubOp, x, m.reshape(own, *column))
    spread_ = m(ReduceMeanOp, m(MulOp, centred, centred), axes=axes, keepdims=False)
    deviation = m(SqrtOp, m(AddOp, spread_, node.attrs.get("epsilon", 1e-5)))
    factor = m.reshape(m(DivOp, scale, deviation), *column)
    y = m(AddOp, m(MulOp, centred, factor), m.reshape(b, *column))
    kept = node.attrs.get("momentum", 0.9)
    running = [
        m(AddOp, m(MulOp, old, kept), m(MulOp, new, 1.0 - kept))
        for old, new in ((mean, own), (var, spread_))
    ]
    return [y, *running]
