"""Operators with reductions inside: softmax, norms and sums, on tiles that span the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NamedTuple

from ge.dialects.graph.base import GraphOp
from ge.dialects.graph.ops import norm, reduce
from ge.dialects.graph.ops.activation import finite_range
from ge.lowering.kernels.vector_writer import Arg, Tile, VectorWriter

Axes = tuple[int, ...]


class Row(NamedTuple):
    """How an operator reduces: over which axes of its first operand, and with which steps."""

    axes: Callable[[dict[str, Any], int], Axes]
    write: Callable[..., Arg]


REDUCING: dict[type[GraphOp], Row] = {}
"""The steps take writer, first operand, dimensions reduced, their elements, other operands."""


def _one(attrs: dict[str, Any], rank: int) -> Axes:
    return (attrs["axis"] % rank,)


def _from(attrs: dict[str, Any], rank: int) -> Axes:
    return tuple(range(attrs["axis"] % rank, rank))


def _some(attrs: dict[str, Any], rank: int) -> Axes:
    axes = attrs["axes"]
    return tuple(range(rank)) if axes is None else tuple(sorted(a % rank for a in axes))


def reducing(
    axes: Callable[[dict[str, Any], int], Axes], *ops: type[GraphOp]
) -> Callable[[Callable[..., Arg]], Callable[..., Arg]]:
    """Register the steps of one or more operators that reduce."""

    def register(write: Callable[..., Arg]) -> Callable[..., Arg]:
        REDUCING.update(dict.fromkeys(ops, Row(axes, write)))
        return write

    return register


def _tile(w: VectorWriter, x: Arg) -> Tile:
    x = w.wide(x)
    assert isinstance(x, Tile)
    return x


@reducing(_one, norm.SoftmaxOp)
def _softmax(w: VectorWriter, x: Arg, over: Sequence[str], n: int) -> Arg:
    x = _tile(w, x)
    grown = w.exp(w.sub(x, w.reduce("vrmax", x, over)))
    return w.mul(grown, w.reciprocal(w.reduce("vrsum", grown, over)))


@reducing(_one, norm.LogSoftmaxOp)
def _log_softmax(w: VectorWriter, x: Arg, over: Sequence[str], n: int) -> Arg:
    x = _tile(w, x)
    below = w.sub(x, w.reduce("vrmax", x, over))
    return w.sub(below, w.unary("vln", w.reduce("vrsum", w.exp(below), over)))


@reducing(_from, norm.LayerNormalizationOp)
def _layer_norm(
    w: VectorWriter,
    x: Arg,
    over: Sequence[str],
    n: int,
    scale: Arg,
    bias: Arg | None = None,
    *,
    epsilon: float,
) -> Arg:
    x = _tile(w, x)
    centred = w.sub(x, w.mul(w.reduce("vrsum", x, over), 1.0 / n))
    squares = w.mul(centred, centred)
    assert isinstance(squares, Tile)
    variance = w.mul(w.reduce("vrsum", squares, over), 1.0 / n)
    scaled = w.mul(w.mul(centred, w.unary("vrsqrt", w.add(variance, epsilon))), scale)
    return scaled if bias is None else w.add(scaled, bias)


@reducing(_from, norm.RMSNormalizationOp)
def _rms_norm(
    w: VectorWriter, x: Arg, over: Sequence[str], n: int, scale: Arg, *, epsilon: float
) -> Arg:
    x = _tile(w, x)
    squares = w.mul(x, x)
    assert isinstance(squares, Tile)
    mean = w.mul(w.reduce("vrsum", squares, over), 1.0 / n)
    return w.mul(w.mul(x, w.unary("vrsqrt", w.add(mean, epsilon))), scale)


@reducing(_some, reduce.ReduceSumOp)
def _sum(w: VectorWriter, x: Arg, over: Sequence[str], n: int) -> Arg:
    return w.reduce("vrsum", _tile(w, x), over)


@reducing(_some, reduce.ReduceMeanOp)
def _mean(w: VectorWriter, x: Arg, over: Sequence[str], n: int) -> Arg:
    return w.mul(_sum(w, x, over, n), 1.0 / n)


@reducing(_some, reduce.ReduceMaxOp)
def _largest(w: VectorWriter, x: Arg, over: Sequence[str], n: int) -> Arg:
    return w.reduce("vrmax", _tile(w, x), over)


@reducing(_some, reduce.ReduceMinOp)
def _smallest(w: VectorWriter, x: Arg, over: Sequence[str], n: int) -> Arg:
    return w.reduce("vrmin", _tile(w, x), over)


@reducing(_some, reduce.ReduceProdOp)
def _product(w: VectorWriter, x: Arg, over: Sequence[str], n: int) -> Arg:
    return w.reduce("vrprod", _tile(w, x), over)


@reducing(_some, reduce.ReduceL1Op)
def _l1(w: VectorWriter, x: Arg, over: Sequence[str], n: int) -> Arg:
    return w.reduce("vrsum", w.unary("vabs", x), over)


@reducing(_some, reduce.ReduceSumSquareOp)
def _sum_square(w: VectorWriter, x: Arg, over: Sequence[str], n: int) -> Arg:
    return _sum(w, w.mul(x, x), over, n)


@reducing(_some, reduce.ReduceL2Op)
def _l2(w: VectorWriter, x: Arg, over: Sequence[str], n: int) -> Arg:
    return w.unary("vsqrt", _sum_square(w, x, over, n))


@reducing(_some, reduce.ReduceLogSumOp)
def _log_sum(w: VectorWriter, x: Arg, over: Sequence[str], n: int) -> Arg:
    return w.unary("vln", _sum(w, x, over, n))


@reducing(_some, reduce.ReduceLogSumExpOp)
def _log_sum_exp(w: VectorWriter, x: Arg, over: Sequence[str], n: int) -> Arg:
    x = _tile(w, x)
    # An infinite one less itself would be no number.
    lowest, highest = map(float, finite_range(x.dtype.numpy))
    largest = w.minimum(w.maximum(w.reduce("vrmax", x, over), lowest), highest)
    total = w.reduce("vrsum", w.exp(w.sub(x, largest)), over)
    return w.add(w.unary("vln", total), largest)


def _place(best: str) -> Callable[..., Arg]:
    """Where the elements equal the `best` one, their places; of these the first or the last."""

    def write(
        w: VectorWriter, x: Arg, over: Sequence[str], n: int, *, select_last_index: bool
    ) -> Arg:
        x = _tile(w, x)
        if not w.sorted(over):
            return 0.0
        places = w.count(over[0])
        if x.dtype.is_float:
            # What is not a number is the best one in the first place and never in others.
            top = inf if best == "vrmax" else -inf
            ends = w.select(w.compare("eq", places, 0.0), w.fill(top, (), x.dtype), -top)
            x = w.select(w.compare("eq", x, x), x, ends)
        found = w.compare("eq", x, w.reduce(best, x, over))
        if select_last_index:
            return w.reduce("vrmax", w.select(found, places, -1.0), over)
        return w.reduce("vrmin", w.select(found, places, float(n)), over)

    return write


REDUCING[reduce.ArgMaxOp] = Row(_one, _place("vrmax"))
REDUCING[reduce.ArgMinOp] = Row(_one, _place("vrmin"))
