"""Numbers as integers with a scale and a zero point, and exact products of them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def

from ge.dialects import dtypes
from ge.dialects.dtypes import DType
from ge.dialects.graph.base import (
    SEGMENTS,
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
from ge.dialects.graph.kinds import ElementType, Int, Ints, attribute
from ge.dialects.graph.ops.conv import ConvOp
from ge.dialects.graph.ops.linear import MatMulOp
from ge.dialects.graph.precision import is_half

BYTES = (dtypes.I8, dtypes.U8)
QUANTISED = (*BYTES, dtypes.I16, dtypes.U16)


def spread(shape: Shape, parameter: Shape, axis: int, block: int) -> Shape:
    """The shape under which scales or zero points broadcast, once blocks have been repeated."""
    if len(parameter) == 0 or parameter == (1,):
        return ()
    if block:
        return parameter
    a = axis_of(axis, len(shape))
    need(parameter == (shape[a],), f"must have {shape[a]} scales along axis {a}, got {parameter}")
    return (shape[a], *(1,) * (len(shape) - a - 1))


def _along(x: Array, parameter: Array, axis: int, block: int) -> Array:
    shape = spread(x.shape, parameter.shape, axis, block)
    if block:
        repeated = np.repeat(parameter, block, axis=axis)
        return np.take(repeated, range(x.shape[axis]), axis=axis)
    return parameter.reshape(shape)


def _blocks(x: Tensor, scale: Tensor, axis: int, block: int) -> None:
    if block:
        a = axis_of(axis, len(dims(x)))
        want = tuple(-(-n // block) if i == a else n for i, n in enumerate(dims(x)))
        need(dims(scale) == want, f"must have {want} scales, got {scale}")
    else:
        spread(dims(x), dims(scale), axis, block)


@irdl_op_definition
class QuantizeLinearOp(TensorOp):
    """
    `round(x / scale) + zero_point`, kept within the integers of the result.

    ```mlir
    %r = graph.quantize_linear %x, %s, %z {axis = 0}
      : (tensor<2x4xf32>, tensor<2xf32>, tensor<2xi8>) -> tensor<2x4xi8>
    ```
    """

    name = "graph.quantize_linear"
    ONNX: ClassVar = "QuantizeLinear"
    x = operand_def(TENSOR)
    scale = operand_def(TENSOR)
    zero_point = opt_operand_def(TENSOR)
    axis = attribute(Int(1))
    block_size = attribute(Int(0))
    output_dtype = attribute(ElementType(None))

    @staticmethod
    def infer(
        x: Tensor,
        scale: Tensor,
        zero_point: Tensor | None = None,
        *,
        axis: int,
        block_size: int,
        output_dtype: DType | None,
    ) -> Tensor:
        to = output_dtype or dtypes.U8
        if zero_point is not None:
            to = dtypes.of_ir(zero_point.element_type)
            fits = dims(zero_point) == dims(scale)
            need(fits, f"zero points must be as many as scales, got {zero_point} and {scale}")
        need(to in QUANTISED, f"the result must have integers of 8 or 16 bits, got {to}")
        _blocks(x, scale, axis, block_size)
        return tensor(dims(x), to.ir)

    @staticmethod
    def evaluate(
        x: Array,
        scale: Array,
        zero_point: Array | None = None,
        *,
        axis: int,
        block_size: int,
        output_dtype: DType | None,
    ) -> Array:
        to = (output_dtype or dtypes.U8).numpy if zero_point is None else zero_point.dtype
        wide = np.float64 if x.dtype == np.float64 else np.float32
        with np.errstate(all="ignore"):
            steps = np.rint(x.astype(wide) / _along(x, scale.astype(wide), axis, block_size))
        if zero_point is not None:
            steps = steps + _along(x, zero_point.astype(wide), axis, block_size)
        return np.clip(steps, np.iinfo(to).min, np.iinfo(to).max).astype(to)


@irdl_op_definition
class DequantizeLinearOp(TensorOp):
    """
    `(x - zero_point) * scale`.

    ```mlir
    %r = graph.dequantize_linear %x, %s, %z {axis = 0}
      : (tensor<2x4xi8>, tensor<2xf32>, tensor<2xi8>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.dequantize_linear"
    ONNX: ClassVar = "DequantizeLinear"
    x = operand_def(TENSOR)
    scale = operand_def(TENSOR)
    zero_point = opt_operand_def(TENSOR)
    axis = attribute(Int(1))
    block_size = attribute(Int(0))

    @staticmethod
    def infer(
        x: Tensor,
        scale: Tensor,
        zero_point: Tensor | None = None,
        *,
        axis: int,
        block_size: int,
    ) -> Tensor:
        known = dtypes.of_ir(x.element_type) in (*QUANTISED, dtypes.I32)
        need(known, f"must be integers of up to 32 bits, got {x}")
        same = zero_point is None or zero_point.element_type == x.element_type
        need(same, f"zero points must be {x.element_type}, got {zero_point}")
        _blocks(x, scale, axis, block_size)
        return tensor(dims(x), scale.element_type)

    @staticmethod
    def evaluate(
        x: Array,
        scale: Array,
        zero_point: Array | None = None,
        *,
        axis: int,
        block_size: int,
    ) -> Array:
        steps = x.astype(np.int32)
        if zero_point is not None:
            steps = steps - _along(x, zero_point.astype(np.int32), axis, block_size)
        wide = np.float32 if is_half(scale) else scale.dtype
        factor = _along(x, scale.astype(wide), axis, block_size)
        return (steps.astype(wide) * factor).astype(scale.dtype)


def _pair(a: Tensor, b: Tensor) -> None:
    known = all(dtypes.of_ir(t.element_type) in BYTES for t in (a, b))
    need(known, f"operands must be integers of 8 bits, got {a} and {b}")


def _centred(x: Array, zero_point: Array | None, shape: Shape) -> Array:
    wide = x.astype(np.int32)
    if zero_point is None:
        return wide
    return wide - zero_point.astype(np.int32).reshape(shape if zero_point.size > 1 else ())


@irdl_op_definition
class MatMulIntegerOp(TensorOp):
    """
    `(a - a_zero) . (b - b_zero)` in 32-bit integers; zeros are one number, or one a row or column.

    ```mlir
    %r = graph.matmul_integer %a, %b, %z
      : (tensor<2x3xui8>, tensor<3x4xui8>, tensor<ui8>) -> tensor<2x4xi32>
    ```
    """

    name = "graph.matmul_integer"
    ONNX: ClassVar = "MatMulInteger"
    a = operand_def(TENSOR)
    b = operand_def(TENSOR)
    a_zero = opt_operand_def(TENSOR)
    b_zero = opt_operand_def(TENSOR)
    irdl_options = SEGMENTS

    @staticmethod
    def infer(
        a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
    ) -> Tensor:
        _pair(a, b)
        made = MatMulOp.infer(tensor(dims(a), i32), tensor(dims(b), i32))
        return tensor(dims(made), i32)

    @staticmethod
    def evaluate(
        a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None
    ) -> Array:
        left = _centred(a, a_zero, (-1, 1))
        return np.matmul(left, _centred(b, b_zero, (-1,)))


@irdl_op_definition
class ConvIntegerOp(TensorOp):
    """
    The convolution of `x - x_zero` with `w - w_zero` in 32-bit integers.

    ```mlir
    %r = graph.conv_integer %x, %w, %z {pads = [1, 1, 1, 1]}
      : (tensor<1x2x5x5xui8>, tensor<3x2x3x3xui8>, tensor<ui8>) -> tensor<1x3x5x5xi32>
    ```
    """

    name = "graph.conv_integer"
    ONNX: ClassVar = "ConvInteger"
    x = operand_def(TENSOR)
    w = operand_def(TENSOR)
    x_zero = opt_operand_def(TENSOR)
    w_zero = opt_operand_def(TENSOR)
    group = attribute(Int(1))
    pads = attribute(Ints(()))
    strides = attribute(Ints(()))
    dilations = attribute(Ints(()))
    irdl_options = SEGMENTS

    @staticmethod
    def infer(
        x: Tensor,
        w: Tensor,
        x_zero: Tensor | None = None,
        w_zero: Tensor | None = None,
        **window: Any,
    ) -> Tensor:
        _pair(x, w)
        return ConvOp.infer(tensor(dims(x), i32), tensor(dims(w), i32), **window)

    @staticmethod
    def evaluate(
        x: Array,
        w: Array,
        x_zero: Array | None = None,
        w_zero: Array | None = None,
        **window: Any,
    ) -> Array:
        weights = _centred(w, w_zero, (-1, *(1,) * (w.ndim - 1)))
        return ConvOp.evaluate(_centred(x, x_zero, ()), weights, **window)
