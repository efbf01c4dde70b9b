"""Integers as bits: logic of each bit, and shifts."""

from __future__ import annotations

from abc import ABC
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition

from ge.dialects import dtypes
from ge.dialects.graph.base import Array, Tensor, broadcast, need, same_element, tensor
from ge.dialects.graph.kinds import Choice, attribute
from ge.dialects.graph.ops.binary import BinaryOp
from ge.dialects.graph.ops.unary import UnaryOp


def _integers(*types: Tensor) -> None:
    dtype = dtypes.of_ir(same_element(*types))
    need(not dtype.is_float and dtype is not dtypes.B8, f"operands must be integers, got {dtype}")


class BitwiseOp(BinaryOp, ABC):
    """Two tensors of integers, broadcast, bit by bit."""

    COMMUTES: ClassVar[bool] = True

    @staticmethod
    def infer(lhs: Tensor, rhs: Tensor, **attrs: Any) -> Tensor:
        _integers(lhs, rhs)
        return tensor(broadcast(lhs, rhs), lhs.element_type)


@irdl_op_definition
class BitwiseAndOp(BitwiseOp):
    """
    Bits that both have.

    ```mlir
    %r = graph.bitwise_and %x, %y : (tensor<2x4xi32>, tensor<4xi32>) -> tensor<2x4xi32>
    ```
    """

    name = "graph.bitwise_and"
    ONNX: ClassVar = "BitwiseAnd"

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        return lhs & rhs


@irdl_op_definition
class BitwiseOrOp(BitwiseOp):
    """
    Bits that either has.

    ```mlir
    %r = graph.bitwise_or %x, %y : (tensor<2x4xi32>, tensor<4xi32>) -> tensor<2x4xi32>
    ```
    """

    name = "graph.bitwise_or"
    ONNX: ClassVar = "BitwiseOr"

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        return lhs | rhs


@irdl_op_definition
class BitwiseXorOp(BitwiseOp):
    """
    Bits that one of the two has.

    ```mlir
    %r = graph.bitwise_xor %x, %y : (tensor<2x4xi32>, tensor<4xi32>) -> tensor<2x4xi32>
    ```
    """

    name = "graph.bitwise_xor"
    ONNX: ClassVar = "BitwiseXor"

    @staticmethod
    def evaluate(lhs: Array, rhs: Array) -> Array:
        return lhs ^ rhs


@irdl_op_definition
class BitwiseNotOp(UnaryOp):
    """
    Every bit turned.

    ```mlir
    %r = graph.bitwise_not %x : (tensor<2x4xi32>) -> tensor<2x4xi32>
    ```
    """

    name = "graph.bitwise_not"
    ONNX: ClassVar = "BitwiseNot"

    @staticmethod
    def evaluate(x: Array) -> Array:
        return ~x


class Direction(StrEnum):
    """Where bits are shifted; the words are those of ONNX."""

    LEFT = "LEFT"
    RIGHT = "RIGHT"


@irdl_op_definition
class BitShiftOp(BinaryOp):
    """
    The bits of `lhs` shifted by `rhs`; to the right the sign comes after, if there is one.

    ```mlir
    %r = graph.bit_shift %x, %y {direction = LEFT}
      : (tensor<8xui32>, tensor<8xui32>) -> tensor<8xui32>
    ```
    """

    name = "graph.bit_shift"
    ONNX: ClassVar = "BitShift"
    direction = attribute(Choice(words=Direction))

    @staticmethod
    def infer(lhs: Tensor, rhs: Tensor, **attrs: Any) -> Tensor:
        _integers(lhs, rhs)
        return tensor(broadcast(lhs, rhs), lhs.element_type)

    @staticmethod
    def evaluate(lhs: Array, rhs: Array, *, direction: Direction) -> Array:
        width = lhs.dtype.itemsize * 8
        inside = (rhs >= 0) & (rhs < width)
        by = np.where(inside, rhs, width - 1).astype(lhs.dtype)
        if direction is Direction.RIGHT and lhs.dtype.kind == "i":
            return np.right_shift(lhs, by)
        shift = np.left_shift if direction is Direction.LEFT else np.right_shift
        return np.where(inside, shift(lhs, by), lhs.dtype.type(0))
