"""Activations: one tensor in, one of the same type out, computed in single precision."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def

from ge.dialects.graph.base import (
    SEGMENTS,
    TENSOR,
    Array,
    Tensor,
    TensorOp,
    broadcast,
    dims,
    need,
    same_element,
)
from ge.dialects.graph.kinds import Choice, Float, attribute
from ge.dialects.graph.ops.unary import ErfOp, UnaryOp
from ge.dialects.graph.precision import in_single, sigmoid


class GeluForm(StrEnum):
    """How GELU is computed: by the error function, or by the tanh approximation."""

    NONE = auto()
    TANH = auto()


@irdl_op_definition
class ReluOp(UnaryOp):
    """
    Clamp below at zero.

    ```mlir
    %r = graph.relu %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.relu"
    ONNX: ClassVar = "Relu"

    @staticmethod
    def evaluate(x: Array) -> Array:
        return np.maximum(x, x.dtype.type(0))


@irdl_op_definition
class LeakyReluOp(UnaryOp):
    """
    `x` where positive, else `alpha * x`.

    ```mlir
    %r = graph.leaky_relu %x {alpha = 0.1} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.leaky_relu"
    ONNX: ClassVar = "LeakyRelu"
    alpha = attribute(Float(0.01))

    @staticmethod
    @in_single
    def evaluate(x: Array, *, alpha: float) -> Array:
        return np.where(x < 0, np.float32(alpha) * x, x)


@irdl_op_definition
class EluOp(UnaryOp):
    """
    `x` where positive, else `alpha * (e ** x - 1)`.

    ```mlir
    %r = graph.elu %x {alpha = 0.5} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.elu"
    ONNX: ClassVar = "Elu"
    alpha = attribute(Float(1.0))

    @staticmethod
    @in_single
    def evaluate(x: Array, *, alpha: float) -> Array:
        return np.where(x < 0, np.float32(alpha) * np.expm1(np.minimum(x, 0)), x)


@irdl_op_definition
class CeluOp(UnaryOp):
    """
    `max(0, x) + min(0, alpha * (e ** (x / alpha) - 1))`.

    ```mlir
    %r = graph.celu %x {alpha = 0.5} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.celu"
    ONNX: ClassVar = "Celu"
    alpha = attribute(Float(1.0))

    @staticmethod
    @in_single
    def evaluate(x: Array, *, alpha: float) -> Array:
        low = np.float32(alpha) * np.expm1(np.minimum(x, 0) / np.float32(alpha))
        return np.maximum(x, 0) + low


@irdl_op_definition
class SeluOp(UnaryOp):
    """
    `gamma * x` where positive, else `gamma * alpha * (e ** x - 1)`.

    ```mlir
    %r = graph.selu %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.selu"
    ONNX: ClassVar = "Selu"
    alpha = attribute(Float(1.67326319217681884765625))
    gamma = attribute(Float(1.05070102214813232421875))

    @staticmethod
    @in_single
    def evaluate(x: Array, *, alpha: float, gamma: float) -> Array:
        low = np.float32(alpha) * np.expm1(np.minimum(x, 0))
        return np.float32(gamma) * np.where(x <= 0, low, x)


@irdl_op_definition
class ThresholdedReluOp(UnaryOp):
    """
    `x` where above `alpha`, else zero.

    ```mlir
    %r = graph.thresholded_relu %x {alpha = 0.5} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.thresholded_relu"
    ONNX: ClassVar = "ThresholdedRelu"
    alpha = attribute(Float(1.0))

    @staticmethod
    @in_single
    def evaluate(x: Array, *, alpha: float) -> Array:
        return np.where(x > np.float32(alpha), x, np.float32(0))


@irdl_op_definition
class SigmoidOp(UnaryOp):
    """
    `1 / (1 + e ** -x)`.

    ```mlir
    %r = graph.sigmoid %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.sigmoid"
    ONNX: ClassVar = "Sigmoid"

    @staticmethod
    @in_single
    def evaluate(x: Array) -> Array:
        return sigmoid(x)


@irdl_op_definition
class HardSigmoidOp(UnaryOp):
    """
    `alpha * x + beta`, clamped to [0, 1].

    ```mlir
    %r = graph.hard_sigmoid %x {alpha = 0.3} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.hard_sigmoid"
    ONNX: ClassVar = "HardSigmoid"
    alpha = attribute(Float(0.2))
    beta = attribute(Float(0.5))

    @staticmethod
    @in_single
    def evaluate(x: Array, *, alpha: float, beta: float) -> Array:
        return np.clip(np.float32(alpha) * x + np.float32(beta), 0, 1)


