"""Operators that only move elements: shapes, transposes, slices, joins."""

from __future__ import annotations

from enum import StrEnum, auto
from math import prod
from typing import ClassVar

import numpy as np
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    var_operand_def,
    var_result_def,
)

from ge.dialects.graph.base import (
    TENSOR,
    Array,
    MovingOp,
    Shape,
    Tensor,
    TensorOp,
    axis_of,
    broadcast,
    dims,
    need,
    same_element,
    tensor,
)
from ge.dialects.graph.kinds import Bool, Choice, Int, Ints, attribute


class PadMode(StrEnum):
    """What stands in the padding."""

    CONSTANT = auto()
    REFLECT = auto()
    EDGE = auto()
    WRAP = auto()


class BlockOrder(StrEnum):
    """Whether the block is the outer part of the depth (DCR) or the inner one (CRD)."""

    DCR = "DCR"
    CRD = "CRD"


@irdl_op_definition
class TransposeOp(MovingOp, TensorOp):
    """
    Dims in another order: dim i of the result is dim `perm[i]` of x.

    ```mlir
    %r = graph.transpose %x {perm = [2, 0, 1]} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
    ```
    """

    name = "graph.transpose"
    ONNX: ClassVar = "Transpose"
    x = operand_def(TENSOR)
    perm = attribute(Ints())

    @staticmethod
    def infer(x: Tensor, *, perm: Shape) -> Tensor:
        shape = dims(x)
        fits = sorted(perm) == list(range(len(shape)))
        need(fits, f"'perm' must order {len(shape)} dims, got {list(perm)}")
        return tensor(tuple(shape[p] for p in perm), x.element_type)

    @staticmethod
    def evaluate(x: Array, *, perm: Shape) -> Array:
        return x.transpose(perm)


@irdl_op_definition
class ReshapeOp(MovingOp, TensorOp):
    """
    The same elements in the same order under another shape.

    ```mlir
    %r = graph.reshape %x {shape = [3, 8]} : (tensor<2x3x4xf32>) -> tensor<3x8xf32>
    ```
    """

    name = "graph.reshape"
    ONNX: ClassVar = "Reshape"
    ONNX_INPUTS: ClassVar = ("x", "shape")
    x = operand_def(TENSOR)
    shape = attribute(Ints())

    @staticmethod
    def infer(x: Tensor, *, shape: Shape) -> Tensor:
        fits = min(shape, default=0) >= 0 and prod(shape) == prod(dims(x))
        need(fits, f"'shape' must have the {prod(dims(x))} elements of {x}, got {list(shape)}")
        return tensor(shape, x.element_type)

    @staticmethod
    def evaluate(x: Array, *, shape: Shape) -> Array:
        return x.reshape(shape)


@irdl_op_definition
class FlattenOp(MovingOp, TensorOp):
    """
    A matrix: dims before `axis` are its rows, the others its columns.

    ```mlir
    %r = graph.flatten %x {axis = 2} : (tensor<2x3x4x5xf32>) -> tensor<6x20xf32>
    ```
    """

    name = "graph.flatten"
    ONNX: ClassVar = "Flatten"
    x = operand_def(TENSOR)
    axis = attribute(Int(1))

    @staticmethod
    def infer(x: Tensor, *, axis: int) -> Tensor:
        rank = len(dims(x))
        need(-rank <= axis <= rank, f"'axis' must be in [{-rank}, {rank}], got {axis}")
        at = axis + rank if axis < 0 else axis
        return tensor((prod(dims(x)[:at]), prod(dims(x)[at:])), x.element_type)

    @staticmethod
    def evaluate(x: Array, *, axis: int) -> Array:
        at = axis + x.ndim if axis < 0 else axis
        return x.reshape(prod(x.shape[:at]), prod(x.shape[at:]))


@irdl_op_definition
class SqueezeOp(MovingOp, TensorOp):
    """
    Dims of 1 at `axes` left out.

    ```mlir
    %r = graph.squeeze %x {axes = [0, -1]} : (tensor<1x3x1xf32>) -> tensor<3xf32>
    ```
    """

    name = "graph.squeeze"
    ONNX: ClassVar = "Squeeze"
    ONNX_INPUTS: ClassVar = ("x", "axes")
    x = operand_def(TENSOR)
    axes = attribute(Ints())

    @staticmethod
    def infer(x: Tensor, *, axes: Shape) -> Tensor:
        gone = {axis_of(a, len(dims(x))) for a in axes}
        ones = all(dims(x)[a] == 1 for a in gone)
        need(ones, f"'axes' must name dims of 1, got {list(axes)} of {x}")
        return tensor(tuple(d for i, d in enumerate(dims(x)) if i not in gone), x.element_type)

    @staticmethod
    def evaluate(x: Array, *, axes: Shape) -> Array:
        return np.squeeze(x, axes)


