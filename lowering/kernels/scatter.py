"""Slices put into a tensor at places that another tensor names; the rest of it stays."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ge.dialects.fused.ops import ScatterOp
from ge.dialects.graph.base import shape_of
from ge.dialects.npu.axes import Axis
from ge.lowering.kernels.collapse import collapse
from ge.lowering.kernels.copy import copy_description
from ge.lowering.kernels.description import (
    Description,
    Dim,
    DimKind,
    Indexed,
    Operand,
    Part,
    Vector,
)
from ge.lowering.kernels.region import RegionWriter, dtype_of, operand, place_of, tile_of
from ge.lowering.kernels.vector_writer import VectorWriter


def describe_scatter(op: ScatterOp) -> list[Part]:
    """What brings the first operand to where the result lies, then what writes the slices."""
    place = place_of(op.ins[0])
    return [
        Part(_whole(op, place.base), (place.base,), brings=True),
        Part(_slices(op), tuple(op.ins[1:]), place.offset),
    ]


def _whole(op: ScatterOp, base: SSAValue) -> Description:
    shape = shape_of(base)
    axes = [Axis(((f"d{i}", 1),)) for i in range(len(shape))]
    source = operand("x", base, axes)
    out = Operand("y", source.axes, source.shape, source.strides, source.dtype)
    return copy_description(op.kind.data, shape, source, out)


def _slices(op: ScatterOp) -> Description:
    """A tile has one place of what an index names: the scalar unit puts it into the address."""
    shape = shape_of(op.ins[2])
    names = [f"d{i}" for i in range(len(shape))]
    axes = [Axis(((d, 1),)) for d in names]
    dims = [Dim(d, n, DimKind.PARALLEL) for d, n in zip(names, shape, strict=True) if n != 1]
    places = operand("i", op.ins[1], [axes[a] for a in op.by.data])
    updates = operand("u", op.ins[2], axes)
    writer = VectorWriter(dict(zip(names, shape, strict=True)))
    region = RegionWriter(writer, {d.name: d.extent for d in dims})
    args = list(op.body.block.args)
    region.bind(args[0], tile_of(updates), axes)
    extras = [operand(f"x{i}", v, axes) for i, v in enumerate(op.extras)]
    for value, tensor in zip(args[1:], extras, strict=True):
        region.bind(value, tile_of(tensor), axes)
    out = _target(op, axes, places)
    writer.finish(region.run(op), "y", [d.name for d in dims], out.dtype)
    return collapse(
        Description(
            kind=op.kind.data,
            dims=tuple(dims) or (Dim("d0", 1, DimKind.PARALLEL),),
            operands=(places, updates, *extras),
            results=(out,),
            body=(Vector(writer.done()),),
            values=tuple(writer.values.items()),
        )
    )


def _target(op: ScatterOp, axes: Sequence[Axis], places: Operand) -> Operand:
    """The slices as they lie in the tensor, moved on along an axis by an index each."""
    at = op.axis.value.data
    strides, named = place_of(op.ins[0]).strides, at in op.by.data
    rows = [
        (axis, n, stride)
        for i, (axis, n, stride) in enumerate(zip(axes, shape_of(op.ins[2]), strides, strict=True))
        if n != 1 and not (named and i == at)
    ]
    return Operand(
        "y",
        tuple(axis for axis, _, _ in rows),
        tuple(n for _, n, _ in rows),
        tuple(stride for _, _, stride in rows),
        dtype_of(op.out),
        indexed=Indexed(places.name, places.axes, shape_of(op.ins[0])[at], strides[at]),
    )