@irdl_op_definition
class HardSwishOp(UnaryOp):
    """
    `x * clamp(x / 6 + 0.5, 0, 1)`.

    ```mlir
    %r = graph.hard_swish %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.hard_swish"
    ONNX: ClassVar = "HardSwish"

    @staticmethod
    @in_single
    def evaluate(x: Array) -> Array:
        return x * np.clip(x / np.float32(6) + np.float32(0.5), 0, 1)


@irdl_op_definition
class SoftplusOp(UnaryOp):
    """
    `log(1 + e ** x)`.

    ```mlir
    %r = graph.softplus %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.softplus"
    ONNX: ClassVar = "Softplus"

    @staticmethod
    @in_single
    def evaluate(x: Array) -> Array:
        return np.logaddexp(x, np.float32(0))


@irdl_op_definition
class SoftsignOp(UnaryOp):
    """
    `x / (1 + |x|)`.

    ```mlir
    %r = graph.softsign %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.softsign"
    ONNX: ClassVar = "Softsign"

    @staticmethod
    @in_single
    def evaluate(x: Array) -> Array:
        return x / (1 + np.abs(x))


@irdl_op_definition
class MishOp(UnaryOp):
    """
    `x * tanh(log(1 + e ** x))`.

    ```mlir
    %r = graph.mish %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.mish"
    ONNX: ClassVar = "Mish"

    @staticmethod
    @in_single
    def evaluate(x: Array) -> Array:
        return x * np.tanh(np.logaddexp(x, np.float32(0)))


@irdl_op_definition
class SwishOp(UnaryOp):
    """
    `x * sigmoid(alpha * x)`; SiLU when `alpha` is 1.

    ```mlir
    %r = graph.swish %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.swish"
    ONNX: ClassVar = "Swish"
    alpha = attribute(Float(1.0))

    @staticmethod
    @in_single
    def evaluate(x: Array, *, alpha: float) -> Array:
        return x * sigmoid(np.float32(alpha) * x)


@irdl_op_definition
class GeluOp(UnaryOp):
    """
    `x` times the share of a normal distribution below `x`.

    ```mlir
    %r = graph.gelu %x {approximate = tanh} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.gelu"
    ONNX: ClassVar = "Gelu"
    approximate = attribute(Choice(GeluForm.NONE, GeluForm))

    @staticmethod
    @in_single
    def evaluate(x: Array, *, approximate: GeluForm) -> Array:
        if approximate is GeluForm.TANH:
            inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)
            return x * np.float32(0.5) * (1 + np.tanh(inner))
        return x * np.float32(0.5) * (1 + ErfOp.evaluate(x / np.float32(np.sqrt(2))))


@irdl_op_definition
class PReluOp(TensorOp):
    """
    `x` where positive, else `slope * x`; the slope broadcasts to `x`.

    ```mlir
    %r = graph.prelu %x, %slope : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.prelu"
    ONNX: ClassVar = "PRelu"
    x = operand_def(TENSOR)
    slope = operand_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, slope: Tensor) -> Tensor:
        same_element(x, slope)
        fits = broadcast(x, slope) == dims(x)
        need(fits, f"'slope' must broadcast to {x}, got {slope}")
        return x

    @staticmethod
    def evaluate(x: Array, slope: Array) -> Array:
        return np.where(x < 0, slope * x, x)


def finite_range(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The lowest and the highest finite number of an element type."""
    import ml_dtypes

    limits: Any = np.iinfo if dtype.kind in "iu" else ml_dtypes.finfo
    info = limits(dtype)
    return dtype.type(info.min), dtype.type(info.max)


@irdl_op_definition
class ClipOp(TensorOp):
    """
    Clamp to `[min, max]`, by default the finite numbers of the element type; NaN stays.

    ```mlir
    %r = graph.clip %x, _, %max : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.clip"
    ONNX: ClassVar = "Clip"
    x = operand_def(TENSOR)
    min = opt_operand_def(TENSOR)
    max = opt_operand_def(TENSOR)
    irdl_options = SEGMENTS

    @staticmethod
    def infer(x: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
        same_element(x, min, max)
        for bound in (min, max):
            need(
                bound is None or dims(bound) in ((), (1,)),
                f"a bound must be one number, got {bound}",
            )
        return x

    @staticmethod
    def evaluate(x: Array, min: Array | None = None, max: Array | None = None) -> Array:
        lowest, highest = finite_range(x.dtype)
        bottom = lowest if min is None else min.reshape(())
        top = highest if max is None else max.reshape(())
        # Comparisons, not np.maximum: a bound that is NaN bounds nothing.
        raised = np.where(x < bottom, bottom, x)
        return np.where(raised > top, top, raised)
