"""Resize: the spatial (or any) dims sampled at other places."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def

from ge.dialects.graph.base import TENSOR, Array, Shape, Tensor, TensorOp, dims, need, tensor
from ge.dialects.graph.kinds import Choice, Float, Floats, Ints, attribute
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


class NearestMode(StrEnum):
    """Which element is the nearest."""

    ROUND_PREFER_FLOOR = auto()
    ROUND_PREFER_CEIL = auto()
    FLOOR = auto()
    CEIL = auto()


@irdl_op_definition
class ResizeOp(TensorOp):
    """
    x sampled to `sizes`, or to its dims times `scales`: exactly one of the two is given.

    ```mlir
    %r = graph.resize %x {mode = linear, scales = [1.0, 1.0, 2.0, 0.6]}
      : (tensor<1x2x4x5xf32>) -> tensor<1x2x8x3xf32>
    ```
    """

    name = "graph.resize"
    ONNX: ClassVar = "Resize"
    ONNX_INPUTS: ClassVar = ("x", None, "scales", "sizes")
    x = operand_def(TENSOR)
    scales = attribute(Floats(()))
    sizes = attribute(Ints(()))
    mode = attribute(Choice(ResizeMode.NEAREST, ResizeMode))
    coordinate_transformation_mode = attribute(Choice(Coordinates.HALF_PIXEL, Coordinates))
    nearest_mode = attribute(Choice(NearestMode.ROUND_PREFER_FLOOR, NearestMode))
    cubic_coeff_a = attribute(Float(-0.75))

    @staticmethod
    def infer(x: Tensor, *, scales: tuple[float, ...], sizes: Shape, **how: Any) -> Tensor:
        given = scales or sizes
        need(not (scales and sizes), "'scales' and 'sizes' must not be given both")
        need(len(given) == len(dims(x)), f"must have a size for each dim of {x}, got {list(given)}")
        return tensor(_sizes(dims(x), scales, sizes), x.element_type)

    @staticmethod
    @in_single
    def evaluate(x: Array, *, scales: tuple[float, ...], sizes: Shape, **how: Any) -> Array:
        out = _sizes(x.shape, scales, sizes)
        y = x
        for axis, (old, new) in enumerate(zip(x.shape, out, strict=True)):
            scale = scales[axis] if scales else new / old
            if old == new and scale == 1:
                continue
            places = _places(new, old, scale, how["coordinate_transformation_mode"])
            if how["mode"] is ResizeMode.NEAREST:
                y = np.take(y, _nearest(places, old, how["nearest_mode"]), axis=axis)
            else:
                weights = _weights(places, old, how["mode"], how["cubic_coeff_a"])
                y = np.moveaxis(np.tensordot(y, weights, axes=([axis], [1])), -1, axis)
        return y.astype(x.dtype)


def _sizes(shape: Shape, scales: tuple[float, ...], sizes: Shape) -> Shape:
    if sizes:
        return sizes
    return tuple(
        int(np.floor(np.float32(d) * np.float32(s))) for d, s in zip(shape, scales, strict=True)
    )


def _places(new: int, old: int, scale: float, mode: Coordinates) -> Array:
    """The place in x of each element of the result, in single precision like onnxruntime."""
    i = np.arange(new, dtype=np.float32)
    s = np.float32(scale)
    half = np.float32(0.5)
    match mode:
        case Coordinates.ASYMMETRIC:
            return i / s
        case Coordinates.ALIGN_CORNERS:
            return i * np.float32(old - 1) / np.float32(new - 1) if new > 1 else i * 0
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


def _weights(places: Array, old: int, mode: ResizeMode, a: float) -> Array:
    """How much each element of x counts in each element of the result: a new x old matrix."""
    if mode is ResizeMode.LINEAR:
        places = np.clip(places, 0, old - 1)
    base = np.floor(places).astype(np.int64)
    t = places - base
    taps = (
        [(0, 1 - t), (1, t)]
        if mode is ResizeMode.LINEAR
        else [(-1, _far(t + 1, a)), (0, _near(t, a)), (1, _near(1 - t, a)), (2, _far(2 - t, a))]
    )
    weights = np.zeros((len(places), old), np.float32)
    for offset, share in taps:
        np.add.at(weights, (np.arange(len(places)), np.clip(base + offset, 0, old - 1)), share)
    return weights


def _near(t: Array, a: float) -> Array:
    return ((a + 2) * t - (a + 3)) * t * t + 1


def _far(t: Array, a: float) -> Array:
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
