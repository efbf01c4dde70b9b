"""A fused operation's region as vector steps, and its operands as views of device memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from ge.dialects import dtypes
from ge.dialects.diagnostics import UnsupportedError
from ge.dialects.dtypes import DType
from ge.dialects.fused.base import FusedOp, ViewOp, YieldOp
from ge.dialects.graph.base import ConstantOp, GraphOp, shape_of
from ge.dialects.npu.axes import Axis
from ge.dialects.npu.geometry import dense
from ge.lowering.kernels.description import Operand
from ge.lowering.kernels.reducing_ops import REDUCING
from ge.lowering.kernels.vector_ops import VECTOR
from ge.lowering.kernels.vector_writer import Arg, Tile, VectorWriter

_REDUCTION_ATTRS = frozenset({"axis", "axes", "keepdims"})


def dtype_of(value: SSAValue) -> DType:
    """The element type of a tensor value."""
    assert isinstance(value.type, TensorType)
    return dtypes.of_ir(value.type.element_type)


def _number(op: GraphOp, operands: Sequence[float | None]) -> float:
    """The result of an operation on numbers: it is the same everywhere."""
    types = iter(op.operands)
    arrays = [None if v is None else np.asarray(v, dtype_of(next(types)).numpy) for v in operands]
    (result,) = op.evaluate_all(arrays, op.attrs)
    return float(result.flat[0])


@dataclass(frozen=True)
class Place:
    """Where an operand lies: a tensor with storage of its own, seen from `offset` on by strides."""

    base: SSAValue
    offset: int
    strides: tuple[int, ...]


def place_of(value: SSAValue) -> Place:
    """The storage behind a value."""
    if isinstance(value.owner, ViewOp):
        view = value.owner
        return Place(view.source, view.offset.data[0], view.strides.data)
    return Place(value, 0, dense(shape_of(value)))


def operand(
    name: str,
    value: SSAValue,
    axes: Sequence[Axis],
    pad: float = 0.0,
    windows: Sequence[Axis] = (),
) -> Operand:
    """The operand `name` read along `axes`, the last ones of the space, in the order of memory.

    An axis of size 1, or along which all elements are the same, is left out, unless it is one
    of `windows`: those may reach over its ends.
    """
    shape = shape_of(value)
    along = axes[len(axes) - len(shape) :]
    kept = [
        (axis, n, stride)
        for axis, n, stride in zip(along, shape, place_of(value).strides, strict=True)
        if stride and (n != 1 or axis in windows)
    ]
    kept.sort(key=lambda x: -x[2])
    return Operand(
        name,
        tuple(axis for axis, _, _ in kept),
        tuple(n for _, n, _ in kept),
        tuple(stride for _, _, stride in kept),
        dtype_of(value),
        pad,
    )


def result(name: str, op: FusedOp, axes: Sequence[Axis]) -> Operand:
    """The kernel's result, whose logical axes are walked by `axes`, in the layout that is asked."""
    shape = shape_of(op.out)
    order = op.layout.data if op.layout else tuple(range(len(shape)))
    strides = dense(shape)
    kept = [(axes[order[i]], n, strides[i]) for i, n in enumerate(shape) if n != 1]
    return Operand(
        name,
        tuple(a for a, _, _ in kept),
        tuple(n for _, n, _ in kept),
        tuple(s for _, _, s in kept),
        dtype_of(op.out),
    )


def tile_of(operand: Operand) -> Tile:
    """The tile that an operand's load makes."""
    return Tile(operand.name, operand.dims, operand.dtype)


class RegionWriter:
    """Walks a region and writes the steps of its operations."""

    def __init__(self, writer: VectorWriter, extents: Mapping[str, int]) -> None:
        self.writer = writer
        self.extents = extents
        self.args: dict[SSAValue, Arg] = {}
        self.axes: dict[SSAValue, list[tuple[str, ...]]] = {}
        """The dimensions along each axis of a value, for operators that name axes."""

    def bind(self, value: SSAValue, arg: Arg, axes: Sequence[Axis]) -> None:
        """Say what an argument of the region is."""
        self.args[value] = arg
        shape = shape_of(value)
        along = axes[len(axes) - len(shape) :] if shape else ()
        self.axes[value] = [
            tuple(d for d, _ in axis.terms) if n != 1 else ()
            for axis, n in zip(along, shape, strict=True)
        ]

    def run(self, op: FusedOp) -> Arg:
        """The value that the region yields, or the first of them."""
        for inner in op.body.block.ops:
            if isinstance(inner, YieldOp):
                return self.args[inner.values[0]]
            self.operation(inner)
        raise ValueError("a region must end with fused.yield")

    def operation(self, op: Operation) -> None:
        if isinstance(op, ConstantOp):
            value = op.array.reshape(-1)
            if value.size != 1:
                raise UnsupportedError("a constant inside a kernel must be one number")
            self.args[op.results[0]] = float(value[0])
            self.axes[op.results[0]] = [()] * len(shape_of(op.results[0]))
            return
        assert isinstance(op, GraphOp)
        operands = self.operands(op)
        attrs = op.attrs
        if (row := REDUCING.get(type(op))) is not None:
            first = op.operands[0]
            axes = row.axes(attrs, len(shape_of(first)))
            over = [d for a in axes for d in self.axes[first][a]]
            n = prod(shape_of(first)[a] for a in axes)
            attrs = {k: v for k, v in attrs.items() if k not in _REDUCTION_ATTRS}
            arg = row.write(self.writer, operands[0], over, n, *operands[1:], **attrs)
        elif (write := VECTOR.get(type(op))) is not None:
            known = not any(isinstance(v, Tile) for v in operands)
            arg = _number(op, operands) if known else write(self.writer, *operands, **attrs)
        else:
            raise UnsupportedError(f"operator '{op.ONNX}' has no vector instructions")
        self.args[op.results[0]] = self.typed(arg, dtype_of(op.results[0]))
        self.axes[op.results[0]] = self.axes_of_result(op)

    def typed(self, arg: Arg, dtype: DType) -> Arg:
        """The value as the operator's element type; floats stay as wide as they are computed."""
        if not isinstance(arg, Tile) or dtype.is_float or arg.dtype is dtype:
            return arg
        return self.writer.convert(arg, dtype, "trunc")

    def operands(self, op: GraphOp) -> list[Any]:
        """The operands in order, None for those that are absent."""
        found: list[Any] = []
        for name in op.slots():
            value = getattr(op, name)
            if isinstance(value, SSAValue) or value is None:
                found.append(None if value is None else self.args[value])
            else:
                found.extend(self.args[v] for v in value)
        return found

    def axes_of_result(self, op: GraphOp) -> list[tuple[str, ...]]:
        """The dimensions along each axis of a result: where a broadcast operand has some."""
        shape = shape_of(op.results[0])
        axes: list[tuple[str, ...]] = [()] * len(shape)
        for value in op.operands:
            theirs = self.axes[value]
            if len(theirs) > len(shape):
                return self.squeezed(op)
            for i, dims in enumerate(theirs, len(shape) - len(theirs)):
                if dims and shape[i] != 1:
                    axes[i] = dims
        return axes

    def squeezed(self, op: GraphOp) -> list[tuple[str, ...]]:
        """A reduction that drops its axes."""
        row = REDUCING[type(op)]
        first = op.operands[0]
        gone = row.axes(op.attrs, len(shape_of(first)))
        return [dims for i, dims in enumerate(self.axes[first]) if i not in gone]
