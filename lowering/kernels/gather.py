"""Slices of a tensor at places that another tensor names: rows of an embedding."""

from __future__ import annotations

from ge.dialects.fused.ops import GatherOp
from ge.dialects.graph.base import shape_of
from ge.dialects.npu.axes import Axis
from ge.lowering.kernels.collapse import collapse
from ge.lowering.kernels.description import Description, Dim, DimKind, Indexed, Operand, Vector
from ge.lowering.kernels.region import RegionWriter, dtype_of, operand, place_of, result, tile_of
from ge.lowering.kernels.vector_writer import VectorWriter


def describe_gather(op: GatherOp) -> Description:
    """One slice a tile: the scalar unit reads its index and puts it into the load's address."""
    axis = op.axis.value.data
    shape = shape_of(op.body.block.args[0])
    names = [f"d{i}" for i in range(len(shape))]
    axes = [Axis(((d, 1),)) for d in names]
    dims = [Dim(d, n, DimKind.PARALLEL) for d, n in zip(names, shape, strict=True) if n != 1]
    behind = axis + len(shape_of(op.ins[1]))
    places = operand("i", op.ins[1], axes[axis:behind])
    x = _table(op, [*axes[:axis], Axis(()), *axes[behind:]], places)
    writer = VectorWriter(dict(zip(names, shape, strict=True)))
    region = RegionWriter(writer, {d.name: d.extent for d in dims})
    args = list(op.body.block.args)
    region.bind(args[0], tile_of(x), axes)
    extras = [operand(f"x{i}", v, axes) for i, v in enumerate(op.extras)]
    for value, tensor in zip(args[1:], extras, strict=True):
        region.bind(value, tile_of(tensor), axes)
    out = result("y", op, axes)
    writer.finish(region.run(op), "y", out.dims, out.dtype)
    return collapse(
        Description(
            kind=op.kind.data,
            dims=tuple(dims) or (Dim("d0", 1, DimKind.PARALLEL),),
            operands=(x, places, *extras),
            results=(out,),
            body=(Vector(writer.done()),),
            values=tuple(writer.values.items()),
        )
    )


def _table(op: GatherOp, axes: list[Axis], places: Operand) -> Operand:
    """The tensor that slices are taken of, without the axis that the indices stand for."""
    at = op.axis.value.data
    strides, shape = place_of(op.ins[0]).strides, shape_of(op.ins[0])
    rows = [
        (axis, n, stride)
        for i, (axis, n, stride) in enumerate(zip(axes, shape, strides, strict=True))
        if i != at and n != 1 and stride
    ]
    rows.sort(key=lambda row: -row[2])
    return Operand(
        "x",
        tuple(axis for axis, _, _ in rows),
        tuple(n for _, n, _ in rows),
        tuple(stride for _, _, stride in rows),
        dtype_of(op.ins[0]),
        indexed=Indexed(places.name, places.axes, shape[at], strides[at]),
    )
