"""Trigonometric and hyperbolic functions of each element."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition

from ge.dialects.graph.base import Array
from ge.dialects.graph.ops.unary import UnaryOp


@irdl_op_definition
class SinOp(UnaryOp):
    """
    Sine.

    ```mlir
    %r = graph.sin %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.sin"
    ONNX: ClassVar = "Sin"

    @staticmethod
    def evaluate(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.sin(x)


@irdl_op_definition
class CosOp(UnaryOp):
    """
    Cosine.

    ```mlir
    %r = graph.cos %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.cos"
    ONNX: ClassVar = "Cos"

    @staticmethod
    def evaluate(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.cos(x)


@irdl_op_definition
class TanhOp(UnaryOp):
    """
    Hyperbolic tangent.

    ```mlir
    %r = graph.tanh %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.tanh"
    ONNX: ClassVar = "Tanh"

    @staticmethod
    def evaluate(x: Array) -> Array:
        return np.tanh(x)


@irdl_op_definition
class TanOp(UnaryOp):
    """
    Tangent.

    ```mlir
    %r = graph.tan %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.tan"
    ONNX: ClassVar = "Tan"

    @staticmethod
    def evaluate(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.tan(x)


@irdl_op_definition
class AsinOp(UnaryOp):
    """
    Inverse sine.

    ```mlir
    %r = graph.asin %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.asin"
    ONNX: ClassVar = "Asin"

    @staticmethod
    def evaluate(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.arcsin(x)


@irdl_op_definition
class AcosOp(UnaryOp):
    """
    Inverse cosine.

    ```mlir
    %r = graph.acos %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.acos"
    ONNX: ClassVar = "Acos"

    @staticmethod
    def evaluate(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.arccos(x)


@irdl_op_definition
class AtanOp(UnaryOp):
    """
    Inverse tangent.

    ```mlir
    %r = graph.atan %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.atan"
    ONNX: ClassVar = "Atan"

    @staticmethod
    def evaluate(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.arctan(x)


@irdl_op_definition
class SinhOp(UnaryOp):
    """
    Hyperbolic sine.

    ```mlir
    %r = graph.sinh %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.sinh"
    ONNX: ClassVar = "Sinh"

    @staticmethod
    def evaluate(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.sinh(x)


@irdl_op_definition
class CoshOp(UnaryOp):
    """
    Hyperbolic cosine.

    ```mlir
    %r = graph.cosh %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.cosh"
    ONNX: ClassVar = "Cosh"

    @staticmethod
    def evaluate(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.cosh(x)


@irdl_op_definition
class AsinhOp(UnaryOp):
    """
    Inverse hyperbolic sine.

    ```mlir
    %r = graph.asinh %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.asinh"
    ONNX: ClassVar = "Asinh"

    @staticmethod
    def evaluate(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.arcsinh(x)


@irdl_op_definition
class AcoshOp(UnaryOp):
    """
    Inverse hyperbolic cosine.

    ```mlir
    %r = graph.acosh %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.acosh"
    ONNX: ClassVar = "Acosh"

    @staticmethod
    def evaluate(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.arccosh(x)


@irdl_op_definition
class AtanhOp(UnaryOp):
    """
    Inverse hyperbolic tangent.

    ```mlir
    %r = graph.atanh %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.atanh"
    ONNX: ClassVar = "Atanh"

    @staticmethod
    def evaluate(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.arctanh(x)
