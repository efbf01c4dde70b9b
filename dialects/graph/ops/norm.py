"""Normalisations and softmax."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def

from ge.dialects.graph.base import (
    TENSOR,
    Array,
    Tensor,
    TensorOp,
    axis_of,
    broadcast,
    dims,
    need,
    same_element,
    tensor,
)
from ge.dialects.graph.kinds import Float, Int, attribute
from ge.dialects.graph.precision import in_single


def _per_channel(x: Tensor, *parameters: Tensor) -> None:
    """Every parameter must have one number a channel of x."""
    need(len(dims(x)) > 1, f"x must have channels, got {x}")
    for p in parameters:
        need(dims(p) == dims(x)[1:2], f"a parameter must have {dims(x)[1]} numbers, got {p}")


def _column(parameter: Array, x: Array) -> Array:
    """A parameter of each channel, shaped to broadcast against x."""
    return parameter.reshape(-1, *[1] * (x.ndim - 2))


def _normalised(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    centred = x - x.mean(axis=axes, keepdims=True)
    variance = np.square(centred).mean(axis=axes, keepdims=True)
    return centred / np.sqrt(variance + x.dtype.type(epsilon))


@irdl_op_definition
class BatchNormalizationOp(TensorOp):
    """
    `(x - mean) / sqrt(var + epsilon) * scale + b`, with given numbers for each channel.

    ```mlir
    %r = graph.batch_norm %x, %scale, %b, %mean, %var {epsilon = 0.001}
      : (tensor<1x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      -> tensor<1x4x3x3xf32>
    ```
    """

    name = "graph.batch_norm"
    ONNX: ClassVar = "BatchNormalization"
    x = operand_def(TENSOR)
    scale = operand_def(TENSOR)
    b = operand_def(TENSOR)
    mean = operand_def(TENSOR)
    var = operand_def(TENSOR)
    epsilon = attribute(Float(1e-5))

    @staticmethod
    def infer(
        x: Tensor, scale: Tensor, b: Tensor, mean: Tensor, var: Tensor, *, epsilon: float
    ) -> Tensor:
        _per_channel(x, scale, b, mean, var)
        return x

    @staticmethod
    @in_single
    def evaluate(
        x: Array, scale: Array, b: Array, mean: Array, var: Array, *, epsilon: float
    ) -> Array:
        factor = scale / np.sqrt(var + x.dtype.type(epsilon))
        return x * _column(factor, x) + _column(b - mean * factor, x)


@irdl_op_definition
class InstanceNormalizationOp(TensorOp):
    """
    Each channel of each sample to mean 0 and variance 1, then `* scale + b`.

    ```mlir
    %r = graph.instance_norm %x, %scale, %b
      : (tensor<2x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3x3xf32>
    ```
    """

    name = "graph.instance_norm"
    ONNX: ClassVar = "InstanceNormalization"
    x = operand_def(TENSOR)
    scale = operand_def(TENSOR)
    b = operand_def(TENSOR)
    epsilon = attribute(Float(1e-5))

    @staticmethod
    def infer(x: Tensor, scale: Tensor, b: Tensor, *, epsilon: float) -> Tensor:
        same_element(x, scale, b)
        _per_channel(x, scale, b)
        return x

    @staticmethod
    @in_single
    def evaluate(x: Array, scale: Array, b: Array, *, epsilon: float) -> Array:
        normal = _normalised(x, tuple(range(2, x.ndim)), epsilon)
        return normal * _column(scale, x) + _column(b, x)


@irdl_op_definition
class GroupNormalizationOp(TensorOp):
    """
    Each group of channels of each sample to mean 0 and variance 1, then `* scale + b`.

    ```mlir
    %r = graph.group_norm %x, %scale, %b {num_groups = 2}
      : (tensor<2x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3x3xf32>
    ```
    """

    name = "graph.group_norm"
    ONNX: ClassVar = "GroupNormalization"
    x = operand_def(TENSOR)
    scale = operand_def(TENSOR)
    b = operand_def(TENSOR)
    num_groups = attribute(Int())
    epsilon = attribute(Float(1e-5))

    @staticmethod
    def infer(x: Tensor, scale: Tensor, b: Tensor, *, num_groups: int, epsilon: float) -> Tensor:
        same_element(x, scale, b)
        _per_channel(x, scale, b)
        fits = num_groups > 0 and dims(x)[1] % num_groups == 0
        need(fits, f"'num_groups' must divide {dims(x)[1]}, got {num_groups}")
        return x

    @staticmethod
    @in_single
    def evaluate(x: Array, scale: Array, b: Array, *, num_groups: int, epsilon: float) -> Array:
        grouped = x.reshape(x.shape[0], num_groups, -1)
        normal = _normalised(grouped, (2,), epsilon).reshape(x.shape)
        return normal * _column(scale, x) + _column(b, x)


@irdl_op_definition
class LayerNormalizationOp(TensorOp):
    """
    All dims from `axis` on to mean 0 and variance 1, then `* scale + b`.

    ```mlir
    %r = graph.layer_norm %x, %scale, %b {epsilon = 1.0e-06}
      : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
    ```
    """

    name = "graph.layer_norm"
    ONNX: ClassVar = "LayerNormalization"
    x = operand_def(TENSOR)
    scale = operand_def(TENSOR)
    b = opt_operand_def(TENSOR)
    axis = attribute(Int(-1))
    epsilon = attribute(Float(1e-5))

    @staticmethod
    def infer(
        x: Tensor, scale: Tensor, b: Tensor | None = None, *, axis: int, epsilon: float
    ) -> Tensor:
        same_element(x, scale, b)
        row = tensor(dims(x)[axis_of(axis, len(dims(x))) :], x.element_type)
        for p in (scale, b):
            fits = p is None or broadcast(x, p) == dims(x)
            need(fits, f"a parameter must broadcast to {row}, got {p}")
        return x

    @staticmethod
    @in_single
    def evaluate(
        x: Array, scale: Array, b: Array | None = None, *, axis: int, epsilon: float
    ) -> Array:
        axes = tuple(range(axis % x.ndim, x.ndim))
        y = _normalised(x, axes, epsilon) * scale
        return y if b is None else y + b


@irdl_op_definition
class RMSNormalizationOp(TensorOp):
    """
    All dims from `axis` on divided by the root of their mean square, then `* scale`.

    ```mlir
    %r = graph.rms_norm %x, %scale : (tensor<2x3x8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
    ```
    """

    name = "graph.rms_norm"
    ONNX: ClassVar = "RMSNormalization"
    x = operand_def(TENSOR)
    scale = operand_def(TENSOR)
    axis = attribute(Int(-1))
    epsilon = attribute(Float(1e-5))

    @staticmethod
    def infer(x: Tensor, scale: Tensor, *, axis: int, epsilon: float) -> Tensor:
        axis_of(axis, len(dims(x)))
        need(broadcast(x, scale) == dims(x), f"scale must broadcast to {x}, got {scale}")
        return tensor(dims(x), scale.element_type)

    @staticmethod
    @in_single
    def evaluate(x: Array, scale: Array, *, axis: int, epsilon: float) -> Array:
        axes = tuple(range(axis % x.ndim, x.ndim))
        mean_square = np.square(x).mean(axis=axes, keepdims=True)
        return x / np.sqrt(mean_square + x.dtype.type(epsilon)) * scale


class AxisOp(TensorOp, ABC):
    """A function of all elements along one axis."""

    x = operand_def(TENSOR)
    axis = attribute(Int(-1))

    @staticmethod
    def infer(x: Tensor, *, axis: int) -> Tensor:
        axis_of(axis, len(dims(x)))
        return x


@irdl_op_definition
class SoftmaxOp(AxisOp):
    """
    `e ** x`, divided by its sum along `axis`.

    ```mlir
    %r = graph.softmax %x {axis = 1} : (tensor<2x8x3xf32>) -> tensor<2x8x3xf32>
    ```
    """

    name = "graph.softmax"
    ONNX: ClassVar = "Softmax"

    @staticmethod
    @in_single
    def evaluate(x: Array, *, axis: int) -> Array:
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)


@irdl_op_definition
class LogSoftmaxOp(AxisOp):
    """
    The logarithm of softmax along `axis`.

    ```mlir
    %r = graph.log_softmax %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
    ```
    """

    name = "graph.log_softmax"
    ONNX: ClassVar = "LogSoftmax"

    @staticmethod
    @in_single
    def evaluate(x: Array, *, axis: int) -> Array:
        shifted = x - x.max(axis=axis, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


@irdl_op_definition
class HardmaxOp(AxisOp):
    """
    1 at the first largest element along `axis`, 0 elsewhere.

    ```mlir
    %r = graph.hardmax %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
    ```
    """

    name = "graph.hardmax"
    ONNX: ClassVar = "Hardmax"

    @staticmethod
    def evaluate(x: Array, *, axis: int) -> Array:
        first = np.expand_dims(x.argmax(axis=axis), axis)
        y = np.zeros_like(x)
        np.put_along_axis(y, first, 1, axis=axis)
        return y


@irdl_op_definition
class LRNOp(TensorOp):
    """
    `x / (bias + alpha / size * s) ** beta`, s the sum of squares of the `size` channels around.

    ```mlir
    %r = graph.lrn %x {alpha = 0.1, size = 3} : (tensor<2x5x3x3xf32>) -> tensor<2x5x3x3xf32>
    ```
    """

    name = "graph.lrn"
    ONNX: ClassVar = "LRN"
    x = operand_def(TENSOR)
    size = attribute(Int())
    alpha = attribute(Float(1e-4))
    beta = attribute(Float(0.75))
    bias = attribute(Float(1.0))

    @staticmethod
    def infer(x: Tensor, *, size: int, alpha: float, beta: float, bias: float) -> Tensor:
        need(len(dims(x)) > 1, f"x must have channels, got {x}")
        need(size > 0, f"'size' must be positive, got {size}")
        return x

    @staticmethod
    @in_single
    def evaluate(x: Array, *, size: int, alpha: float, beta: float, bias: float) -> Array:
        sides = ((size - 1) // 2, size // 2)
        squares = np.pad(np.square(x), [(0, 0), sides, *[(0, 0)] * (x.ndim - 2)])
        windows = np.lib.stride_tricks.sliding_window_view(squares, size, axis=1)
        scale = np.float32(bias) + np.float32(alpha / size) * windows.sum(axis=-1)
        return x / scale ** np.float32(beta)
