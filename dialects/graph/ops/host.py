"""Operators without anything regular in them: the AI CPU computes them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def

from ge.dialects import dtypes
from ge.dialects.graph.base import TENSOR, Array, Tensor, TensorOp, axis_of, dims, need, tensor
from ge.dialects.graph.kinds import Int, attribute
from ge.dialects.graph.precision import in_single


@irdl_op_definition
class DetOp(TensorOp):
    """
    The determinant of the last two dims.

    ```mlir
    %r = graph.det %x : (tensor<5x3x3xf32>) -> tensor<5xf32>
    ```
    """

    name = "graph.det"
    ONNX: ClassVar = "Det"
    HOST: ClassVar = True
    x = operand_def(TENSOR)

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        shape = dims(x)
        square = len(shape) >= 2 and shape[-1] == shape[-2]
        need(square and dtypes.of_ir(x.element_type).is_float, f"must be square, got {x}")
        return tensor(shape[:-2], x.element_type)

    @staticmethod
    @in_single
    def evaluate(x: Array) -> Array:
        return np.linalg.det(x)


@irdl_op_definition
class ReverseSequenceOp(TensorOp):
    """
    For each `i` of the batch the first `lengths[i]` elements of time in reverse.

    ```mlir
    %r = graph.reverse_sequence %x, %lengths
      : (tensor<4x2xf32>, tensor<2xi64>) -> tensor<4x2xf32>
    ```
    """

    name = "graph.reverse_sequence"
    ONNX: ClassVar = "ReverseSequence"
    HOST: ClassVar = True
    x = operand_def(TENSOR)
    sequence_lens = operand_def(TENSOR)
    batch_axis = attribute(Int(1))
    time_axis = attribute(Int(0))

    @staticmethod
    def infer(x: Tensor, sequence_lens: Tensor, *, batch_axis: int, time_axis: int) -> Tensor:
        axes = axis_of(batch_axis, len(dims(x))), axis_of(time_axis, len(dims(x)))
        need(sorted(axes) == [0, 1], f"the axes must be 0 and 1, got {axes}")
        want = (dims(x)[axes[0]],)
        need(dims(sequence_lens) == want, f"must have {want[0]} lengths, got {sequence_lens}")
        return x

    @staticmethod
    def evaluate(x: Array, sequence_lens: Array, *, batch_axis: int, time_axis: int) -> Array:
        batch, most = batch_axis % x.ndim, x.shape[time_axis]
        if sequence_lens.size and not 0 <= sequence_lens.min() <= sequence_lens.max() <= most:
            raise IndexError(f"lengths must be 0 to {most}")
        out = x.copy()
        rows, into = x.swapaxes(0, batch), out.swapaxes(0, batch)
        for row, reversed_, n in zip(rows, into, sequence_lens, strict=True):
            reversed_[:n] = row[:n][::-1]
        return out
