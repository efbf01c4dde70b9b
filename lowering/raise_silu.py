"""raise-silu: `x * sigmoid(x)`, and the same with the straight-line sigmoid, are one operator."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.ops.activation import ClipOp, HardSigmoidOp, HardSwishOp, SigmoidOp, SwishOp
from ge.dialects.graph.ops.binary import DivOp, MulOp
from ge.lowering.matching import between, factors, is_polynomial, near, number_of, only, pair
from ge.lowering.rewriting import Here, Rules, rewrite

SIXTH = 1 / 6
# The sigmoid by straight lines as exporters write it: polynomial, upper bound, factor behind it.
LINES = (({0: 3.0, 1: 1.0}, 6.0, SIXTH), ({0: 0.5, 1: SIXTH}, 1.0, 1.0))


@dataclass(frozen=True)
class RaiseSiluPass(ModulePass):
    """Raise SiLU and hard swish that an exporter wrote out."""

    name = "raise-silu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, RULES)


def _silu(here: Here, op: MulOp) -> SSAValue | None:
    """X * sigmoid(x) -> swish(x); x * hard_sigmoid(x) with slope 1/6 -> hard_swish(x)"""
    for x, share in pair(op):
        soft, hard = only(share, SigmoidOp), only(share, HardSigmoidOp)
        if soft is not None and soft.x is x:
            return here.make(SwishOp, x, absorbs=[share])
        if hard is not None and hard.x is x and _is_sixth(hard):
            return here.make(HardSwishOp, x, absorbs=[share])
    return None


def _is_sixth(op: HardSigmoidOp) -> bool:
    return near(op.attrs["alpha"], SIXTH) and near(op.attrs["beta"], 0.5)


def _lines(here: Here, op: MulOp | DivOp) -> SSAValue | None:
    """X * clip(x + 3, 0, 6) / 6 -> hard_swish(x), in any order"""
    number, rest, inside = factors(op)
    if len(rest) != 2:
        return None
    for x, share in (rest, rest[::-1]):
        clip = only(share, ClipOp)
        if clip is not None and x.type == op.out.type and _is_line(clip, x, number):
            return here.make(HardSwishOp, x, absorbs=[*between(clip.x, x), share, *inside])
    return None


def _is_line(clip: ClipOp, x: SSAValue, number: float) -> bool:
    """Whether `number * clip` is the straight-line sigmoid of x."""
    return number_of(clip.min) == 0 and any(
        near(number, factor) and near(number_of(clip.max), top) and is_polynomial(clip.x, x, line)
        for line, top, factor in LINES
    )


RULES: Rules = {MulOp: [_silu, _lines], DivOp: [_lines]}
