"""Reductions over axes, and sums along one."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.irdl import irdl_op_definition, operand_def

from ge.dialects.graph.base import (
    TENSOR,
    Array,
    Shape,
    Tensor,
    TensorOp,
    axis_of,
    dims,
    need,
    tensor,
)
from ge.dialects.graph.kinds import Bool, Int, Ints, attribute
from ge.dialects.graph.precision import in_single


def _reduced(x: Tensor, axes: Shape, keepdims: bool) -> Shape:
    gone = {axis_of(a, len(dims(x))) for a in axes}
    need(len(gone) == len(axes), f"'axes' must differ, got {list(axes)}")
    rows = enumerate(dims(x))
    return tuple(1 if i in gone else d for i, d in rows if keepdims or i not in gone)


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


def _highest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).max if dtype.kind in "iu" else dtype.type(np.inf)


def _sum(x: Array, axes: Shape, keepdims: bool) -> Array:
    """The sum in the element type of x: numpy would widen small integers."""
    return x.sum(axis=axes, dtype=x.dtype, keepdims=keepdims)


def _divided(total: Array, x: Array) -> Array:
    """The mean from the sum; of integers rounded towards zero."""
    count = x.size // max(1, np.size(total))
    if x.dtype.kind in "iu":
        return (np.abs(total) // count * np.sign(total)).astype(x.dtype)
    return (total / x.dtype.type(count)).astype(x.dtype)


def _log_sum_exp(x: Array, axes: Shape, keepdims: bool) -> Array:
    top = x.max(axis=axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.exp(x - top).sum(axis=axes, keepdims=True)) + top
    return (total if keepdims else total.squeeze(axes)).astype(x.dtype)


class ReduceOp(TensorOp, ABC):
    """One number for all elements along `axes`, which stay as dims of 1 when `keepdims`."""

    x = operand_def(TENSOR)
    axes = attribute(Ints())
    keepdims = attribute(Bool(True))
    ONNX_INPUTS: ClassVar = ("x", "axes")

    @staticmethod
    def infer(x: Tensor, *, axes: Shape, keepdims: bool) -> Tensor:
        return tensor(_reduced(x, axes, keepdims), x.element_type)


@irdl_op_definition
class ReduceSumOp(ReduceOp):
    """
    Sum over `axes`.

    ```mlir
    %r = graph.reduce_sum %x {axes = [1], keepdims = false} : (tensor<2x8x3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.reduce_sum"
    ONNX: ClassVar = "ReduceSum"

    @staticmethod
    @in_single
    def evaluate(x: Array, *, axes: Shape, keepdims: bool) -> Array:
        return np.asarray(_sum(x, axes, keepdims))


@irdl_op_definition
class ReduceMeanOp(ReduceOp):
    """
    Mean over `axes`.

    ```mlir
    %r = graph.reduce_mean %x {axes = [1], keepdims = false}
      : (tensor<2x8x3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.reduce_mean"
    ONNX: ClassVar = "ReduceMean"

    @staticmethod
    @in_single
    def evaluate(x: Array, *, axes: Shape, keepdims: bool) -> Array:
        return np.asarray(_divided(_sum(x, axes, keepdims), x))


@irdl_op_definition
class ReduceMaxOp(ReduceOp):
    """
    Largest over `axes`; the lowest number there is when there is none.

    ```mlir
    %r = graph.reduce_max %x {axes = [1], keepdims = false} : (tensor<2x8x3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.reduce_max"
    ONNX: ClassVar = "ReduceMax"

    @staticmethod
    def evaluate(x: Array, *, axes: Shape, keepdims: bool) -> Array:
        return np.asarray(x.max(axis=axes, keepdims=keepdims, initial=_lowest(x.dtype)))


@irdl_op_definition
class ReduceMinOp(ReduceOp):
    """
    Smallest over `axes`; the highest number there is when there is none.

    ```mlir
    %r = graph.reduce_min %x {axes = [1], keepdims = false} : (tensor<2x8x3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.reduce_min"
    ONNX: ClassVar = "ReduceMin"

    @staticmethod
    def evaluate(x: Array, *, axes: Shape, keepdims: bool) -> Array:
        return np.asarray(x.min(axis=axes, keepdims=keepdims, initial=_highest(x.dtype)))


@irdl_op_definition
class ReduceProdOp(ReduceOp):
    """
    Product over `axes`.

    ```mlir
    %r = graph.reduce_prod %x {axes = [1], keepdims = false}
      : (tensor<2x8x3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.reduce_prod"
    ONNX: ClassVar = "ReduceProd"

    @staticmethod
    @in_single
    def evaluate(x: Array, *, axes: Shape, keepdims: bool) -> Array:
        return np.asarray(x.prod(axis=axes, dtype=x.dtype, keepdims=keepdims))


@irdl_op_definition
class ReduceL1Op(ReduceOp):
    """
    Sum of magnitudes over `axes`.

    ```mlir
    %r = graph.reduce_l1 %x {axes = [1], keepdims = false} : (tensor<2x8x3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.reduce_l1"
    ONNX: ClassVar = "ReduceL1"

    @staticmethod
    @in_single
    def evaluate(x: Array, *, axes: Shape, keepdims: bool) -> Array:
        return np.asarray(_sum(np.abs(x), axes, keepdims))


@irdl_op_definition
class ReduceL2Op(ReduceOp):
    """
    Root of the sum of squares over `axes`.

    ```mlir
    %r = graph.reduce_l2 %x {axes = [1], keepdims = false} : (tensor<2x8x3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.reduce_l2"
    ONNX: ClassVar = "ReduceL2"

    @staticmethod
    @in_single
    def evaluate(x: Array, *, axes: Shape, keepdims: bool) -> Array:
        return np.asarray(np.sqrt(_sum(x * x, axes, keepdims)).astype(x.dtype))


@irdl_op_definition
class ReduceSumSquareOp(ReduceOp):
    """
    Sum of squares over `axes`.

    ```mlir
    %r = graph.reduce_sum_square %x {axes = [1], keepdims = false}
      : (tensor<2x8x3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.reduce_sum_square"
    ONNX: ClassVar = "ReduceSumSquare"

    @staticmethod
    @in_single
    def evaluate(x: Array, *, axes: Shape, keepdims: bool) -> Array:
        return np.asarray(_sum(x * x, axes, keepdims))


@irdl_op_definition
class ReduceLogSumOp(ReduceOp):
    """
    Logarithm of the sum over `axes`.

    ```mlir
    %r = graph.reduce_log_sum %x {axes = [1], keepdims = false}
      : (tensor<2x8x3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.reduce_log_sum"
    ONNX: ClassVar = "ReduceLogSum"

    @staticmethod
    @in_single
    def evaluate(x: Array, *, axes: Shape, keepdims: bool) -> Array:
        return np.asarray(np.log(_sum(x, axes, keepdims)).astype(x.dtype))


@irdl_op_definition
class ReduceLogSumExpOp(ReduceOp):
    """
    Logarithm of the sum of `e ** x` over `axes`.

    ```mlir
    %r = graph.reduce_log_sum_exp %x {axes = [1], keepdims = false}
      : (tensor<2x8x3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.reduce_log_sum_exp"
    ONNX: ClassVar = "ReduceLogSumExp"

    @staticmethod
    @in_single
    def evaluate(x: Array, *, axes: Shape, keepdims: bool) -> Array:
        return np.asarray(_log_sum_exp(x, axes, keepdims))


class ArgOp(TensorOp, ABC):
    """The place of one element along `axis`."""

    x = operand_def(TENSOR)
    axis = attribute(Int(0))
    keepdims = attribute(Bool(True))
    select_last_index = attribute(Bool(False))

    @staticmethod
    def infer(x: Tensor, *, axis: int, keepdims: bool, select_last_index: bool) -> Tensor:
        return tensor(_reduced(x, (axis,), keepdims), i64)


def _comparable(x: Array, axis: int, best: float) -> Array:
    """What is not a number as the best one in the first place, the worst in others.

    So onnxruntime finds places: it compares with the first one, and then what it has found.
    """
    if x.dtype.kind in "biu":
        return x
    rows = np.moveaxis(np.where(x != x, x.dtype.type(-best), x), axis, 0)
    rows[:1] = np.where(np.isnan(np.moveaxis(x, axis, 0)[:1]), x.dtype.type(best), rows[:1])
    return np.moveaxis(rows, 0, axis)


@irdl_op_definition
class ArgMaxOp(ArgOp):
    """
    The index of the largest along `axis`, the first of equals or the last.

    ```mlir
    %r = graph.arg_max %x {axis = 1, select_last_index = true}
      : (tensor<2x8x3xf32>) -> tensor<2x1x3xi64>
    ```
    """

    name = "graph.arg_max"
    ONNX: ClassVar = "ArgMax"

    @staticmethod
    def evaluate(x: Array, *, axis: int, keepdims: bool, select_last_index: bool) -> Array:
        x = _comparable(x, axis, np.inf)
        if not select_last_index:
            return np.asarray(x.argmax(axis=axis, keepdims=keepdims))
        last = np.flip(x, axis).argmax(axis=axis, keepdims=keepdims)
        return np.asarray(x.shape[axis] - 1 - last)


@irdl_op_definition
class ArgMinOp(ArgOp):
    """
    The index of the smallest along `axis`, the first of equals or the last.

    ```mlir
    %r = graph.arg_min %x {keepdims = false} : (tensor<2x8x3xf32>) -> tensor<8x3xi64>
    ```
    """

    name = "graph.arg_min"
    ONNX: ClassVar = "ArgMin"

    @staticmethod
    def evaluate(x: Array, *, axis: int, keepdims: bool, select_last_index: bool) -> Array:
        x = _comparable(x, axis, -np.inf)
        if not select_last_index:
            return np.asarray(x.argmin(axis=axis, keepdims=keepdims))
        last = np.flip(x, axis).argmin(axis=axis, keepdims=keepdims)
        return np.asarray(x.shape[axis] - 1 - last)


@irdl_op_definition
class CumSumOp(TensorOp):
    """
    Running sum along `axis`; `exclusive`: without the element; `reverse`: from the end.

    ```mlir
    %r = graph.cum_sum %x {axis = 1, exclusive = true} : (tensor<2x8xf32>) -> tensor<2x8xf32>
    ```
    """

    name = "graph.cum_sum"
    ONNX: ClassVar = "CumSum"
    ONNX_INPUTS: ClassVar = ("x", "axis")
    x = operand_def(TENSOR)
    axis = attribute(Int())
    exclusive = attribute(Bool(False))
    reverse = attribute(Bool(False))

    @staticmethod
    def infer(x: Tensor, *, axis: int, exclusive: bool, reverse: bool) -> Tensor:
        axis_of(axis, len(dims(x)))
        return x

    @staticmethod
    @in_single
    def evaluate(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
        order = np.flip(x, axis) if reverse else x
        total = np.cumsum(order, axis=axis, dtype=x.dtype)
        total = total - order if exclusive else total
        return np.flip(total, axis) if reverse else total
