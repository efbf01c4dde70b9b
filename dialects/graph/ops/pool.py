"""Pooling: the largest or the mean of sliding windows, or of all spatial dims."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def

from ge.dialects.graph.base import TENSOR, Array, Shape, Tensor, TensorOp, dims, need, tensor
from ge.dialects.graph.kinds import Bool, Ints, attribute
from ge.dialects.graph.ops.window import Window
from ge.dialects.graph.precision import in_single


def _pooled(x: Tensor, window: Window) -> Tensor:
    need(len(dims(x)) > 2, f"x must have spatial dims, got {x}")
    return tensor((*dims(x)[:2], *window.out(dims(x)[2:])), x.element_type)


@irdl_op_definition
class MaxPoolOp(TensorOp):
    """
    The largest of each window; padding never wins.

    ```mlir
    %r = graph.max_pool %x {kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]}
      : (tensor<1x2x8x8xf32>) -> tensor<1x2x4x4xf32>
    ```
    """

    name = "graph.max_pool"
    ONNX: ClassVar = "MaxPool"
    x = operand_def(TENSOR)
    kernel_shape = attribute(Ints())
    pads = attribute(Ints(()))
    strides = attribute(Ints(()))
    dilations = attribute(Ints(()))
    ceil_mode = attribute(Bool(False))

    @staticmethod
    def infer(
        x: Tensor,
        *,
        kernel_shape: Shape,
        pads: Shape,
        strides: Shape,
        dilations: Shape,
        ceil_mode: bool,
    ) -> Tensor:
        return _pooled(x, Window.of(kernel_shape, strides, pads, dilations, ceil_mode))

    @staticmethod
    def evaluate(
        x: Array,
        *,
        kernel_shape: Shape,
        pads: Shape,
        strides: Shape,
        dilations: Shape,
        ceil_mode: bool,
    ) -> Array:
        window = Window.of(kernel_shape, strides, pads, dilations, ceil_mode)
        low = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
        views = window.view(x, low)
        return views.max(axis=tuple(range(-len(kernel_shape), 0)))


@irdl_op_definition
class AveragePoolOp(TensorOp):
    """
    The mean of each window, over the elements inside the data or (on demand) the padding too.

    ```mlir
    %r = graph.average_pool %x {ceil_mode = true, kernel_shape = [3, 3], strides = [2, 2]}
      : (tensor<1x2x8x8xf32>) -> tensor<1x2x4x4xf32>
    ```
    """

    name = "graph.average_pool"
    ONNX: ClassVar = "AveragePool"
    x = operand_def(TENSOR)
    kernel_shape = attribute(Ints())
    pads = attribute(Ints(()))
    strides = attribute(Ints(()))
    dilations = attribute(Ints(()))
    ceil_mode = attribute(Bool(False))
    count_include_pad = attribute(Bool(False))

    @staticmethod
    def infer(
        x: Tensor,
        *,
        kernel_shape: Shape,
        pads: Shape,
        strides: Shape,
        dilations: Shape,
        ceil_mode: bool,
        count_include_pad: bool,
    ) -> Tensor:
        return _pooled(x, Window.of(kernel_shape, strides, pads, dilations, ceil_mode))

    @staticmethod
    @in_single
    def evaluate(
        x: Array,
        *,
        kernel_shape: Shape,
        pads: Shape,
        strides: Shape,
        dilations: Shape,
        ceil_mode: bool,
        count_include_pad: bool,
    ) -> Array:
        window = Window.of(kernel_shape, strides, pads, dilations, ceil_mode)
        taps = tuple(range(-len(kernel_shape), 0))
        ones = np.ones((1, 1, *x.shape[2:]), x.dtype)
        count = window
        if count_include_pad:
            # What rounding up adds behind the padding is never counted.
            n = len(kernel_shape)
            sides = zip(window.pads[:n], window.pads[n:], strict=True)
            ones = np.pad(ones, [(0, 0), (0, 0), *sides], constant_values=1)
            count = Window(window.kernel, window.strides, (0,) * 2 * n, window.dilations, ceil_mode)
        divisor = count.view(ones, 0).sum(axis=taps)
        total = window.view(x, 0).sum(axis=taps)
        return total / divisor[tuple(slice(d) for d in (1, 1, *total.shape[2:]))]


class GlobalPoolOp(TensorOp, ABC):
    """All spatial dims pooled to one element each."""

    x = operand_def(TENSOR)

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        need(len(dims(x)) > 2, f"x must have spatial dims, got {x}")
        return tensor((*dims(x)[:2], *[1] * (len(dims(x)) - 2)), x.element_type)


@irdl_op_definition
class GlobalAveragePoolOp(GlobalPoolOp):
    """
    The mean over all spatial dims.

    ```mlir
    %r = graph.global_average_pool %x : (tensor<1x2x8x8xf32>) -> tensor<1x2x1x1xf32>
    ```
    """

    name = "graph.global_average_pool"
    ONNX: ClassVar = "GlobalAveragePool"

    @staticmethod
    @in_single
    def evaluate(x: Array) -> Array:
        return x.mean(axis=tuple(range(2, x.ndim)), keepdims=True)


@irdl_op_definition
class GlobalMaxPoolOp(GlobalPoolOp):
    """
    The largest over all spatial dims.

    ```mlir
    %r = graph.global_max_pool %x : (tensor<1x2x8x8xf32>) -> tensor<1x2x1x1xf32>
    ```
    """

    name = "graph.global_max_pool"
    ONNX: ClassVar = "GlobalMaxPool"

    @staticmethod
    def evaluate(x: Array) -> Array:
        return x.max(axis=tuple(range(2, x.ndim)), keepdims=True)
