"""Kernels that only move: padding, and one operand of a concatenation."""

from __future__ import annotations

from dataclasses import replace

from ge.dialects.fused.ops import ConcatOp, PadOp
from ge.dialects.npu.axes import Axis
from ge.lowering.kernels.collapse import collapse
from ge.lowering.kernels.description import Description, Dim, DimKind, Operand, Vector
from ge.lowering.kernels.region import operand, place_of, result, shape_of, tile_of
from ge.lowering.kernels.vector_writer import VectorWriter


def _copy(kind: str, shape: tuple[int, ...], source: Operand, out: Operand) -> Description:
    """The kernel that fills `out` from `source`, one element of `shape` each."""
    dims = [Dim(f"d{i}", n, DimKind.PARALLEL) for i, n in enumerate(shape) if n != 1]
    writer = VectorWriter([d.name for d in dims])
    writer.finish(tile_of(source), "y", [d.name for d in dims], out.dtype)
    return collapse(
        Description(
            kind=kind,
            dims=tuple(dims) or (Dim("d0", 1, DimKind.PARALLEL),),
            operands=(source,),
            results=(out,),
            body=(Vector(tuple(writer.steps)),),
            values=tuple(writer.values.items()),
        )
    )


def describe_pad(op: PadOp) -> Description:
    """The result's places, shifted back by what stands before: outside lies the pad value."""
    shape = shape_of(op.out)
    axes = [Axis(((f"d{i}", 1),)) for i in range(len(shape))]
    shifted = [Axis(((f"d{i}", 1),), -before) for i, before in enumerate(op.before.data)]
    source = operand("x", op.ins[0], shifted, op.value.value.data)
    if len(source.axes) != len(shape):
        source = _with_all_axes(source, op, shifted)
    return _copy(op.kind.data, shape, source, result("y", op, axes))


def _with_all_axes(source: Operand, op: PadOp, shifted: list[Axis]) -> Operand:
    """An axis of size 1 that is padded must be walked too."""
    shape = shape_of(op.ins[0])
    return replace(source, axes=tuple(shifted), shape=shape, strides=place_of(op.ins[0]).strides)


def describe_concat(op: ConcatOp) -> list[Description]:
    """One copy an operand, each into its part of the result."""
    axis = op.axis.value.data
    at = 0
    found = []
    for value in op.ins:
        shape = shape_of(value)
        axes = [Axis(((f"d{i}", 1),)) for i in range(len(shape))]
        axes[axis] = Axis(((f"d{axis}", 1),), at) if shape[axis] != 1 else Axis((), at)
        source = operand("x", value, [Axis(((f"d{i}", 1),)) for i in range(len(shape))])
        found.append(_copy(op.kind.data, shape, source, result("y", op, axes)))
        at += shape[axis]
    return found
