"""Operators whose result is as long as the data say: as long as it can get, and how long it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import OpResult
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from ge.dialects.graph.base import (
    SEGMENTS,
    TENSOR,
    Array,
    GraphOp,
    Tensor,
    axis_of,
    dims,
    need,
    tensor,
)
from ge.dialects.graph.kinds import Bool, Int, attribute

COUNT = tensor((), i64)


class BoundedOp(GraphOp, ABC):
    """An operator whose last result says how much of the others counts; the rest is zeros."""

    HOST: ClassVar[bool] = True
    BOUNDED: ClassVar[bool] = True

    @staticmethod
    @abstractmethod
    def axes(*rank: Any, **attrs: Any) -> tuple[int | None, ...]:
        """The axis along which each result ends where the count says, given the rank of x."""

    @classmethod
    def cut(cls, results: Sequence[Array], rank: int, attrs: dict[str, Any]) -> list[Array]:
        """The results as long as they are, without the count."""
        *arrays, count = results
        n = int(count)
        pairs = zip(arrays, cls.axes(rank, **attrs), strict=True)
        return [a if axis is None else np.take(a, range(n), axis) for a, axis in pairs]


def _filled(array: Array, axis: int, length: int) -> Array:
    """The array with zeros behind it, up to a length."""
    widths = [(0, length - n if i == axis else 0) for i, n in enumerate(array.shape)]
    return np.pad(array, widths)


def _count(n: int) -> Array:
    return np.asarray(n, np.int64)


@irdl_op_definition
class NonZeroOp(BoundedOp):
    """
    The places of all elements that are not zero, a row for each dim, and how many there are.

    ```mlir
    %r, %n = graph.non_zero %x : (tensor<2x3xf32>) -> (tensor<2x6xi64>, tensor<i64>)
    ```
    """

    name = "graph.non_zero"
    ONNX: ClassVar = "NonZero"
    x = operand_def(TENSOR)
    out: OpResult[Tensor] = result_def(TENSOR)
    count: OpResult[Tensor] = result_def(TENSOR)

    @staticmethod
    def axes(rank: int, **attrs: Any) -> tuple[int | None, ...]:
        return (1,)

    @staticmethod
    def infer(x: Tensor) -> list[Tensor]:
        return [tensor((len(dims(x)), prod(dims(x))), i64), COUNT]

    @staticmethod
    def evaluate(x: Array) -> tuple[Array, Array]:
        places = np.stack(np.nonzero(np.atleast_1d(x))).astype(np.int64)[: x.ndim]
        return _filled(places, 1, x.size), _count(int(np.count_nonzero(x)))


@irdl_op_definition
class CompressOp(BoundedOp):
    """
    The places of `axis`, or of x flattened, where the condition holds, and how many those are.

    ```mlir
    %r, %n = graph.compress %x, %c {axis = 1}
      : (tensor<2x4xf32>, tensor<3xi1>) -> (tensor<2x3xf32>, tensor<i64>)
    ```
    """

    name = "graph.compress"
    ONNX: ClassVar = "Compress"
    x = operand_def(TENSOR)
    condition = operand_def(TENSOR)
    out: OpResult[Tensor] = result_def(TENSOR)
    count: OpResult[Tensor] = result_def(TENSOR)
    axis = attribute(Int(None))

    @staticmethod
    def axes(rank: int, *, axis: int | None) -> tuple[int | None, ...]:
        return (0 if axis is None else axis % rank,)

    @staticmethod
    def infer(x: Tensor, condition: Tensor, *, axis: int | None) -> list[Tensor]:
        flat = condition.element_type == i1 and len(dims(condition)) == 1
        need(flat, f"the condition must be truth values along one dim, got {condition}")
        most = dims(condition)[0]
        if axis is None:
            return [tensor((min(most, prod(dims(x))),), x.element_type), COUNT]
        a = axis_of(axis, len(dims(x)))
        shape = (*dims(x)[:a], min(most, dims(x)[a]), *dims(x)[a + 1 :])
        return [tensor(shape, x.element_type), COUNT]

    @staticmethod
    def evaluate(x: Array, condition: Array, *, axis: int | None) -> tuple[Array, Array]:
        line = x.reshape(-1) if axis is None else x
        at = axis or 0
        bound = min(condition.size, line.shape[at])
        kept = np.compress(condition[:bound], line, axis=at)
        return _filled(kept, at % line.ndim, bound), _count(kept.shape[at])


@irdl_op_definition
class UniqueOp(BoundedOp):
    """
    The different elements, or slices along `axis`: their first places, which each is, their counts.

    ```mlir
    %y, %i, %v, %c, %n = graph.unique %x
      : (tensor<6xf32>) -> (tensor<6xf32>, tensor<6xi64>, tensor<6xi64>, tensor<6xi64>, tensor<i64>)
    ```
    """

    name = "graph.unique"
    ONNX: ClassVar = "Unique"
    x = operand_def(TENSOR)
    out: OpResult[Tensor] = result_def(TENSOR)
    indices: OpResult[Tensor] = result_def(TENSOR)
    inverse: OpResult[Tensor] = result_def(TENSOR)
    counts: OpResult[Tensor] = result_def(TENSOR)
    count: OpResult[Tensor] = result_def(TENSOR)
    axis = attribute(Int(None))
    sorted = attribute(Bool(True))

    @staticmethod
    def axes(rank: int, *, axis: int | None, sorted: bool) -> tuple[int | None, ...]:
        return (0 if axis is None else axis % rank, 0, None, 0)

    @staticmethod
    def infer(x: Tensor, *, axis: int | None, sorted: bool) -> list[Tensor]:
        shape = (prod(dims(x)),) if axis is None else dims(x)
        n = shape[axis_of(axis or 0, len(shape))]
        return [tensor(shape, x.element_type), *[tensor((n,), i64)] * 3, COUNT]

    @staticmethod
    def evaluate(x: Array, *, axis: int | None, sorted: bool) -> tuple[Array, ...]:
        line = x.reshape(-1) if axis is None else x
        at = (axis or 0) % line.ndim
        y, first, inverse, counts = np.unique(line, True, True, True, axis=at)
        inverse = inverse.reshape(-1)
        if not sorted:
            order = np.argsort(first)
            y, first, counts = np.take(y, order, at), first[order], counts[order]
            inverse = np.argsort(order)[inverse]
        n = line.shape[at]
        rows = (_filled(first, 0, n), inverse, _filled(counts, 0, n))
        return (_filled(y, at, n), *(r.astype(np.int64) for r in rows), _count(len(first)))


@irdl_op_definition
class NonMaxSuppressionOp(BoundedOp):
    """
    Batch, class and box of the boxes that no better one of their class overlaps too much.

    ```mlir
    %r, %n = graph.non_max_suppression %boxes, %scores, %most, %overlap
      : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<1xi64>, tensor<1xf32>)
      -> (tensor<12x3xi64>, tensor<i64>)
    ```
    """

    name = "graph.non_max_suppression"
    ONNX: ClassVar = "NonMaxSuppression"
    boxes = operand_def(TENSOR)
    scores = operand_def(TENSOR)
    most = opt_operand_def(TENSOR)
    overlap = opt_operand_def(TENSOR)
    threshold = opt_operand_def(TENSOR)
    out: OpResult[Tensor] = result_def(TENSOR)
    count: OpResult[Tensor] = result_def(TENSOR)
    center_point_box = attribute(Bool(False))
    irdl_options = SEGMENTS

    @staticmethod
    def axes(rank: int, **attrs: Any) -> tuple[int | None, ...]:
        return (0,)

    @staticmethod
    def infer(boxes: Tensor, scores: Tensor, *limits: Tensor | None, **how: Any) -> list[Tensor]:
        fits = len(dims(boxes)) == len(dims(scores)) == 3 and dims(boxes)[2] == 4
        fits = fits and dims(boxes)[:2] == (dims(scores)[0], dims(scores)[2])
        need(fits, f"must have 4 numbers a box and a score each, got {boxes} and {scores}")
        return [tensor((prod(dims(scores)), 3), i64), COUNT]

    @staticmethod
    def evaluate(
        boxes: Array,
        scores: Array,
        most: Array | None = None,
        overlap: Array | None = None,
        threshold: Array | None = None,
        *,
        center_point_box: bool,
    ) -> tuple[Array, Array]:
        limit = 0 if most is None else int(most.reshape(-1)[0])
        iou = 0.0 if overlap is None else float(overlap.reshape(-1)[0])
        least = -np.inf if threshold is None else float(threshold.reshape(-1)[0])
        found = [
            (b, c, i)
            for b, of_batch in enumerate(scores)
            for c, row in enumerate(of_batch)
            for i in _kept(_corners(boxes[b], center_point_box), row, limit, iou, least)
        ]
        rows = np.asarray(found, np.int64).reshape(-1, 3)
        return _filled(rows, 0, scores.size), _count(len(rows))


def _corners(boxes: Array, centred: bool) -> Array:
    """Low and high ends of both sides."""
    if centred:
        x, y, w, h = boxes.T
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], 1)
    y1, x1, y2, x2 = boxes.T
    ends = (np.minimum(y1, y2), np.minimum(x1, x2), np.maximum(y1, y2), np.maximum(x1, x2))
    return np.stack(ends, 1)


def _kept(boxes: Array, scores: Array, most: int, iou: float, least: float) -> Iterator[int]:
    """The boxes in the order of their scores that overlap none before them too much."""
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        if len(kept) == most or not scores[i] > least:
            return
        if all(_overlap(boxes[i], boxes[k]) <= iou for k in kept):
            kept.append(int(i))
            yield int(i)


def _overlap(a: Array, b: Array) -> float:
    """The share that two boxes have in common."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = float(np.prod(np.maximum(sides, 0)))
    areas = [float(np.prod(box[2:] - box[:2])) for box in (a, b)]
    return common / (sum(areas) - common) if common else 0.0
