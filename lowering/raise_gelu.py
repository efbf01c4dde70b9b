"""raise-gelu: `0.5 * x * (1 + erf(x / sqrt(2)))` and its tanh approximation are one operator."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.ops.activation import GeluForm, GeluOp
from ge.dialects.graph.ops.binary import AddOp, DivOp, MulOp
from ge.dialects.graph.ops.trigonometry import TanhOp
from ge.dialects.graph.ops.unary import ErfOp
from ge.lowering.matching import between, factors, is_polynomial, near, number_of, only, pair
from ge.lowering.rewriting import Here, Rules, rewrite

ERF = {1: sqrt(0.5)}
TANH = {1: sqrt(2 / pi), 3: sqrt(2 / pi) * 0.044715}
FORMS = ((ErfOp, ERF, GeluForm.NONE), (TanhOp, TANH, GeluForm.TANH))


@dataclass(frozen=True)
class RaiseGeluPass(ModulePass):
    """Raise a GELU that an exporter wrote out, by erf or by tanh."""

    name = "raise-gelu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, RULES)


def _gelu(here: Here, op: MulOp | DivOp) -> SSAValue | None:
    """0.5 * x * (1 + f(p(x))) in any order, with f and p those of one of the forms"""
    number, rest, inside = factors(op)
    if len(rest) != 2 or not near(number, 0.5):
        return None
    for x, share in (rest, rest[::-1]):
        add = only(share, AddOp)
        if add is None or x.type != op.out.type:
            continue
        for value, one in pair(add):
            for cls, formula, form in FORMS:
                f = only(value, cls)
                if f is not None and near(number_of(one), 1) and is_polynomial(f.x, x, formula):
                    absorbs = [*between(f.x, x), value, share, *inside]
                    return here.make(GeluOp, x, absorbs=absorbs, approximate=form)
    return None


RULES: Rules = {MulOp: [_gelu], DivOp: [_gelu]}
