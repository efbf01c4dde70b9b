"""Kernels of the vector unit alone: elementwise, and with reductions over whole rows."""

from __future__ import annotations

from collections.abc import Sequence

from ge.dialects.fused.base import FusedOp
from ge.dialects.fused.ops import ElementwiseOp, JoinOp, RowwiseOp
from ge.dialects.graph.base import GraphOp, shape_of
from ge.dialects.npu.axes import Axis
from ge.lowering.kernels.collapse import collapse
from ge.lowering.kernels.description import Description, Dim, DimKind, Vector
from ge.lowering.kernels.reducing_ops import REDUCING
from ge.lowering.kernels.region import RegionWriter, operand, result, tile_of
from ge.lowering.kernels.vector_ops import NARROW
from ge.lowering.kernels.vector_writer import VectorWriter


def space_of(op: FusedOp) -> tuple[int, ...]:
    """The iteration space: what the operands and what the reductions work on broadcast to."""
    shapes = [shape_of(v) for v in op.body.block.args]
    if not any(type(inner) in REDUCING for inner in op.body.block.ops):
        shapes.append(shape_of(op.yielded))
    rank = max((len(s) for s in shapes), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(max(column) for column in zip(*padded, strict=True)) if rank else ()


def _reduced_axes(op: FusedOp, rank: int) -> set[int]:
    axes: set[int] = set()
    for inner in op.body.block.ops:
        if isinstance(inner, GraphOp) and (row := REDUCING.get(type(inner))):
            own = len(shape_of(inner.operands[0]))
            axes |= {rank - own + a for a in row.axes(inner.attrs, own)}
    return axes


def describe_vector(op: ElementwiseOp | RowwiseOp) -> Description:
    """One pass of the vector unit; rows that are reduced stay whole."""
    space = space_of(op)
    whole = _reduced_axes(op, len(space))
    names = [f"d{i}" for i in range(len(space))]
    kinds = [DimKind.WHOLE if i in whole else DimKind.PARALLEL for i in range(len(space))]
    order = tuple(range(len(space)))
    if op.layout is not None and len(op.layout.data) == len(space):
        order = op.layout.data  # As the result lies in memory, so that tiles do, too.
    dims = [Dim(names[i], space[i], kinds[i]) for i in order if space[i] != 1]
    axes = [Axis(((d, 1),)) for d in names]
    operands = [operand(f"x{i}", v, axes) for i, v in enumerate(op.ins)]
    inner = [o for o in op.body.block.ops if isinstance(o, GraphOp)]
    narrow = all(type(o) in NARROW for o in inner)
    writer = VectorWriter({names[i]: space[i] for i in order}, narrow=narrow)
    region = RegionWriter(writer, {d.name: d.extent for d in dims})
    for value, tensor in zip(op.body.block.args, operands, strict=True):
        region.bind(value, tile_of(tensor), axes)
    yielded = region.run(op)
    out_axes = _result_axes(op, region.axes[op.yielded], axes)
    out = result("y", op, out_axes)
    writer.finish(yielded, "y", out.dims, out.dtype)
    return collapse(
        Description(
            kind=op.kind.data,
            dims=tuple(dims) or (Dim("d0", 1, DimKind.PARALLEL),),
            operands=tuple(operands),
            results=(out,),
            body=(Vector(writer.done(halves=bool(whole))),),
            values=tuple(writer.values.items()),
        )
    )


def describe_join(op: JoinOp) -> Description:
    """One pass over the operands, and each part to its place in the result."""
    shape, axis = shape_of(op.yielded), op.axis.value.data
    names = [f"d{i}" for i in range(len(shape))]
    dims = tuple(
        Dim(name, n, DimKind.PARALLEL) for name, n in zip(names, shape, strict=True) if n != 1
    )
    axes = [Axis(((d, 1),)) for d in names]
    operands = [operand(f"x{i}", v, axes) for i, v in enumerate(op.ins)]
    narrow = all(type(o) in NARROW for o in op.body.block.ops if isinstance(o, GraphOp))
    writer = VectorWriter({d.name: d.extent for d in dims}, narrow=narrow)
    region = RegionWriter(writer, {d.name: d.extent for d in dims})
    for value, tensor in zip(op.body.block.args, operands, strict=True):
        region.bind(value, tile_of(tensor), axes)
    region.run(op)
    results = []
    for number, part in enumerate(op.parts):
        terms = axes[axis].terms if shape[axis] != 1 else ()
        place = [*axes[:axis], Axis(terms, number * shape[axis]), *axes[axis + 1 :]]
        out = result(f"y{number}", op, place)
        writer.finish(region.args[part], out.name, [d.name for d in dims], out.dtype)
        results.append(out)
    return collapse(
        Description(
            kind=op.kind.data,
            dims=dims or (Dim("d0", 1, DimKind.PARALLEL),),
            operands=tuple(operands),
            results=tuple(results),
            body=(Vector(writer.done(keep=[o.name for o in results])),),
            values=tuple(writer.values.items()),
        )
    )


def _result_axes(op: FusedOp, along: Sequence[tuple[str, ...]], axes: Sequence[Axis]) -> list[Axis]:
    """The space's axes that the yielded value has, in its order."""
    shape = shape_of(op.yielded)
    found = []
    for i, n in enumerate(shape):
        from_end = axes[len(axes) - len(shape) + i] if len(axes) >= len(shape) else Axis(())
        found.append(Axis(((along[i][0], 1),)) if n != 1 and along[i] else from_end)
    return found
