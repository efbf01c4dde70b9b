"""Convolution and its transpose."""

from __future__ import annotations

from itertools import product
from typing import ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def

from ge.dialects.graph.base import (
    TENSOR,
    Array,
    Shape,
    Tensor,
    TensorOp,
    dims,
    need,
    same_element,
    tensor,
)
from ge.dialects.graph.kinds import Int, Ints, attribute
from ge.dialects.graph.ops.window import Window
from ge.dialects.graph.precision import in_single


@irdl_op_definition
class ConvOp(TensorOp):
    """
    Convolution of N x C x spatial with M x C/group x kernel, and a bias for each output channel.

    ```mlir
    %r = graph.conv %x, %w, %b {group = 2, pads = [1, 1, 1, 1], strides = [2, 2]}
      : (tensor<1x4x8x8xf32>, tensor<6x2x3x3xf32>, tensor<6xf32>) -> tensor<1x6x4x4xf32>
    ```
    """

    name = "graph.conv"
    ONNX: ClassVar = "Conv"
    x = operand_def(TENSOR)
    w = operand_def(TENSOR)
    b = opt_operand_def(TENSOR)
    group = attribute(Int(1))
    pads = attribute(Ints(()))
    strides = attribute(Ints(()))
    dilations = attribute(Ints(()))

    @staticmethod
    def infer(
        x: Tensor,
        w: Tensor,
        b: Tensor | None = None,
        *,
        group: int,
        pads: Shape,
        strides: Shape,
        dilations: Shape,
    ) -> Tensor:
        element = same_element(x, w, b)
        dx, dw = dims(x), dims(w)
        need(len(dx) == len(dw) > 2, f"x and w must have one rank above 2, got {x} and {w}")
        need(group > 0 and dw[0] % group == 0, f"'group' must divide {dw[0]}, got {group}")
        need(dx[1] == dw[1] * group, f"x must have {dw[1] * group} channels, got {x}")
        need(b is None or dims(b) == dw[:1], f"b must have {dw[0]} numbers, got {b}")
        window = Window.of(dw[2:], strides, pads, dilations)
        return tensor((dx[0], dw[0], *window.out(dx[2:])), element)

    @staticmethod
    @in_single
    def evaluate(
        x: Array,
        w: Array,
        b: Array | None = None,
        *,
        group: int,
        pads: Shape,
        strides: Shape,
        dilations: Shape,
    ) -> Array:
        window = Window.of(w.shape[2:], strides, pads, dilations)
        out = window.out(x.shape[2:])
        n, m = x.shape[0], w.shape[0]
        views = window.view(x, 0)
        split = views.reshape(n, group, x.shape[1] // group, *views.shape[2:])
        places = range(3, 3 + len(out))
        taps = range(3 + len(out), split.ndim)
        columns = split.transpose(1, 0, *places, 2, *taps).reshape(group, n * int(np.prod(out)), -1)
        weights = w.reshape(group, m // group, -1).transpose(0, 2, 1)
        y = np.matmul(columns, weights).reshape(group, n, *out, m // group)
        y = np.moveaxis(np.moveaxis(y, 0, 1), -1, 2).reshape(n, m, *out)
        return y if b is None else y + b.reshape(-1, *[1] * len(out))


@irdl_op_definition
class ConvTransposeOp(TensorOp):
    """
    Each element of N x C x spatial spreads a C x M/group x kernel patch; overlaps add up.

    ```mlir
    %r = graph.conv_transpose %x, %w {output_padding = [1, 1], strides = [2, 2]}
      : (tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x12x12xf32>
    ```
    """

    name = "graph.conv_transpose"
    ONNX: ClassVar = "ConvTranspose"
    x = operand_def(TENSOR)
    w = operand_def(TENSOR)
    b = opt_operand_def(TENSOR)
    group = attribute(Int(1))
    pads = attribute(Ints(()))
    strides = attribute(Ints(()))
    dilations = attribute(Ints(()))
    output_padding = attribute(Ints(()))

    @staticmethod
    def infer(
        x: Tensor,
        w: Tensor,
        b: Tensor | None = None,
        *,
        group: int,
        pads: Shape,
        strides: Shape,
        dilations: Shape,
        output_padding: Shape,
    ) -> Tensor:
        element = same_element(x, w, b)
        dx, dw = dims(x), dims(w)
        need(len(dx) == len(dw) > 2, f"x and w must have one rank above 2, got {x} and {w}")
        need(dx[1] == dw[0], f"x must have {dw[0]} channels, got {x}")
        need(group > 0 and dx[1] % group == 0, f"'group' must divide {dx[1]}, got {group}")
        need(
            b is None or dims(b) == (dw[1] * group,),
            f"b must have {dw[1] * group} numbers, got {b}",
        )
        window = Window.of(dw[2:], strides, pads, dilations)
        full = _spread(window, dx[2:], output_padding)
        k = len(full)
        out = tuple(f - window.pads[i] - window.pads[k + i] for i, f in enumerate(full))
        need(min(out) >= 0, f"'pads' must leave something, got {list(window.pads)} of {list(full)}")
        return tensor((dx[0], dw[1] * group, *out), element)

    @staticmethod
    @in_single
    def evaluate(
        x: Array,
        w: Array,
        b: Array | None = None,
        *,
        group: int,
        pads: Shape,
        strides: Shape,
        dilations: Shape,
        output_padding: Shape,
    ) -> Array:
        window = Window.of(w.shape[2:], strides, pads, dilations)
        size = x.shape[2:]
        full = _spread(window, size, output_padding)
        n, k = x.shape[0], len(size)
        grouped = x.reshape(n, group, x.shape[1] // group, -1)
        weights = w.reshape(group, w.shape[0] // group, w.shape[1], *w.shape[2:])
        y: Array = np.zeros((n, group, w.shape[1], *full), x.dtype)
        for tap in product(*map(range, window.kernel)):
            part = np.einsum("ngcs,gcm->ngms", grouped, weights[(..., *tap)], optimize=True)
            at = [
                slice(t * d, t * d + (i - 1) * s + 1, s)
                for t, d, i, s in zip(tap, window.dilations, size, window.strides, strict=True)
            ]
            y[(..., *at)] += part.reshape(n, group, w.shape[1], *size)
        crop = [slice(window.pads[i], f - window.pads[k + i]) for i, f in enumerate(full)]
        y = y.reshape(n, -1, *full)[(..., *crop)]
        return y if b is None else y + b.reshape(-1, *[1] * k)


def _spread(window: Window, size: Shape, output_padding: Shape) -> Shape:
    """The spatial size of all patches together, before pads are cut off."""
    extra = output_padding or (0,) * len(size)
    need(len(extra) == len(size), f"'output_padding' must have {len(size)} numbers, got {extra}")
    rows = zip(size, window.strides, window.extent, extra, strict=True)
    return tuple((d - 1) * s + e + o for d, s, e, o in rows)
