"""Adapters of the operators with windows: padding given by name, and resizing."""

from __future__ import annotations

from math import prod

import numpy as np

from ge.dialects.graph.base import need
from ge.dialects.graph.ops.binary import AddOp, GreaterOp, MaxOp, WhereOp
from ge.dialects.graph.ops.window import Window
from ge.frontend.onnx_maths import Maths
from ge.frontend.onnx_nodes import Builder, Node, Refused, Value
from ge.frontend.onnx_versions import adapts


def explicit_pads(size: tuple[int, ...], kernel: tuple[int, ...], node: Node) -> None:
    """Turn `auto_pad` into `pads`."""
    how = node.attrs.pop("auto_pad", "NOTSET")
    n = len(kernel)
    if how == "VALID":
        node.attrs["pads"] = (0,) * 2 * n
    elif how in ("SAME_UPPER", "SAME_LOWER"):
        strides = node.attrs.get("strides") or (1,) * n
        dilations = node.attrs.get("dilations") or (1,) * n
        fits = len(size) == len(strides) == len(dilations) == n and 0 not in strides
        need(fits, f"must have positive 'strides' and 'dilations' for {n} dims")
        totals = [
            max(0, (-(-d // s) - 1) * s + (k - 1) * gap + 1 - d)
            for d, s, k, gap in zip(size, strides, kernel, dilations, strict=True)
        ]
        node.attrs["pads"] = _halves(totals, lower=how == "SAME_LOWER")
    elif how != "NOTSET":
        raise Refused(f"'auto_pad' must be one of ONNX's words, got '{how}'")


def _halves(totals: list[int], *, lower: bool) -> tuple[int, ...]:
    """Begins and ends; an odd rest goes to the end, or to the begin when `lower`."""
    small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return (*large, *small) if lower else (*small, *large)


@adapts("Conv")
def _conv(g: Builder, node: Node) -> None:
    kernel = g.shape_of(node.needed(1))[2:]
    explicit_pads(g.shape_of(node.needed(0))[2:], kernel, node)
    node.drop("kernel_shape")


def _only_window(size: tuple[int, ...], node: Node) -> None:
    """Cut a window that is wider than what it pools: allowed where places are rounded up."""
    kernel, n = node.attrs.get("kernel_shape", ()), len(size)
    dilated = any(d != 1 for d in node.attrs.get("dilations", ()))
    if node.attrs.get("ceil_mode", 0) and not dilated and len(kernel) == n:
        pads = node.attrs.get("pads") or (0,) * 2 * n
        need(len(pads) == 2 * n, f"'pads' must have {2 * n} numbers, got {list(pads)}")
        wide = [d + b + e for d, b, e in zip(size, pads[:n], pads[n:], strict=True)]
        node.attrs["kernel_shape"] = tuple(map(min, kernel, wide))


@adapts("MaxPool", "AveragePool")
def _pool(g: Builder, node: Node) -> list[Value] | None:
    kernel = node.attrs.get("kernel_shape", ())
    size = g.shape_of(node.needed(0))[2:]
    explicit_pads(size, kernel, node)
    _only_window(size, node)
    if any(node.used[1:]):
        return _pool_with_places(g, node)
    node.drop("storage_order")
    return None


def _pool_with_places(g: Builder, node: Node) -> list[Value]:
    """The largest of each window and its place in the flattened images, tap by tap"""
    m, x = Maths(g), node.needed(0)
    names = ("kernel_shape", "strides", "pads", "dilations")
    kernel, strides, pads, dilations = (node.attrs.get(name, ()) for name in names)
    ceil = bool(node.attrs.get("ceil_mode", 0))
    window = Window.of(kernel, strides, pads, dilations, ceil)
    shape, size, n = m.shape(x), m.shape(x)[2:], len(window.kernel)
    out = window.out(size)
    begins = window.pads[:n]
    rows = zip(size, out, window.strides, window.extent, begins, strict=True)
    ends = [max(0, (o - 1) * s + e - d - p) for d, o, s, e, p in rows]
    kind = g.numpy_type(x).kind
    least = -np.inf if kind not in "iu" else np.iinfo(g.numpy_type(x)).min
    wide = m.pad(x, (0, 0, *begins), (0, 0, *ends), least)
    inner = np.arange(prod(size), dtype=np.int64).reshape(size)
    if node.attrs.get("storage_order", 0):
        inner = np.arange(prod(size), dtype=np.int64).reshape(size[::-1]).T
    places = np.pad(inner, [*zip(begins, ends, strict=True)])
    best: Value | None = None
    where: Value | None = None
    for tap in np.ndindex(*window.kernel):
        taken = [
            (t * gap, t * gap + (o - 1) * step + 1, step)
            for t, gap, o, step in zip(tap, window.dilations, out, window.strides, strict=True)
        ]
        here = places[tuple(slice(*cut) for cut in taken)]
        part = wide
        for axis, (start, end, step) in enumerate(taken, 2):
            part = m.slice(part, axis, start, end, step)
        if best is None or where is None:
            best, where = part, m.expand(here, *shape[:2], *out)
        else:
            where = m(WhereOp, m(GreaterOp, part, best), here, where)
            best = m(MaxOp, best, part)
    assert best is not None
    assert where is not None
    first = np.arange(prod(shape[:2]), dtype=np.int64).reshape(*shape[:2], *(1,) * n) * prod(size)
    found = g.ssa(m(AddOp, where, first))
    g.images[found] = shape
    return [best, found]


@adapts("ConvTranspose")
def _conv_transpose(g: Builder, node: Node) -> None:
    size, kernel = g.shape_of(node.needed(0))[2:], g.shape_of(node.needed(1))[2:]
    n = len(kernel)
    strides = node.attrs.get("strides") or (1,) * n
    dilations = node.attrs.get("dilations") or (1,) * n
    extra = node.attrs.get("output_padding") or (0,) * n
    how = node.attrs.pop("auto_pad", "NOTSET")
    asked = node.attrs.pop("output_shape", None)
    by_size = asked is not None
    if asked is None and how.startswith("SAME"):
        asked = tuple(d * s for d, s in zip(size, strides, strict=True))
    if asked is not None:
        full = [
            (d - 1) * s + (k - 1) * gap + 1 + e
            for d, s, k, gap, e in zip(size, strides, kernel, dilations, extra, strict=True)
        ]
        totals = [max(0, f - a) for f, a in zip(full, asked[-n:], strict=True)]
        if by_size:
            # A result larger than all patches together has zeros behind them.
            node.attrs["output_padding"] = tuple(
                e + max(0, a - f) for e, f, a in zip(extra, full, asked[-n:], strict=True)
            )
        # Unlike for Conv, an odd rest goes to the begin unless SAME_UPPER is asked for.
        node.attrs["pads"] = _halves(totals, lower=how != "SAME_UPPER")
    elif how == "VALID":
        node.attrs["pads"] = (0,) * 2 * n
    node.drop("kernel_shape")


@adapts("Upsample")
def _upsample(g: Builder, node: Node) -> None:
    node.op = "Resize"
    scales = node.attrs.get("scales") or node.known(1, "scales")
    node.inputs = [node.needed(0), None, np.asarray(scales, np.float32)]
    node.attrs["coordinate_transformation_mode"] = "asymmetric"
    node.attrs["nearest_mode"] = "floor"
    node.drop("scales")
    _resize(g, node)


@adapts("Resize")
def _resize(g: Builder, node: Node) -> None:
    if node.version == 10:
        node.inputs.insert(1, None)
        node.attrs["coordinate_transformation_mode"] = "asymmetric"
        node.attrs["nearest_mode"] = "floor"
    how = node.attrs.get("coordinate_transformation_mode"), node.attrs.get("nearest_mode")
    if how == ("tf_half_pixel_for_nn", "floor"):
        # Half a pixel further on, and rounded down.
        node.attrs["coordinate_transformation_mode"] = "half_pixel"
        node.attrs["nearest_mode"] = "round_prefer_ceil"
    policy = node.attrs.pop("keep_aspect_ratio_policy", "stretch")
    shape = g.shape_of(node.needed(0))
    axes = [a % len(shape) for a in node.attrs.pop("axes", None) or range(len(shape))]
    scales, sizes = node.known(2, "scales"), node.ints(3, "sizes")
    given = sizes or (() if scales is None else scales.reshape(-1))
    fits = len(given) in (0, len(axes))
    need(fits, f"must have a size for each of {len(axes)} axes, got {list(given)}")
    if node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        roi = node.known(1, "roi")
        ends = np.zeros(2 * len(axes)) if roi is None else roi.reshape(-1)
        need(len(ends) == 2 * len(axes), f"'roi' must have the ends of {len(axes)} axes")
        parts = dict(zip(axes, zip(ends[: len(axes)], ends[len(axes) :], strict=True), strict=True))
        whole = [parts.get(i, (0.0, 1.0)) for i in range(len(shape))]
        node.attrs["roi"] = tuple(float(v) for side in zip(*whole, strict=True) for v in side)
    if sizes:
        if policy != "stretch":
            ratios = [s / shape[a] for s, a in zip(sizes, axes, strict=True)]
            factor = min(ratios) if policy == "not_larger" else max(ratios)
            sizes = tuple(int(np.floor(shape[a] * factor + 0.5)) for a in axes)
            # Sizes are rounded; places in x follow the one factor.
            node.attrs["scales"] = tuple(factor if i in axes else 1.0 for i in range(len(shape)))
        named = dict(zip(axes, sizes, strict=True))
        node.attrs["sizes"] = tuple(named.get(i, d) for i, d in enumerate(shape))
    elif scales is not None and scales.size:
        factors = dict(zip(axes, map(float, scales.reshape(-1)), strict=True))
        node.attrs["scales"] = tuple(factors.get(i, 1.0) for i in range(len(shape)))
    del node.inputs[1:]
