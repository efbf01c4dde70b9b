"""Kernels that only move: padding, and one operand of a concatenation."""

from __future__ import annotations

from ge.dialects.fused.ops import ConcatOp, PadOp
from ge.dialects.graph.base import shape_of
from ge.dialects.npu.axes import Axis
from ge.lowering.kernels.collapse import collapse
from ge.lowering.kernels.description import (
    Description,
    Dim,
    DimKind,
    Operand,
    Part,
    Vector,
)
from ge.lowering.kernels.region import dtype_of, operand, place_of, result, tile_of
from ge.lowering.kernels.vector_writer import VectorWriter


def copy_description(
    kind: str, shape: tuple[int, ...], source: Operand, out: Operand
) -> Description:
    """The kernel that fills `out` from `source`, one element of `shape` each."""
    dims = [Dim(f"d{i}", n, DimKind.PARALLEL) for i, n in enumerate(shape) if n != 1]
    writer = VectorWriter({d.name: d.extent for d in dims})
    writer.finish(tile_of(source), "y", [d.name for d in dims], out.dtype)
    return collapse(
        Description(
            kind=kind,
            dims=tuple(dims) or (Dim("d0", 1, DimKind.PARALLEL),),
            operands=(source,),
            results=(out,),
            body=(Vector(writer.done()),),
            values=tuple(writer.values.items()),
        )
    )


def describe_pad(op: PadOp) -> Description:
    """The result's places, shifted back by what stands before: outside lies the pad value."""
    shape = shape_of(op.yielded)
    before = op.before.data
    place = place_of(op.ins[0])
    # An axis of size 1 must be walked too where something is put beside it.
    rows = [
        (Axis(((f"d{i}", 1),) if n != 1 else (), -before[i]), have, stride)
        for i, (n, have, stride) in enumerate(
            zip(shape, shape_of(op.ins[0]), place.strides, strict=True)
        )
        if (n, have, before[i]) != (1, 1, 0)
    ]
    rows.sort(key=lambda row: -row[2])
    source = Operand(
        "x",
        tuple(axis for axis, _, _ in rows),
        tuple(n for _, n, _ in rows),
        tuple(stride for _, _, stride in rows),
        dtype_of(op.ins[0]),
        op.value.value.data,
    )
    axes = [Axis(((f"d{i}", 1),)) for i in range(len(shape))]
    return copy_description(op.kind.data, shape, source, result("y", op, axes))


def describe_concat(op: ConcatOp) -> list[Part]:
    """One copy an operand, each into its part of the result."""
    axis = op.axis.value.data
    at = 0
    found = []
    for value in op.ins:
        shape = shape_of(value)
        axes = [Axis(((f"d{i}", 1),)) for i in range(len(shape))]
        axes[axis] = Axis(((f"d{axis}", 1),), at) if shape[axis] != 1 else Axis((), at)
        source = operand("x", value, [Axis(((f"d{i}", 1),)) for i in range(len(shape))])
        copy = copy_description(op.kind.data, shape, source, result("y", op, axes))
        found.append(Part(copy, (value,)))
        at += shape[axis]
    return found
