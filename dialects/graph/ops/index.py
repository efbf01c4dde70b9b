"""Operators that find elements by index: gathers, scatters, the largest k."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import OpResult
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from ge.dialects import dtypes
from ge.dialects.graph.base import (
    TENSOR,
    Array,
    GraphOp,
    MovingOp,
    Tensor,
    TensorOp,
    axis_of,
    dims,
    need,
    same_element,
    tensor,
)
from ge.dialects.graph.kinds import Bool, Choice, Int, attribute


class ScatterMode(StrEnum):
    """What a scattered element does with the one in its place."""

    NONE = auto()
    ADD = auto()
    MUL = auto()
    MAX = auto()
    MIN = auto()


_INTO = {
    ScatterMode.ADD: np.add,
    ScatterMode.MUL: np.multiply,
    ScatterMode.MAX: np.maximum,
    ScatterMode.MIN: np.minimum,
}


def _indices(type_: Tensor) -> None:
    element = dtypes.of_ir(type_.element_type)
    fits = not element.is_float and element is not dtypes.B8
    need(fits, f"indices must be integers, got {type_}")


def _from_front(indices: Array, size: int) -> Array:
    """Indices counted from the end made to count from the front; raises outside the dim."""
    if indices.size and not (-size <= indices.min() and indices.max() < size):
        raise IndexError(f"indices must be in [{-size}, {size - 1}]")
    return np.where(indices < 0, indices + size, indices)


@irdl_op_definition
class GatherOp(MovingOp, TensorOp):
    """
    The slices of x at `indices` along `axis`; a negative index counts from the end.

    ```mlir
    %r = graph.gather %x, %i {axis = 1}
      : (tensor<2x4x3xf32>, tensor<2x2xi64>) -> tensor<2x2x2x3xf32>
    ```
    """

    name = "graph.gather"
    ONNX: ClassVar = "Gather"
    x = operand_def(TENSOR)
    indices = operand_def(TENSOR)
    axis = attribute(Int(0))

    @staticmethod
    def infer(x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
        _indices(indices)
        a = axis_of(axis, len(dims(x)))
        return tensor((*dims(x)[:a], *dims(indices), *dims(x)[a + 1 :]), x.element_type)

    @staticmethod
    def evaluate(x: Array, indices: Array, *, axis: int) -> Array:
        return np.take(x, _from_front(indices, x.shape[axis]), axis=axis)


@irdl_op_definition
class GatherElementsOp(TensorOp):
    """
    For each index the element of x in its own place, but at that index along `axis`.

    ```mlir
    %r = graph.gather_elements %x, %i {axis = 1}
      : (tensor<2x4xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.gather_elements"
    ONNX: ClassVar = "GatherElements"
    x = operand_def(TENSOR)
    indices = operand_def(TENSOR)
    axis = attribute(Int(0))

    @staticmethod
    def infer(x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
        _indices(indices)
        axis_of(axis, len(dims(x)))
        fits = len(dims(x)) == len(dims(indices))
        need(fits, f"indices must have the rank of x, got {x} and {indices}")
        return tensor(dims(indices), x.element_type)

    @staticmethod
    def evaluate(x: Array, indices: Array, *, axis: int) -> Array:
        at = _places(indices, x, axis)
        return x[at]


def _places(indices: Array, x: Array, axis: int) -> tuple[Array, ...]:
    """Where each index points: its own place, with `axis` replaced by the index."""
    at = list(np.indices(indices.shape, sparse=True))
    at[axis] = _from_front(indices, x.shape[axis])
    return tuple(at)


@irdl_op_definition
class GatherNDOp(TensorOp):
    """
    For each index tuple (last dim of `indices`) the slice of x there, batch by batch.

    ```mlir
    %r = graph.gather_nd %x, %i {batch_dims = 1}
      : (tensor<2x4x3xf32>, tensor<2x5x1xi64>) -> tensor<2x5x3xf32>
    ```
    """

    name = "graph.gather_nd"
    ONNX: ClassVar = "GatherND"
    x = operand_def(TENSOR)
    indices = operand_def(TENSOR)
    batch_dims = attribute(Int(0))

    @staticmethod
    def infer(x: Tensor, indices: Tensor, *, batch_dims: int) -> Tensor:
        _indices(indices)
        dx, di = dims(x), dims(indices)
        fits = bool(di) and di[-1] + batch_dims <= len(dx) and dx[:batch_dims] == di[:batch_dims]
        need(fits, f"an index must address x behind {batch_dims} equal dims, got {x} and {indices}")
        return tensor((*di[:-1], *dx[batch_dims + di[-1] :]), x.element_type)

    @staticmethod
    def evaluate(x: Array, indices: Array, *, batch_dims: int) -> Array:
        lead = np.indices(indices.shape[:-1], sparse=True)[:batch_dims]
        parts = [
            _from_front(indices[..., i], x.shape[batch_dims + i]) for i in range(indices.shape[-1])
        ]
        return x[(*lead, *parts)]


@irdl_op_definition
class ScatterNDOp(TensorOp):
    """
    x with `updates` put in at index tuples, or combined with what is there.

    ```mlir
    %r = graph.scatter_nd %x, %i, %u {reduction = add}
      : (tensor<4x3xf32>, tensor<2x1xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
    ```
    """

    name = "graph.scatter_nd"
    ONNX: ClassVar = "ScatterND"
    x = operand_def(TENSOR)
    indices = operand_def(TENSOR)
    updates = operand_def(TENSOR)
    reduction = attribute(Choice(ScatterMode.NONE, ScatterMode))

    @staticmethod
    def infer(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: ScatterMode) -> Tensor:
        _indices(indices)
        same_element(x, updates)
        di = dims(indices)
        need(bool(di) and di[-1] <= len(dims(x)), f"an index must address {x}, got {indices}")
        want = tensor((*di[:-1], *dims(x)[di[-1] :]), x.element_type)
        need(updates == want, f"updates must be {want}, got {updates}")
        return x

    @staticmethod
    def evaluate(x: Array, indices: Array, updates: Array, *, reduction: ScatterMode) -> Array:
        parts = (_from_front(indices[..., i], x.shape[i]) for i in range(indices.shape[-1]))
        return _scattered(x, tuple(parts), updates, reduction)


@irdl_op_definition
class ScatterElementsOp(TensorOp):
    """
    x with each update put in its own place, but at its index along `axis`.

    ```mlir
    %r = graph.scatter_elements %x, %i, %u {axis = 1, reduction = max}
      : (tensor<2x4xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.scatter_elements"
    ONNX: ClassVar = "ScatterElements"
    x = operand_def(TENSOR)
    indices = operand_def(TENSOR)
    updates = operand_def(TENSOR)
    axis = attribute(Int(0))
    reduction = attribute(Choice(ScatterMode.NONE, ScatterMode))

    @staticmethod
    def infer(
        x: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: ScatterMode
    ) -> Tensor:
        _indices(indices)
        same_element(x, updates)
        axis_of(axis, len(dims(x)))
        need(dims(indices) == dims(updates), f"updates must have a number an index, got {updates}")
        need(len(dims(indices)) == len(dims(x)), f"indices must have the rank of x, got {indices}")
        return x

    @staticmethod
    def evaluate(
        x: Array, indices: Array, updates: Array, *, axis: int, reduction: ScatterMode
    ) -> Array:
        return _scattered(x, _places(indices, x, axis), updates, reduction)


def _scattered(x: Array, at: tuple[Array, ...], updates: Array, mode: ScatterMode) -> Array:
    y = x.copy()
    if mode is ScatterMode.NONE:
        y[at] = updates
    else:
        _INTO[mode].at(y, at, updates)
    return y


class ScatterPlaces(StrEnum):
    """Where the places of a cache go on behind its last one."""

    LINEAR = auto()
    CIRCULAR = auto()


@irdl_op_definition
class TensorScatterOp(TensorOp):
    """
    A cache with the places from `start` on along `axis` replaced; each batch has a start, or 0.

    ```mlir
    %r = graph.tensor_scatter %x, %u, %s {axis = 1}
      : (tensor<2x8x3xf32>, tensor<2x1x3xf32>, tensor<2xi64>) -> tensor<2x8x3xf32>
    ```
    """

    name = "graph.tensor_scatter"
    ONNX: ClassVar = "TensorScatter"
    x = operand_def(TENSOR)
    updates = operand_def(TENSOR)
    start = opt_operand_def(TENSOR)
    axis = attribute(Int(-2))
    mode = attribute(Choice(ScatterPlaces.LINEAR, ScatterPlaces))

    @staticmethod
    def infer(
        x: Tensor, updates: Tensor, start: Tensor | None, *, axis: int, mode: ScatterPlaces
    ) -> Tensor:
        same_element(x, updates)
        a = axis_of(axis, len(dims(x)))
        need(a > 0, "the axis must not be that of the batch")
        count = dims(updates)[a] if len(dims(updates)) == len(dims(x)) else -1
        want = (*dims(x)[:a], count, *dims(x)[a + 1 :])
        fits = 0 <= count <= dims(x)[a] and dims(updates) == want
        need(fits, f"updates must be {x}, shorter along axis {a}, got {updates}")
        if start is not None:
            _indices(start)
            need(dims(start) == dims(x)[:1], f"start must have a number a batch, got {start}")
        return x

    @staticmethod
    def evaluate(
        x: Array, updates: Array, start: Array | None, *, axis: int, mode: ScatterPlaces
    ) -> Array:
        size, count = x.shape[axis], updates.shape[axis]
        firsts = np.zeros(len(x), np.int64) if start is None else start
        y = x.copy()
        for batch, first in enumerate(firsts):
            places = int(first) + np.arange(count)
            if mode is ScatterPlaces.CIRCULAR:
                places %= size
            elif count and not 0 <= first <= size - count:
                raise IndexError(f"a start must be in [0, {size - count}]")
            np.moveaxis(y[batch], axis - (axis > 0), 0)[places] = np.moveaxis(
                updates[batch], axis - (axis > 0), 0
            )
        return y


@irdl_op_definition
class OneHotOp(TensorOp):
    """
    A new dim of `depth` at `axis`: `values[1]` at the index, `values[0]` elsewhere.

    ```mlir
    %r = graph.one_hot %i, %values {axis = 1, depth = 4}
      : (tensor<2x3xi64>, tensor<2xf32>) -> tensor<2x4x3xf32>
    ```
    """

    name = "graph.one_hot"
    ONNX: ClassVar = "OneHot"
    ONNX_INPUTS: ClassVar = ("indices", "depth", "values")
    indices = operand_def(TENSOR)
    values = operand_def(TENSOR)
    depth = attribute(Int())
    axis = attribute(Int(-1))

    @staticmethod
    def infer(indices: Tensor, values: Tensor, *, depth: int, axis: int) -> Tensor:
        need(dims(values) == (2,), f"values must be 2 numbers, got {values}")
        a = axis_of(axis, len(dims(indices)) + 1)
        return tensor((*dims(indices)[:a], depth, *dims(indices)[a:]), values.element_type)

    @staticmethod
    def evaluate(indices: Array, values: Array, *, depth: int, axis: int) -> Array:
        a = axis % (indices.ndim + 1)
        index = np.expand_dims(np.where(indices < 0, indices + depth, indices), a)
        row = np.arange(depth).reshape(-1, *[1] * (indices.ndim - a))
        return np.where(index == row, values[1], values[0])


@irdl_op_definition
class TopKOp(GraphOp):
    """
    The k largest (or smallest) along `axis` and their indices, the lower index first among equals.

    ```mlir
    %r, %s = graph.top_k %x {axis = 0, k = 2}
      : (tensor<5x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi64>)
    ```
    """

    name = "graph.top_k"
    ONNX: ClassVar = "TopK"
    ONNX_INPUTS: ClassVar = ("x", "k")
    x = operand_def(TENSOR)
    values: OpResult[Tensor] = result_def(TENSOR)
    indices: OpResult[Tensor] = result_def(TENSOR)
    k = attribute(Int(onnx_dims=1))
    axis = attribute(Int(-1))
    largest = attribute(Bool(True))
    sorted = attribute(Bool(True))

    @staticmethod
    def infer(x: Tensor, *, k: int, axis: int, largest: bool, sorted: bool) -> list[Tensor]:
        a = axis_of(axis, len(dims(x)))
        need(0 <= k <= dims(x)[a], f"'k' must be in [0, {dims(x)[a]}], got {k}")
        shape = (*dims(x)[:a], k, *dims(x)[a + 1 :])
        return [tensor(shape, x.element_type), tensor(shape, i64)]

    @staticmethod
    def evaluate(
        x: Array, *, k: int, axis: int, largest: bool, sorted: bool
    ) -> tuple[Array, Array]:
        # A stable sort of the reversed data keeps the lower index first when the order turns.
        if largest:
            order = (
                x.shape[axis]
                - 1
                - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
            )
        else:
            order = np.argsort(x, axis=axis, kind="stable")
        first = np.take(order, range(k), axis=axis)
        return np.take_along_axis(x, first, axis=axis), first
