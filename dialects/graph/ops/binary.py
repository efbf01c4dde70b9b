"""Two operands, broadcast: arithmetic, logic, comparison, and the choice between two."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.irdl import irdl_op_definition, operand_def

from ge.dialects.graph.base import (
    TENSOR,
    Array,
    Tensor,
    TensorOp,
    broadcast,
    need,
    same_element,
    tensor,
)
from ge.dialects.graph.kinds import Bool, attribute


class BinaryOp(TensorOp, ABC):
    """Two tensors of one element type, broadcast against each other."""

    COMMUTES: ClassVar[bool] = False
    """Whether the operands may change places."""

    lhs = operand_def(TENSOR)
    rhs = operand_def(TENSOR)

    @staticmethod
    def infer(lhs: Tensor, rhs: Tensor, **attrs: Any) -> Tensor:
        return tensor(broadcast(lhs, rhs), same_element(lhs, rhs))


class ComparisonOp(BinaryOp, ABC):
    """Two tensors of one element type, broadcast; the result is true or false."""

    @staticmethod
    def infer(lhs: Tensor, rhs: Tensor, **attrs: Any) -> Tensor:
        same_element(lhs, rhs)
        return tensor(broadcast(lhs, rhs), i1)


class LogicOp(BinaryOp, ABC):
    """Two tensors of truth values, broadcast."""

    @staticmethod
    def infer(lhs: Tensor, rhs: Tensor, **attrs: Any) -> Tensor:
        need(same_element(lhs, rhs) == i1, f"operands must be i1, got {lhs.element_type}")
        return tensor(broadcast(lhs, rhs), i1)


@irdl_op_definition
class AddOp(BinaryOp):
    """
    Sum: `lhs + rhs`.

    ```mlir
    %r = graph.add %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.add"
    ONNX: ClassVar = "Add"
    COMMUTES: ClassVar = True

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        return lhs + rhs


@irdl_op_definition
class SubOp(BinaryOp):
    """
    Difference: `lhs - rhs`.

    ```mlir
    %r = graph.sub %x, %y : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.sub"
    ONNX: ClassVar = "Sub"

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        return lhs - rhs


@irdl_op_definition
class MulOp(BinaryOp):
    """
    Product: `lhs * rhs`.

    ```mlir
    %r = graph.mul %x, %y : (tensor<3x1xf32>, tensor<4xf32>) -> tensor<3x4xf32>
    ```
    """

    name = "graph.mul"
    ONNX: ClassVar = "Mul"
    COMMUTES: ClassVar = True

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        return lhs * rhs


@irdl_op_definition
class DivOp(BinaryOp):
    """
    Quotient: `lhs / rhs`; of integers, rounded towards zero.

    ```mlir
    %r = graph.div %x, %y : (tensor<8xi32>, tensor<1xi32>) -> tensor<8xi32>
    ```
    """

    name = "graph.div"
    ONNX: ClassVar = "Div"

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        with np.errstate(all="ignore"):
            if lhs.dtype.kind not in "iu":
                return lhs / rhs
            floor = lhs // rhs
            # Numpy rounds towards minus infinity: one too low where signs differ and a rest stays.
            return floor + ((floor < 0) & (floor * rhs != lhs)).astype(lhs.dtype)


@irdl_op_definition
class PowOp(BinaryOp):
    """
    Power: `lhs ** rhs`; the exponent may have another element type, the result has the base's.

    ```mlir
    %r = graph.pow %x, %y : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.pow"
    ONNX: ClassVar = "Pow"

    @staticmethod
    def infer(lhs: Tensor, rhs: Tensor, **attrs: Any) -> Tensor:
        return tensor(broadcast(lhs, rhs), lhs.element_type)

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        with np.errstate(all="ignore"):
            if lhs.dtype.kind in "iu":
                return (lhs.astype(np.float64) ** rhs.astype(np.float64)).astype(lhs.dtype)
            return lhs ** rhs.astype(lhs.dtype)


@irdl_op_definition
class MaxOp(BinaryOp):
    """
    The larger of two; NaN when either is.

    ```mlir
    %r = graph.max %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.max"
    ONNX: ClassVar = "Max"
    COMMUTES: ClassVar = True

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        return np.maximum(lhs, rhs)


@irdl_op_definition
class MinOp(BinaryOp):
    """
    The smaller of two; NaN when either is.

    ```mlir
    %r = graph.min %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.min"
    ONNX: ClassVar = "Min"
    COMMUTES: ClassVar = True

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        return np.minimum(lhs, rhs)


