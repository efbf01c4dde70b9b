"""Attention as one kernel: the scores of a tile never leave the chip.

The softmax runs along the keys as they come: `m` is the largest score so far, `l` the sum of the
exponentials, `o` the weighted values, and each new tile of keys scales down what was there before.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf

from ge.dialects.dtypes import F32, DType
from ge.dialects.fused.ops import AttentionOp
from ge.dialects.graph.base import shape_of
from ge.dialects.npu.axes import Axis
from ge.lowering.kernels.collapse import collapse
from ge.lowering.kernels.description import (
    Description,
    Dim,
    DimKind,
    Matrix,
    Operand,
    Step,
    Value,
    Vector,
)
from ge.lowering.kernels.region import RegionWriter, dtype_of, operand, result, tile_of
from ge.lowering.kernels.vector_writer import Arg, Tile, VectorWriter
from ge.lowering.reach import Mask, only_mask

LOWEST = -3.4028234663852886e38
"""Where the largest score starts: the lowest f32, so that no masked score lies below it."""

AHEAD = 1
"""How many tiles of keys the loads run ahead of the products.

What the vector unit does with a tile fills its queue: behind it, loads would be asked for too late.
"""
STAGE = 2
"""How many tiles of keys the second product runs behind the first.

The matrix unit is in order: one tile behind, the next scores would wait for these probabilities,
and the vector unit for both.
"""


def describe_attention(op: AttentionOp) -> Description:
    """Query tiles in parallel, key tiles in sequence, head dimensions whole."""
    q, k, v = list(op.ins)[:3]
    *batch, rows, depth = shape_of(q)
    keys, wide = shape_of(v)[-2:]
    names = [f"b{i}" for i in range(len(batch))]
    extents = {**dict(zip(names, batch, strict=True)), "q": rows, "kv": keys, "d": depth, "e": wide}
    kinds = {"kv": DimKind.SEQUENTIAL, "d": DimKind.WHOLE, "e": DimKind.WHOLE}
    dims = [
        Dim(d, n, kinds.get(d, DimKind.PARALLEL))
        for d, n in extents.items()
        if n != 1 or d not in names
    ]
    axis = {d: Axis(((d, 1),)) for d in extents}
    around = [axis[d] for d in names]
    operands = [
        operand("q", q, [*around, axis["q"], axis["d"]]),
        operand("k", k, [*around, axis["kv"], axis["d"]]),
        operand("v", v, [*around, axis["kv"], axis["e"]]),
    ]
    scores = [*around, axis["q"], axis["kv"]]
    extras = [operand(f"x{i}", x, scores) for i, x in enumerate(op.extras)]
    out = result("y", op, [*around, axis["q"], axis["e"]])
    order = {d.name: d.extent for d in dims}
    outer = tuple(d for d in names if d in order)
    row, score, value = (*outer, "q"), (*outer, "q", "kv"), (*outer, "q", "e")
    values: dict[str, Value] = {
        "s": Value(score, F32),
        "pv": Value(value, F32),
        "m": Value(row, F32),
        "l": Value(row, F32),
        "o": Value(value, F32),
    }

    begun = (Step("vfill", "m", (), (LOWEST,)), Step("vfill", "l", (), (0.0,)))
    init = (
        Vector(begun, stage=AHEAD),
        Vector((Step("vfill", "o", (), (0.0,)),), stage=AHEAD + STAGE),
    )
    softmax = VectorWriter(order, "s")
    raw, scale = Tile("s", score, F32), op.scale.value.data
    masked: Arg
    mask, masked = _masked_early(op), raw
    # Where scores are only scaled and masked, the scale goes into the exponent.
    if scale > 0 and mask is not None:
        _put_mask(softmax, raw, tile_of(extras[mask.arg.index - 1]), mask.hidden, op)
    elif scale <= 0 or op.yielded is not op.body.block.args[0]:
        masked, scale = _region(op, softmax, raw, scores, extras), 1.0
    _online_softmax(softmax, masked, scale, dtype_of(v), score, row)
    # Joining products makes values, too.
    scored = softmax.done(keep=("c", "p"))
    values |= softmax.values
    last = VectorWriter(order, "f")
    last.finish(
        last.mul(Tile("o", value, F32), last.reciprocal(Tile("l", row, F32))),
        "y",
        out.dims,
        out.dtype,
    )
    ended = last.done()
    values |= last.values
    update = Vector((Step("vfma", "o", ("c", "pv")),), stage=AHEAD + STAGE)
    return collapse(
        Description(
            kind=op.kind.data,
            dims=tuple(dims),
            operands=(*operands, *extras),
            results=(out,),
            init=init,
            body=(
                Matrix("s", "q", "k", ("d",), stage=AHEAD, ahead=AHEAD),
                Vector(scored, stage=AHEAD),
                Matrix("pv", "p", "v", ("kv",), stage=AHEAD + STAGE, ahead=AHEAD),
                update,
            ),
            final=(Vector(ended, stage=AHEAD + STAGE),),
            values=tuple(values.items()),
            carried=("m", "l", "o"),
            until=None if op.reach is None else Axis((("q", 1),), op.reach.value.data),
        )
    )


def _region(
    op: AttentionOp,
    softmax: VectorWriter,
    raw: Tile,
    scores: Sequence[Axis],
    extras: Sequence[Operand],
) -> Arg:
    """What the region makes of the scaled scores."""
    region = RegionWriter(softmax, softmax.extents)
    args = list(op.body.block.args)
    region.bind(args[0], softmax.mul(raw, op.scale.value.data), scores)
    for arg, tensor in zip(args[1:], extras, strict=True):
        region.bind(arg, tile_of(tensor), scores)
    return region.run(op)


def _masked_early(op: AttentionOp) -> Mask | None:
    """The mask that is put on scores before they are scaled.

    What is added must be divided by the scale first: that pays where most tiles are clear.
    """
    mask = only_mask(op)
    return mask if mask and (mask.hidden is not None or op.clear is not None) else None


def _put_mask(
    w: VectorWriter, raw: Tile, mask: Tile, hidden: float | None, op: AttentionOp
) -> None:
    """Mask the scores where they lie; tiles that are clear go without."""
    scale, clear = op.scale.value.data, op.clear
    when = Axis((("kv", 1), ("q", -1)), -clear.value.data) if clear is not None else None
    if hidden is not None:
        # What no f32 holds would be no number once all of a row is hidden.
        number = hidden if isinf(hidden) else max(hidden / scale, LOWEST)
        filled = w.step("vfill", w.new((), F32), numbers=(number,), when=when)
        w.step("vsel", raw, mask, raw, filled, when=when)
        return
    if mask.dtype is not F32:
        mask = w.step("vconv", w.new(mask.dims, F32), mask, words=("rint",), when=when)
    added = w.step("vmuls", w.new(mask.dims, F32), mask, numbers=(1 / scale,), when=when)
    w.step("vadd", raw, raw, added, when=when)


def _online_softmax(
    w: VectorWriter,
    z: Arg,
    scale: float,
    dtype: DType,
    score: tuple[str, ...],
    row: tuple[str, ...],
) -> None:
    """Take a tile of scores in: the new largest one, what scales the past down, probabilities."""
    z = w.wide(z)
    assert isinstance(z, Tile)
    before, total = Tile("m", row, F32), Tile("l", row, F32)
    highest = w.reduce("vrmax", z, ("kv",))
    if scale != 1.0:
        highest = w.scalar("vmuls", highest, scale)
    largest = w.tiles("vmax", before, highest)
    w.values["c"] = Value(row, F32)
    past = w.step("vexp", Tile("c", row, F32), w.tiles("vsub", before, largest))
    if scale != 1.0:
        # These are the scores where they lie: scaled, and the largest taken off, in one pass.
        factor, lowered = w.fill(scale, (), F32), w.scalar("vmuls", largest, -1.0)
        grown = w.exp(w.step("vfma", z, factor, lowered))
    else:
        grown = w.exp(w.sub(z, largest))
    w.step("vfma", total, past, w.reduce("vrsum", grown, ("kv",)))
    w.step("vcopy", before, largest)
    w.values["p"] = Value(score, dtype)
    w.step(
        "vconv" if dtype is not F32 else "vcopy",
        Tile("p", score, dtype),
        grown,
        words=("rint",) if dtype is not F32 else (),
    )
