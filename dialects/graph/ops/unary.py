"""One operand, one function of each element; casts and the operators that change nothing."""

from __future__ import annotations

from abc import ABC
from math import erf
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.irdl import irdl_op_definition, operand_def

from ge.dialects import dtypes
from ge.dialects.dtypes import DType
from ge.dialects.graph.base import (
    TENSOR,
    Array,
    MovingOp,
    Tensor,
    TensorOp,
    dims,
    need,
    tensor,
)
from ge.dialects.graph.kinds import Bool, ElementType, Float, attribute
from ge.dialects.graph.precision import in_single

_erf = np.vectorize(erf, otypes=[np.float64])


class UnaryOp(TensorOp, ABC):
    """One tensor in, one of the same type out."""

    x = operand_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, **attrs: Any) -> Tensor:
        return x


@irdl_op_definition
class NegOp(UnaryOp):
    """
    Negative: `-x`.

    ```mlir
    %r = graph.neg %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.neg"
    ONNX: ClassVar = "Neg"

    @staticmethod
    def evaluate(x: Array) -> Array:
        return -x


@irdl_op_definition
class AbsOp(UnaryOp):
    """
    Magnitude: `|x|`.

    ```mlir
    %r = graph.abs %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.abs"
    ONNX: ClassVar = "Abs"

    @staticmethod
    def evaluate(x: Array) -> Array:
        return np.abs(x)


@irdl_op_definition
class ExpOp(UnaryOp):
    """
    Exponential: `e ** x`.

    ```mlir
    %r = graph.exp %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.exp"
    ONNX: ClassVar = "Exp"

    @staticmethod
    def evaluate(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.exp(x)


@irdl_op_definition
class LogOp(UnaryOp):
    """
    Natural logarithm.

    ```mlir
    %r = graph.log %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.log"
    ONNX: ClassVar = "Log"

    @staticmethod
    def evaluate(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.log(x)


@irdl_op_definition
class SqrtOp(UnaryOp):
    """
    Square root.

    ```mlir
    %r = graph.sqrt %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.sqrt"
    ONNX: ClassVar = "Sqrt"

    @staticmethod
    def evaluate(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.sqrt(x)


@irdl_op_definition
class ReciprocalOp(UnaryOp):
    """
    One over: `1 / x`.

    ```mlir
    %r = graph.reciprocal %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.reciprocal"
    ONNX: ClassVar = "Reciprocal"

    @staticmethod
    def evaluate(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return 1 / x


@irdl_op_definition
class SignOp(UnaryOp):
    """
    -1, 0 or 1; NaN for NaN.

    ```mlir
    %r = graph.sign %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.sign"
    ONNX: ClassVar = "Sign"

    @staticmethod
    def evaluate(x: Array) -> Array:
        return np.sign(x)


@irdl_op_definition
class FloorOp(UnaryOp):
    """
    The next whole number below.

    ```mlir
    %r = graph.floor %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.floor"
    ONNX: ClassVar = "Floor"

    @staticmethod
    def evaluate(x: Array) -> Array:
        return np.floor(x)


@irdl_op_definition
class CeilOp(UnaryOp):
    """
    The next whole number above.

    ```mlir
    %r = graph.ceil %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.ceil"
    ONNX: ClassVar = "Ceil"

    @staticmethod
    def evaluate(x: Array) -> Array:
        return np.ceil(x)


@irdl_op_definition
class RoundOp(UnaryOp):
    """
    The nearest whole number, halves to the even one.

    ```mlir
    %r = graph.round %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.round"
    ONNX: ClassVar = "Round"

    @staticmethod
    def evaluate(x: Array) -> Array:
        return np.rint(x)


@irdl_op_definition
class ErfOp(UnaryOp):
    """
    The error function.

    ```mlir
    %r = graph.erf %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.erf"
    ONNX: ClassVar = "Erf"

    @staticmethod
    @in_single
    def evaluate(x: Array) -> Array:
        return _erf(x).astype(x.dtype)


@irdl_op_definition
class NotOp(UnaryOp):
    """
    The opposite truth value.

    ```mlir
    %r = graph.not %x : (tensor<2x4xi1>) -> tensor<2x4xi1>
    ```
    """

    name = "graph.not"
    ONNX: ClassVar = "Not"

    @staticmethod
    def evaluate(x: Array) -> Array:
        return np.logical_not(x)


@irdl_op_definition
class IsNaNOp(TensorOp):
    """
    Whether an element is not a number.

    ```mlir
    %r = graph.is_nan %x : (tensor<2x4xf32>) -> tensor<2x4xi1>
    ```
    """

    name = "graph.is_nan"
    ONNX: ClassVar = "IsNaN"
    x = operand_def(TENSOR)

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return tensor(dims(x), i1)

    @staticmethod
    def evaluate(x: Array) -> Array:
        return np.isnan(x)


@irdl_op_definition
class IsInfOp(TensorOp):
    """
    Whether an element is infinite, of the signs asked for.

    ```mlir
    %r = graph.is_inf %x {detect_negative = false} : (tensor<2x4xf32>) -> tensor<2x4xi1>
    ```
    """

    name = "graph.is_inf"
    ONNX: ClassVar = "IsInf"
    x = operand_def(TENSOR)
    detect_negative = attribute(Bool(True))
    detect_positive = attribute(Bool(True))

    @staticmethod
    def infer(x: Tensor, *, detect_negative: bool, detect_positive: bool) -> Tensor:
        return tensor(dims(x), i1)

    @staticmethod
    def evaluate(x: Array, *, detect_negative: bool, detect_positive: bool) -> Array:
        return np.isinf(x) & (detect_negative & (x < 0) | detect_positive & (x > 0))


@irdl_op_definition
class CastOp(TensorOp):
    """
    Convert to the element type `to`; a number to an integer by truncation.

    ```mlir
    %r = graph.cast %x {to = f16} : (tensor<2x4xf32>) -> tensor<2x4xf16>
    ```
    """

    name = "graph.cast"
    ONNX: ClassVar = "Cast"
    x = operand_def(TENSOR)
    to = attribute(ElementType())

    @staticmethod
    def infer(x: Tensor, *, to: DType) -> Tensor:
        return tensor(dims(x), to.ir)

    @staticmethod
    def evaluate(x: Array, *, to: DType) -> Array:
        with np.errstate(all="ignore"):
            if x.dtype.kind not in "iub" and to.numpy.kind in "iu" and to.bits < 32:
                # Out of range is undefined in C: x86 goes through a 32-bit integer, and so do we.
                return x.astype(np.int32).astype(to.numpy)
            return x.astype(to.numpy)


@irdl_op_definition
class BitCastOp(MovingOp, TensorOp):
    """
    The same bits read as another element type of the same width.

    ```mlir
    %r = graph.bit_cast %x {to = i32} : (tensor<2x4xf32>) -> tensor<2x4xi32>
    ```
    """

    name = "graph.bit_cast"
    ONNX: ClassVar = "BitCast"
    x = operand_def(TENSOR)
    to = attribute(ElementType())

    @staticmethod
    def infer(x: Tensor, *, to: DType) -> Tensor:
        same = dtypes.of_ir(x.element_type).bits == to.bits
        need(same, f"must have as many bits as {to}, got {x}")
        return tensor(dims(x), to.ir)

    @staticmethod
    def evaluate(x: Array, *, to: DType) -> Array:
        return np.ascontiguousarray(x).view(to.numpy)


@irdl_op_definition
class IdentityOp(MovingOp, UnaryOp):
    """
    The operand itself.

    ```mlir
    %r = graph.identity %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.identity"
    ONNX: ClassVar = "Identity"

    @staticmethod
    def evaluate(x: Array) -> Array:
        return x


@irdl_op_definition
class DropoutOp(MovingOp, TensorOp):
    """
    The operand itself: in inference nothing is dropped.

    ```mlir
    %r = graph.dropout %x {ratio = 0.1} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.dropout"
    ONNX: ClassVar = "Dropout"
    ONNX_INPUTS: ClassVar = ("x", "ratio", "training_mode")
    x = operand_def(TENSOR)
    ratio = attribute(Float(0.5))
    training_mode = attribute(Bool(False))

    @staticmethod
    def infer(x: Tensor, *, ratio: float, training_mode: bool) -> Tensor:
        need(not training_mode, "'training_mode' must be false, training is not supported")
        return x

    @staticmethod
    def evaluate(x: Array, *, ratio: float, training_mode: bool) -> Array:
        return x