@irdl_op_definition
class ModOp(BinaryOp):
    """
    Remainder, with the sign of `rhs`, or of `lhs` when `fmod` is true.

    ```mlir
    %r = graph.mod %x, %y {fmod = true} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    ```
    """

    name = "graph.mod"
    ONNX: ClassVar = "Mod"
    fmod = attribute(Bool(False))

    @staticmethod
    def evaluate(lhs: Array, rhs: Array, *, fmod: bool) -> Array:
        with np.errstate(all="ignore"):
            return np.fmod(lhs, rhs) if fmod else np.mod(lhs, rhs)


@irdl_op_definition
class EqualOp(ComparisonOp):
    """
    Whether `lhs == rhs`.

    ```mlir
    %r = graph.equal %x, %y : (tensor<2x4xi64>, tensor<4xi64>) -> tensor<2x4xi1>
    ```
    """

    name = "graph.equal"
    ONNX: ClassVar = "Equal"
    COMMUTES: ClassVar = True

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        return np.equal(lhs, rhs)


@irdl_op_definition
class LessOp(ComparisonOp):
    """
    Whether `lhs < rhs`.

    ```mlir
    %r = graph.less %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xi1>
    ```
    """

    name = "graph.less"
    ONNX: ClassVar = "Less"

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        return np.less(lhs, rhs)


@irdl_op_definition
class GreaterOp(ComparisonOp):
    """
    Whether `lhs > rhs`.

    ```mlir
    %r = graph.greater %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xi1>
    ```
    """

    name = "graph.greater"
    ONNX: ClassVar = "Greater"

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        return np.greater(lhs, rhs)


@irdl_op_definition
class LessOrEqualOp(ComparisonOp):
    """
    Whether `lhs <= rhs`.

    ```mlir
    %r = graph.less_or_equal %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xi1>
    ```
    """

    name = "graph.less_or_equal"
    ONNX: ClassVar = "LessOrEqual"

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        return np.less_equal(lhs, rhs)


@irdl_op_definition
class GreaterOrEqualOp(ComparisonOp):
    """
    Whether `lhs >= rhs`.

    ```mlir
    %r = graph.greater_or_equal %x, %y : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xi1>
    ```
    """

    name = "graph.greater_or_equal"
    ONNX: ClassVar = "GreaterOrEqual"

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        return np.greater_equal(lhs, rhs)


@irdl_op_definition
class AndOp(LogicOp):
    """
    Both are true.

    ```mlir
    %r = graph.and %x, %y : (tensor<2x4xi1>, tensor<4xi1>) -> tensor<2x4xi1>
    ```
    """

    name = "graph.and"
    ONNX: ClassVar = "And"
    COMMUTES: ClassVar = True

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        return np.logical_and(lhs, rhs)


@irdl_op_definition
class OrOp(LogicOp):
    """
    Either is true.

    ```mlir
    %r = graph.or %x, %y : (tensor<2x4xi1>, tensor<4xi1>) -> tensor<2x4xi1>
    ```
    """

    name = "graph.or"
    ONNX: ClassVar = "Or"
    COMMUTES: ClassVar = True

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        return np.logical_or(lhs, rhs)


@irdl_op_definition
class XorOp(LogicOp):
    """
    Exactly one is true.

    ```mlir
    %r = graph.xor %x, %y : (tensor<2x4xi1>, tensor<4xi1>) -> tensor<2x4xi1>
    ```
    """

    name = "graph.xor"
    ONNX: ClassVar = "Xor"
    COMMUTES: ClassVar = True

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        return np.logical_xor(lhs, rhs)


@irdl_op_definition
class WhereOp(TensorOp):
    """
    `x` where the condition is true, else `y`, all broadcast.

    ```mlir
    %r = graph.where %c, %x, %y
      : (tensor<2x1xi1>, tensor<4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.where"
    ONNX: ClassVar = "Where"
    condition = operand_def(TENSOR)
    x = operand_def(TENSOR)
    y = operand_def(TENSOR)

    @staticmethod
    def infer(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
        need(condition.element_type == i1, f"the condition must be i1, got {condition}")
        return tensor(broadcast(condition, x, y), same_element(x, y))

    @staticmethod
    def evaluate(condition: Array, x: Array, y: Array) -> Array:
        return np.where(condition, x, y)