@irdl_op_definition
class UnsqueezeOp(MovingOp, TensorOp):
    """
    Dims of 1 put in, at `axes` of the result.

    ```mlir
    %r = graph.unsqueeze %x {axes = [0, -1]} : (tensor<3x4xf32>) -> tensor<1x3x4x1xf32>
    ```
    """

    name = "graph.unsqueeze"
    ONNX: ClassVar = "Unsqueeze"
    ONNX_INPUTS: ClassVar = ("x", "axes")
    x = operand_def(TENSOR)
    axes = attribute(Ints())

    @staticmethod
    def infer(x: Tensor, *, axes: Shape) -> Tensor:
        rank = len(dims(x)) + len(axes)
        new = {axis_of(a, rank) for a in axes}
        need(len(new) == len(axes), f"'axes' must differ, got {list(axes)}")
        rest = iter(dims(x))
        return tensor(tuple(1 if i in new else next(rest) for i in range(rank)), x.element_type)

    @staticmethod
    def evaluate(x: Array, *, axes: Shape) -> Array:
        return np.expand_dims(x, axes)


def slices_of(shape: Shape, starts: Shape, ends: Shape, axes: Shape, steps: Shape) -> list[slice]:
    """What a slice operator takes of each dim, as Python slices with all numbers in range."""
    taken = [slice(0, d, 1) for d in shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        a = axis_of(axis, len(shape))
        first, stop, stride = slice(start, end, step).indices(shape[a])
        # Python reads -1 as the last element. A start in front of the first one is the first one,
        # an end there is None.
        taken[a] = slice(max(first, 0), None if stop < 0 else stop, stride)
    return taken


@irdl_op_definition
class SliceOp(MovingOp, TensorOp):
    """
    Elements `starts[i]` to `ends[i]` by `steps[i]` along `axes[i]`; bounds beyond the dim are cut.

    ```mlir
    %r = graph.slice %x {axes = [1, 0], ends = [-9, 5], starts = [-1, 1], steps = [-2, 1]}
      : (tensor<2x4xf32>) -> tensor<1x2xf32>
    ```
    """

    name = "graph.slice"
    ONNX: ClassVar = "Slice"
    ONNX_INPUTS: ClassVar = ("x", "starts", "ends", "axes", "steps")
    x = operand_def(TENSOR)
    starts = attribute(Ints())
    ends = attribute(Ints())
    axes = attribute(Ints())
    steps = attribute(Ints())

    @staticmethod
    def infer(x: Tensor, *, starts: Shape, ends: Shape, axes: Shape, steps: Shape) -> Tensor:
        equal = len(starts) == len(ends) == len(axes) == len(steps)
        need(equal, "'starts', 'ends', 'axes' and 'steps' must have one length")
        need(0 not in steps, "'steps' must not be 0")
        taken = slices_of(dims(x), starts, ends, axes, steps)
        sizes = tuple(len(range(*t.indices(d))) for t, d in zip(taken, dims(x), strict=True))
        return tensor(sizes, x.element_type)

    @staticmethod
    def evaluate(x: Array, *, starts: Shape, ends: Shape, axes: Shape, steps: Shape) -> Array:
        return x[tuple(slices_of(x.shape, starts, ends, axes, steps))]


@irdl_op_definition
class ConcatOp(MovingOp, TensorOp):
    """
    Tensors one after the other along `axis`.

    ```mlir
    %r = graph.concat %x, %y {axis = 1} : (tensor<2x3xf32>, tensor<2x5xf32>) -> tensor<2x8xf32>
    ```
    """

    name = "graph.concat"
    ONNX: ClassVar = "Concat"
    inputs = var_operand_def(TENSOR)
    axis = attribute(Int())

    @staticmethod
    def infer(*inputs: Tensor, axis: int) -> Tensor:
        need(bool(inputs), "must have an operand at least")
        first = dims(inputs[0])
        a = axis_of(axis, len(first))
        for t in inputs:
            fits = len(dims(t)) == len(first) and _without(dims(t), a) == _without(first, a)
            need(fits, f"operands must be equal outside dim {a}, got {inputs[0]} and {t}")
        total = sum(dims(t)[a] for t in inputs)
        return tensor((*first[:a], total, *first[a + 1 :]), same_element(*inputs))

    @staticmethod
    def evaluate(*inputs: Array, axis: int) -> Array:
        return np.concatenate(inputs, axis=axis)


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


@irdl_op_definition
class SplitOp(MovingOp):
    """
    Parts of the sizes `split` along `axis`.

    ```mlir
    %r, %s = graph.split %x {axis = 1, split = [1, 3]}
      : (tensor<2x4xf32>) -> (tensor<2x1xf32>, tensor<2x3xf32>)
    ```
    """

    name = "graph.split"
    ONNX: ClassVar = "Split"
    ONNX_INPUTS: ClassVar = ("x", "split")
    x = operand_def(TENSOR)
    outs = var_result_def(TENSOR)
    split = attribute(Ints())
    axis = attribute(Int(0))

    @staticmethod
    def infer(x: Tensor, *, split: Shape, axis: int) -> list[Tensor]:
        shape = dims(x)
        a = axis_of(axis, len(shape))
        whole = sum(split) == shape[a] and min(split, default=0) >= 0
        need(whole, f"'split' must add up to {shape[a]}, got {list(split)}")
        return [tensor((*shape[:a], s, *shape[a + 1 :]), x.element_type) for s in split]

    @staticmethod
    def evaluate(x: Array, *, split: Shape, axis: int) -> tuple[Array, ...]:
        return tuple(np.split(x, np.cumsum(split)[:-1], axis=axis))


@irdl_op_definition
class ExpandOp(MovingOp, TensorOp):
    """
    Repeated where x has a dim of 1 or none, to the given shape.

    ```mlir
    %r = graph.expand %x {shape = [2, 3, 4]} : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
    ```
    """

    name = "graph.expand"
    ONNX: ClassVar = "Expand"
    ONNX_INPUTS: ClassVar = ("x", "shape")
    x = operand_def(TENSOR)
    shape = attribute(Ints())

    @staticmethod
    def infer(x: Tensor, *, shape: Shape) -> Tensor:
        out = tensor(shape, x.element_type)
        need(broadcast(x, out) == shape, f"{x} must broadcast to 'shape', got {list(shape)}")
        return out

    @staticmethod
    def evaluate(x: Array, *, shape: Shape) -> Array:
        return np.broadcast_to(x, shape)


@irdl_op_definition
class TileOp(MovingOp, TensorOp):
    """
    The whole of x repeated `repeats[i]` times along dim i.

    ```mlir
    %r = graph.tile %x {repeats = [2, 3]} : (tensor<2x4xf32>) -> tensor<4x12xf32>
    ```
    """

    name = "graph.tile"
    ONNX: ClassVar = "Tile"
    ONNX_INPUTS: ClassVar = ("x", "repeats")
    x = operand_def(TENSOR)
    repeats = attribute(Ints())

    @staticmethod
    def infer(x: Tensor, *, repeats: Shape) -> Tensor:
        fits = len(repeats) == len(dims(x)) and min(repeats, default=0) >= 0
        need(fits, f"'repeats' must have a number for each dim of {x}, got {list(repeats)}")
        return tensor(tuple(d * r for d, r in zip(dims(x), repeats, strict=True)), x.element_type)

    @staticmethod
    def evaluate(x: Array, *, repeats: Shape) -> Array:
        return np.tile(x, repeats)


@irdl_op_definition
class PadOp(MovingOp, TensorOp):
    """
    Elements added (or, where negative, cut) at the begin and end of every dim.

    ```mlir
    %r = graph.pad %x {mode = reflect, pads = [0, 2, 0, -1]} : (tensor<2x4xf32>) -> tensor<2x5xf32>
    ```
    """

    name = "graph.pad"
    ONNX: ClassVar = "Pad"
    ONNX_INPUTS: ClassVar = ("x", "pads", "value")
    x = operand_def(TENSOR)
    value = opt_operand_def(TENSOR)
    pads = attribute(Ints())
    mode = attribute(Choice(PadMode.CONSTANT, PadMode))

    @staticmethod
    def infer(x: Tensor, value: Tensor | None = None, *, pads: Shape, mode: PadMode) -> Tensor:
        shape = dims(x)
        n = len(shape)
        need(len(pads) == 2 * n, f"'pads' must have {2 * n} numbers, got {list(pads)}")
        one = value is None or prod(dims(value)) == 1
        need(one, f"the value must be one number, got {value}")
        out = tuple(d + pads[i] + pads[n + i] for i, d in enumerate(shape))
        need(min(out, default=0) >= 0, f"'pads' must leave something of {x}, got {list(pads)}")
        return tensor(out, same_element(x, value))

    @staticmethod
    def evaluate(x: Array, value: Array | None = None, *, pads: Shape, mode: PadMode) -> Array:
        n = x.ndim
        ends = [(pads[i], pads[n + i]) for i in range(n)]
        cut = tuple(
            slice(max(0, -a), d - max(0, -b)) for (a, b), d in zip(ends, x.shape, strict=True)
        )
        widths = [(max(0, a), max(0, b)) for a, b in ends]
        if mode is PadMode.CONSTANT:
            fill = 0 if value is None else value.reshape(-1)[0]
            return np.pad(x[cut], widths, constant_values=fill)
        if mode is PadMode.EDGE:
            return np.pad(x[cut], widths, mode="edge")
        return np.pad(x[cut], widths, mode="wrap" if mode is PadMode.WRAP else "reflect")


@irdl_op_definition
class TriluOp(MovingOp, TensorOp):
    """
    The upper or lower triangle of each matrix, from diagonal `k` on; zero elsewhere.

    ```mlir
    %r = graph.trilu %x {k = 1, upper = false} : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    ```
    """

    name = "graph.trilu"
    ONNX: ClassVar = "Trilu"
    ONNX_INPUTS: ClassVar = ("x", "k")
    x = operand_def(TENSOR)
    k = attribute(Int(0))
    upper = attribute(Bool(True))

    @staticmethod
    def infer(x: Tensor, *, k: int, upper: bool) -> Tensor:
        need(len(dims(x)) > 1, f"x must be matrices, got {x}")
        return x

    @staticmethod
    def evaluate(x: Array, *, k: int, upper: bool) -> Array:
        return np.triu(x, k) if upper else np.tril(x, k)


@irdl_op_definition
class DepthToSpaceOp(MovingOp, TensorOp):
    """
    Blocks of channels laid out as squares of `blocksize`.

    ```mlir
    %r = graph.depth_to_space %x {blocksize = 2, mode = CRD}
      : (tensor<1x8x2x3xf32>) -> tensor<1x2x4x6xf32>
    ```
    """

    name = "graph.depth_to_space"
    ONNX: ClassVar = "DepthToSpace"
    x = operand_def(TENSOR)
    blocksize = attribute(Int())
    mode = attribute(Choice(BlockOrder.DCR, BlockOrder))

    @staticmethod
    def infer(x: Tensor, *, blocksize: int, mode: BlockOrder) -> Tensor:
        need(len(dims(x)) == 4, f"x must have 4 dims, got {x}")
        n, c, h, w = dims(x)
        fits = blocksize > 0 and c % blocksize**2 == 0
        need(fits, f"the square of 'blocksize' must divide {c}, got {blocksize}")
        return tensor((n, c // blocksize**2, h * blocksize, w * blocksize), x.element_type)

    @staticmethod
    def evaluate(x: Array, *, blocksize: int, mode: BlockOrder) -> Array:
        n, c, h, w = x.shape
        b, depth = blocksize, c // blocksize**2
        if mode is BlockOrder.DCR:
            y = x.reshape(n, b, b, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
        else:
            y = x.reshape(n, depth, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
        return y.reshape(n, depth, h * b, w * b)


@irdl_op_definition
class SpaceToDepthOp(MovingOp, TensorOp):
    """
    Squares of `blocksize` laid out as channels.

    ```mlir
    %r = graph.space_to_depth %x {blocksize = 2} : (tensor<1x2x4x6xf32>) -> tensor<1x8x2x3xf32>
    ```
    """

    name = "graph.space_to_depth"
    ONNX: ClassVar = "SpaceToDepth"
    x = operand_def(TENSOR)
    blocksize = attribute(Int())

    @staticmethod
    def infer(x: Tensor, *, blocksize: int) -> Tensor:
        need(len(dims(x)) == 4, f"x must have 4 dims, got {x}")
        n, c, h, w = dims(x)
        fits = blocksize > 0 and h % blocksize == 0 == w % blocksize
        need(fits, f"'blocksize' must divide {h} and {w}, got {blocksize}")
        return tensor((n, c * blocksize**2, h // blocksize, w // blocksize), x.element_type)

    @staticmethod
    def evaluate(x: Array, *, blocksize: int) -> Array:
        n, c, h, w = x.shape
        b = blocksize
        y = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
        return y.reshape(n, c * b * b, h // b, w // b)
