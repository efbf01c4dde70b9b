"""Resize: the spatial (or any) dims sampled at other places."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def

from ge.dialects.graph.base import TENSOR, Array, Shape, Tensor, TensorOp, dims, need, tensor
from ge.dialects.graph.kinds import Bool, Choice, Float, Floats, Ints, attribute
from ge.dialects.graph.precision import in_single


class ResizeMode(StrEnum):
    """How a place between elements gets its value."""

    NEAREST = auto()
    LINEAR = auto()
    CUBIC = auto()


class Coordinates(StrEnum):
    """Which place of x belongs to an element of the result."""

    HALF_PIXEL = auto()
    HALF_PIXEL_SYMMETRIC = auto()
    PYTORCH_HALF_PIXEL = auto()
    ALIGN_CORNERS = auto()
    ASYMMETRIC = auto()
    TF_CROP_AND_RESIZE = auto()


class NearestMode(StrEnum):
    """Which element is the nearest."""

    ROUND_PREFER_FLOOR = auto()
    ROUND_PREFER_CEIL = auto()
    FLOOR = auto()
    CEIL = auto()


@irdl_op_definition
class ResizeOp(TensorOp):
    """
    x sampled to `sizes`, or to its dims times `scales`; with both, `scales` say where in x.

    ```mlir
    %r = graph.resize %x {mode = linear, scales = [1.0, 1.0, 2.0, 0.6]}
      : (tensor<1x2x4x5xf32>) -> tensor<1x2x8x3xf32>
    ```
    """

    name = "graph.resize"
    ONNX: ClassVar = "Resize"
    ONNX_INPUTS: ClassVar = ("x", "roi", "scales", "sizes")
    x = operand_def(TENSOR)
    roi = attribute(Floats(()))
    scales = attribute(Floats(()))
    sizes = attribute(Ints(()))
    mode = attribute(Choice(ResizeMode.NEAREST, ResizeMode))
    coordinate_transformation_mode = attribute(Choice(Coordinates.HALF_PIXEL, Coordinates))
    nearest_mode = attribute(Choice(NearestMode.ROUND_PREFER_FLOOR, NearestMode))
    cubic_coeff_a = attribute(Float(-0.75))
    antialias = attribute(Bool(False))
    exclude_outside = attribute(Bool(False))
    extrapolation_value = attribute(Float(0.0))

    @staticmethod
    def infer(
        x: Tensor, *, scales: tuple[float, ...], sizes: Shape, roi: tuple[float, ...], **how: Any
    ) -> Tensor:
        for given in (scales, sizes) if scales and sizes else (scales or sizes,):
            fits = len(given) == len(dims(x))
            need(fits, f"must have a size for each dim of {x}, got {list(given)}")
        need(all(0 < s < np.inf for s in scales), f"'scales' must be positive, got {list(scales)}")
        crops = how["coordinate_transformation_mode"] is Coordinates.TF_CROP_AND_RESIZE
        fits = not crops or len(roi) == 2 * len(dims(x))
        need(fits, f"'roi' must have the ends of each dim of {x}, got {list(roi)}")
        return tensor(_sizes(dims(x), scales, sizes), x.element_type)

    @staticmethod
    @in_single
    def evaluate(
        x: Array, *, scales: tuple[float, ...], sizes: Shape, roi: tuple[float, ...], **how: Any
    ) -> Array:
        crops = how["coordinate_transformation_mode"] is Coordinates.TF_CROP_AND_RESIZE
        spans = _spans(roi, crops, x.ndim)
        out = _sizes(x.shape, scales, sizes)
        y = x
        inside = np.ones((), bool)
        for axis, (old, new) in enumerate(zip(x.shape, out, strict=True)):
            scale = scales[axis] if scales else new / old
            if old == new and scale == 1:
                continue  # onnxruntime leaves such a dim whole, also where 'roi' has a part of it.
            places = _places(new, old, scale, how["coordinate_transformation_mode"], spans[axis])
            line = (places >= 0) & (places <= old - 1)
            inside = inside & line.reshape(-1, *(1,) * (x.ndim - axis - 1))
            if how["mode"] is ResizeMode.NEAREST:
                y = np.take(y, _nearest(places, old, how["nearest_mode"]), axis=axis)
            else:
                weights = _weights(places, old, scale, how)
                y = np.moveaxis(np.tensordot(y, weights, axes=([axis], [1])), -1, axis)
        return np.where(inside, y, how["extrapolation_value"]) if crops else y


def _spans(roi: tuple[float, ...], crops: bool, rank: int) -> list[tuple[float, float]]:
    """The part of each dim that is sampled, as shares of it."""
    return list(zip(roi[:rank], roi[rank:], strict=True)) if crops else [(0.0, 1.0)] * rank


def _sizes(shape: Shape, scales: tuple[float, ...], sizes: Shape) -> Shape:
    """Scales are of whole dims, also where a part of them is sampled: onnxruntime's choice."""
    if sizes:
        return sizes
    pairs = zip(shape, scales, strict=True)
    return tuple(int(np.floor(np.float32(d) * np.float32(s))) for d, s in pairs)


