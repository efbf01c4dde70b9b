"""`turn-halves`: rotary positions written out are computed half by half, none of which is moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.base import shape_of
from ge.dialects.graph.ops.binary import AddOp, MulOp, SubOp
from ge.dialects.graph.ops.layout import ConcatOp, SliceOp
from ge.dialects.graph.ops.unary import NegOp
from ge.lowering.matching import only, pair
from ge.lowering.rewriting import Here, Rules, rewrite


@dataclass(frozen=True)
class TurnHalvesPass(ModulePass):
    """Turn the halves of rows by angles where they lie, as rotary positions do.

    [a b] * c + [-b a] * s -> [a * c1 - b * s1, b * c2 + a * s2]
    """

    name = "turn-halves"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, RULES)


class _Window(NamedTuple):
    """Which elements of a tensor's rows a value is."""

    base: SSAValue
    start: int
    end: int


def _turned(here: Here, op: AddOp) -> SSAValue | None:
    for kept, moved in pair(op):
        first, then = only(kept, MulOp), only(moved, MulOp)
        if first is None or then is None:
            continue
        for x, cosines in pair(first):
            for halves, sines in pair(then):
                if x.type == halves.type == op.out.type and (ends := _halves(x, halves)):
                    return _apart(here, ends, cosines, sines)
    return None


def _halves(x: SSAValue, moved: SSAValue) -> tuple[SSAValue, SSAValue] | None:
    """The halves of x if `moved` is the second one, its sign changed, and the first."""
    both = only(moved, ConcatOp)
    last = len(shape_of(moved)) - 1
    if both is None or both.attrs["axis"] % (last + 1) != last or len(both.operands) != 2:
        return None
    negated = only(both.operands[0], NegOp)
    if negated is None:
        return None
    a, b = both.operands[1], negated.x
    low, high, whole = _window(a), _window(b), _window(x)
    inside = (low.base, low.start) == (whole.base, whole.start) and low.end == high.start
    same = high.base is whole.base and high.end == whole.end
    return (a, b) if inside and same and a.type == b.type else None


def _window(value: SSAValue) -> _Window:
    owner, shape = value.owner, shape_of(value)
    last = len(shape) - 1
    if not isinstance(owner, SliceOp) or owner.attrs["steps"] != (1,):
        return _Window(value, 0, shape[-1])
    if owner.attrs["axes"][0] % len(shape) != last:
        return _Window(value, 0, shape[-1])
    around = _window(owner.x)
    taken = slice(owner.attrs["starts"][0], owner.attrs["ends"][0])
    start = around.start + taken.indices(shape_of(owner.x)[-1])[0]
    return _Window(around.base, start, start + shape[-1])


def _apart(
    here: Here, halves: tuple[SSAValue, SSAValue], cosines: SSAValue, sines: SSAValue
) -> SSAValue:
    (a, b), wide = halves, shape_of(halves[0])[-1]
    c1, c2 = (_part(here, cosines, i * wide, wide) for i in range(2))
    s1, s2 = (_part(here, sines, i * wide, wide) for i in range(2))
    ends = [
        here.make(kind, here.make(MulOp, own, c), here.make(MulOp, other, s))
        for kind, own, c, other, s in ((SubOp, a, c1, b, s1), (AddOp, b, c2, a, s2))
    ]
    return here.make(ConcatOp, *ends, axis=len(shape_of(a)) - 1)


def _part(here: Here, x: SSAValue, start: int, wide: int) -> SSAValue:
    """A half of what is as wide as both; what is the same for all stays."""
    rank = len(shape_of(x))
    if not rank or shape_of(x)[-1] == 1:
        return x
    ends = (start + wide,)
    return here.make(SliceOp, x, starts=(start,), ends=ends, axes=(rank - 1,), steps=(1,))


RULES: Rules = {AddOp: [_turned]}
