"""Attention as one kernel: the scores of a tile never leave the chip.

The softmax runs along the keys as they come: `m` is the largest score so far, `l` the sum of the
exponentials, `o` the weighted values, and each new tile of keys scales down what was there before.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf
from typing import NamedTuple

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
from ge.lowering.kernels.region import RegionWriter, dtype_of, operand, place_of, result, tile_of
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


class _Space(NamedTuple):
    """The dimensions of an attention, and where they are along its tensors."""

    dims: tuple[Dim, ...]
    rows: tuple[Axis, ...]
    """Of queries: the axes of heads, and the one of rows."""
    row: tuple[str, ...]
    """The dimensions of a value that each query has one of."""

    def along(self, *last: Axis) -> list[Axis]:
        """The axes of a tensor that has queries, and those behind them."""
        return [*self.rows, *last]

    @property
    def order(self) -> dict[str, int]:
        """Extents by name."""
        return {d.name: d.extent for d in self.dims}


KEY, DEPTH, WIDE = (Axis(((name, 1),)) for name in ("kv", "d", "e"))


def describe_attention(op: AttentionOp) -> Description:
    """Query tiles in parallel, key tiles in sequence, head dimensions whole."""
    q, k, v = list(op.ins)[:3]
    space = _space(op)
    around, row = space.rows[:-1], space.row
    score, value = (*row, "kv"), (*row, "e")
    operands = [
        operand("q", q, space.along(DEPTH)),
        operand("k", k, [*around, KEY, DEPTH]),
        operand("v", v, [*around, KEY, WIDE]),
    ]
    extras = [operand(f"x{i}", x, space.along(KEY)) for i, x in enumerate(op.extras)]
    results = _results(op, space, shape_of(v)[-1])
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
    softmax = _softmax(op, space, extras)
    # Joining products makes values, too.
    scored = softmax.done(keep=("c", "p"))
    last = _last(op, space, results[0])
    ended = last.done()
    update = Vector((Step("vfma", "o", ("c", "pv")),), stage=AHEAD + STAGE)
    return collapse(
        Description(
            kind=op.kind.data,
            dims=space.dims,
            operands=(*operands, *extras),
            results=tuple(results),
            init=init,
            body=(
                Matrix("s", "q", "k", ("d",), stage=AHEAD, ahead=AHEAD),
                Vector(scored, stage=AHEAD),
                Matrix("pv", "p", "v", ("kv",), stage=AHEAD + STAGE, ahead=AHEAD),
                update,
            ),
            final=(Vector(ended, stage=AHEAD + STAGE),),
            values=tuple((values | softmax.values | last.values).items()),
            carried=("m", "l", "o"),
            until=None if op.reach is None else Axis((("q", 1),), op.reach.value.data),
        )
    )


def _space(op: AttentionOp) -> _Space:
    """Heads in parallel; those that share their keys are rows where each has a single one."""
    q, v = op.ins[0], op.ins[2]
    *batch, rows, depth = shape_of(q)
    names = [f"b{i}" for i in range(len(batch))]
    keys, wide = shape_of(v)[-2:]
    extents = {**dict(zip(names, batch, strict=True)), "q": rows, "kv": keys, "d": depth, "e": wide}
    order = [*names, "q"]
    if (heads := _sharing(op)) is not None:
        extents |= {names[heads]: 1, "q": batch[heads]}
        order[heads], order[-1] = order[-1], order[heads]
    kinds = {"kv": DimKind.SEQUENTIAL, "d": DimKind.WHOLE, "e": DimKind.WHOLE}
    dims = tuple(
        Dim(d, n, kinds.get(d, DimKind.PARALLEL))
        for d, n in extents.items()
        if n != 1 or d not in names
    )
    row = tuple(d.name for d in dims if d.kind is DimKind.PARALLEL)
    return _Space(dims, tuple(Axis(((d, 1),)) for d in order), row)


def _results(op: AttentionOp, space: _Space, wide: int) -> list[Operand]:
    """The result; of a partial one the values, the largest scores and the sums, side by side."""
    ends = {"y": WIDE}
    if op.partial is not None:
        ends |= {"y_m": Axis((), wide), "y_l": Axis((), wide + 1)}
    return [result(name, op, space.along(last)) for name, last in ends.items()]


def _softmax(op: AttentionOp, space: _Space, extras: Sequence[Operand]) -> VectorWriter:
    """The steps from a tile of scores to probabilities."""
    writer = VectorWriter(space.order, "s")
    score = (*space.row, "kv")
    raw, scale = Tile("s", score, F32), op.scale.value.data
    masked: Arg
    mask, masked = _masked_early(op), raw
    # Where scores are only scaled and masked, the scale goes into the exponent.
    if scale > 0 and mask is not None:
        _put_mask(writer, raw, tile_of(extras[mask.arg.index - 1]), mask.hidden, op)
    elif scale <= 0 or op.yielded is not op.body.block.args[0]:
        masked, scale = _region(op, writer, raw, space.along(KEY), extras), 1.0
    _online_softmax(writer, masked, scale, dtype_of(op.ins[2]), score, space.row)
    return writer


def _last(op: AttentionOp, space: _Space, out: Operand) -> VectorWriter:
    """The steps behind the last tile of keys."""
    writer = VectorWriter(space.order, "f")
    o, m, total = (
        Tile(name, (*space.row, *more), F32) for name, more in (("o", "e"), ("m", ""), ("l", ""))
    )
    if op.partial is None:
        writer.finish(writer.mul(o, writer.reciprocal(total)), "y", out.dims, out.dtype)
        return writer
    for name, tile in (("y", o), ("y_m", m), ("y_l", total)):
        writer.finish(tile, name, tile.dims, F32)
    return writer


def _sharing(op: AttentionOp) -> int | None:
    """The axis of heads that share keys and values: with one query each, they are its rows."""
    q, k, v = list(op.ins)[:3]
    *batch, rows, _ = shape_of(q)
    if rows != 1 or op.reach is not None or op.clear is not None:
        return None
    for at in reversed(range(len(batch))):
        from_end = at - len(batch) - 2
        shared = (shape_of(x)[from_end] == 1 or place_of(x).strides[from_end] == 0 for x in (k, v))
        if batch[at] != 1 and all(shared):
            return at
    return None


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