def _places(
    new: int, old: int, scale: float, mode: Coordinates, span: tuple[float, float]
) -> Array:
    """The place in x of each element of the result, in single precision like onnxruntime."""
    i = np.arange(new, dtype=np.float32)
    s = np.float32(scale)
    half = np.float32(0.5)
    match mode:
        case Coordinates.ASYMMETRIC:
            return i / s
        case Coordinates.ALIGN_CORNERS:
            return i * np.float32(old - 1) / np.float32(new - 1) if new > 1 else i * 0
        case Coordinates.TF_CROP_AND_RESIZE:
            low, high = (np.float32(end) * np.float32(old - 1) for end in span)
            return low + i * (high - low) / np.float32(new - 1) if new > 1 else i + (low + high) / 2
        case Coordinates.PYTORCH_HALF_PIXEL if new <= 1:
            return i * 0
        case Coordinates.HALF_PIXEL_SYMMETRIC:
            adjust = np.float32(new) / (s * np.float32(old))
            centre = np.float32(old) / 2
            return centre * (1 - adjust) + (i + half) / s - half
    return (i + half) / s - half


def _nearest(places: Array, old: int, mode: NearestMode) -> Array:
    match mode:
        case NearestMode.ROUND_PREFER_FLOOR:
            index = np.ceil(places - np.float32(0.5))
        case NearestMode.ROUND_PREFER_CEIL:
            index = np.floor(places + np.float32(0.5))
        case NearestMode.FLOOR:
            index = np.floor(places)
        case _:
            index = np.ceil(places)
    return np.clip(index.astype(np.int64), 0, old - 1)


def _weights(places: Array, old: int, scale: float, how: dict[str, Any]) -> Array:
    """How much each element of x counts in each element of the result: a new x old matrix."""
    linear = how["mode"] is ResizeMode.LINEAR
    if linear and not how["exclude_outside"] and not how["antialias"]:
        places = np.clip(places, 0, old - 1)
    # A filter against aliases is as wide as what one element of the result stands for.
    share = np.float32(min(scale, 1.0) if how["antialias"] else 1.0)
    base = np.floor(places).astype(np.int64)
    first = int(np.floor(-(1 if linear else 2) / share)) + 1
    taps = np.arange(first, 2 - first)
    apart = np.abs(taps[None, :] - (places - base)[:, None]).astype(np.float32) * share
    shares = np.maximum(1 - apart, 0) if linear else _cubic(apart, how["cubic_coeff_a"])
    at = base[:, None] + taps[None, :]
    if how["exclude_outside"]:
        shares = np.where((at >= 0) & (at < old), shares, 0)
    if how["exclude_outside"] or how["antialias"]:
        shares = shares / shares.sum(axis=1, keepdims=True)
    weights = np.zeros((len(places), old), np.float32)
    rows = np.broadcast_to(np.arange(len(places))[:, None], at.shape)
    np.add.at(weights, (rows, np.clip(at, 0, old - 1)), shares)
    return weights


def _cubic(apart: Array, a: float) -> Array:
    """The weight of an element so far away."""
    near = ((a + 2) * apart - (a + 3)) * apart * apart + 1
    far = ((a * apart - 5 * a) * apart + 8 * a) * apart - 4 * a
    return np.where(apart <= 1, near, np.where(apart < 2, far, 0))
