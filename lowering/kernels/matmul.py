"""Matrix products, batch by batch, with an epilogue on the vector unit."""

from __future__ import annotations

from ge.dialects.fused.base import FusedOp
from ge.dialects.fused.ops import MatMulOp
from ge.dialects.graph.base import shape_of
from ge.dialects.graph.ops import unary
from ge.dialects.npu.axes import Axis
from ge.dialects.npu.isa.cube import accumulator
from ge.lowering.kernels.collapse import collapse
from ge.lowering.kernels.description import (
    Description,
    Dim,
    DimKind,
    Matrix,
    Operand,
    Value,
    Vector,
)
from ge.lowering.kernels.region import RegionWriter, dtype_of, operand, result, tile_of
from ge.lowering.kernels.vector_writer import Tile, VectorWriter


def describe_matmul(op: MatMulOp) -> Description:
    """`acc[.., m, n] += a[.., m, k] . b[.., k, n]`, then the region."""
    a, b = op.ins[0], op.ins[1]
    *batch, m, n = shape_of(op.body.block.args[0])
    k = shape_of(a)[-1]
    batch_dims = [f"b{i}" for i in range(len(batch))]
    extents = {**dict(zip(batch_dims, batch, strict=True)), "m": m, "n": n, "k": k}
    axis = {d: Axis(((d, 1),)) for d in extents}
    around = [axis[d] for d in batch_dims]
    left = operand("a", a, [*around, axis["m"], axis["k"]])
    right = operand("b", b, [*around, axis["k"], axis["n"]])
    dims = [
        Dim(d, e, DimKind.REDUCE if d == "k" else DimKind.PARALLEL)
        for d, e in extents.items()
        if e != 1 or d in "mnk"
    ]
    acc_dims = tuple(d.name for d in dims if d.name != "k")
    return collapse(
        with_epilogue(
            op,
            dims,
            (left, right),
            Matrix("acc", "a", "b", ("k",)),
            Value(acc_dims, accumulator(dtype_of(a))),
            [*around, axis["m"], axis["n"]],
        )
    )


def _straight_out(op: FusedOp) -> bool:
    """Whether the accumulators are stored as they are, or as another float type on the way out."""
    value = op.yielded
    while isinstance(value.owner, unary.CastOp) and value.owner.attrs["to"].is_float:
        value = value.owner.x
    return value is op.body.block.args[0]


def with_epilogue(
    op: FusedOp,
    dims: list[Dim],
    anchor: tuple[Operand, ...],
    product: Matrix,
    acc: Value,
    axes: list[Axis],
) -> Description:
    """A description around one product: stored as it is, or through the region's steps."""
    args = list(op.body.block.args)
    extras = [operand(f"x{i}", v, axes) for i, v in enumerate(op.extras)]
    matrix_only = _straight_out(op)
    out = result("acc" if matrix_only else "y", op, axes)
    values = {"acc": acc}
    final: tuple[Vector, ...] = ()
    if not matrix_only:
        writer = VectorWriter({d.name: d.extent for d in dims})
        region = RegionWriter(writer, {d.name: d.extent for d in dims})
        region.bind(args[0], Tile("acc", acc.dims, acc.dtype), axes)
        for value, tensor in zip(args[1:], extras, strict=True):
            region.bind(value, tile_of(tensor), axes)
        writer.finish(region.run(op), "y", acc.dims, out.dtype)
        final = (Vector(writer.done(halves=True)),)
        values |= writer.values
    return Description(
        kind=op.kind.data,
        dims=tuple(dims),
        operands=(*anchor, *extras),
        results=(out,),
        body=(product,),
        final=final,
        values=tuple(values.items()),
    )
