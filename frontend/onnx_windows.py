"""Adapters of the operators with windows: padding given by name, and resizing."""

from __future__ import annotations

import numpy as np

from ge.frontend.onnx_nodes import Builder, Node, Refused
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


@adapts("MaxPool", "AveragePool")
def _pool(g: Builder, node: Node) -> None:
    node.only_first_output("MaxPool without 'Indices'")
    kernel = node.attrs.get("kernel_shape", ())
    explicit_pads(g.shape_of(node.needed(0))[2:], kernel, node)
    node.drop("storage_order")


@adapts("ConvTranspose")
def _conv_transpose(g: Builder, node: Node) -> None:
    size, kernel = g.shape_of(node.needed(0))[2:], g.shape_of(node.needed(1))[2:]
    n = len(kernel)
    strides = node.attrs.get("strides") or (1,) * n
    dilations = node.attrs.get("dilations") or (1,) * n
    extra = node.attrs.get("output_padding") or (0,) * n
    how = node.attrs.pop("auto_pad", "NOTSET")
    asked = node.attrs.pop("output_shape", None)
    if asked is None and how.startswith("SAME"):
        asked = tuple(d * s for d, s in zip(size, strides, strict=True))
    if asked is not None:
        full = [
            (d - 1) * s + (k - 1) * gap + 1 + e
            for d, s, k, gap, e in zip(size, strides, kernel, dilations, extra, strict=True)
        ]
        totals = [max(0, f - a) for f, a in zip(full, asked[-n:], strict=True)]
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
    for name, only in (("antialias", 0), ("exclude_outside", 0)):
        if node.attrs.pop(name, only) != only:
            raise Refused(f"'{name}' must be {only}")
    node.drop("extrapolation_value")
    policy = node.attrs.pop("keep_aspect_ratio_policy", "stretch")
    shape = g.shape_of(node.needed(0))
    axes = [a % len(shape) for a in node.attrs.pop("axes", None) or range(len(shape))]
    scales, sizes = node.known(2, "scales"), node.ints(3, "sizes")
    if sizes:
        if policy != "stretch":
            ratios = [s / shape[a] for s, a in zip(sizes, axes, strict=True)]
            factor = min(ratios) if policy == "not_larger" else max(ratios)
            sizes = tuple(int(np.floor(shape[a] * factor + 0.5)) for a in axes)
        given = dict(zip(axes, sizes, strict=True))
        node.attrs["sizes"] = tuple(given.get(i, d) for i, d in enumerate(shape))
    elif scales is not None and scales.size:
        factors = dict(zip(axes, map(float, scales.reshape(-1)), strict=True))
        node.attrs["scales"] = tuple(factors.get(i, 1.0) for i in range(len(shape)))
    del node.inputs[1:]
