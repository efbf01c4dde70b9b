"""A product whose sum is taken in pieces, which the vector unit adds up in its own memory.

The accumulators bound how large a tile of the result can be, and with it how often each operand is
loaded. The vector memory holds a tile several times as large: its parts go through the
accumulators in turn, each for one piece of the sum.
"""

from __future__ import annotations

from dataclasses import replace

from ge.dialects.npu.axes import Axis
from ge.lowering.kernels.description import (
    Description,
    DimKind,
    HandOver,
    Matrix,
    Operand,
    Step,
    Value,
    Vector,
)
from ge.lowering.kernels.flow import first_tile

TOTAL = "total"
"""The tile that the pieces are added to."""
PIECE, END = range(2)
"""The vector statements, by number: add a piece, and what is done with the sum."""


def in_pieces(d: Description, piece: int, behind: int = 1) -> Description:
    """`acc += a . b; y = f(acc)` as `[acc = a . b; total += acc; last: y = f(total)]`.

    The first `piece` terms are the total themselves. The summed dimension becomes one whose tiles
    follow each other. What is done with the sum runs `behind` parts of a tile behind the products.
    """
    (product,) = d.matrices
    (over,) = product.over
    values = dict(d.values)
    acc = values[product.out]
    values[TOTAL] = acc
    dims = (replace(x, kind=DimKind.SEQUENTIAL) if x.name == over else x for x in d.dims)
    results = d.results
    steps = tuple(_of_total(s, product.out) for v in d.final for s in v.steps)
    if not steps:
        (out,) = d.results
        results, steps = _stored(product, out, acc, values)
    last = Axis(((over, 1),), 2 - d.extents[over])
    first, later = first_tile(over), Axis(((over, 1),), 1 - piece)
    added = Vector((Step("vadd", TOTAL, (TOTAL, product.out)),), stage=1, when=later)
    return replace(
        d,
        dims=tuple(dims),
        results=results,
        body=(
            product,
            HandOver(TOTAL, product.out, stage=1, when=first),
            added,
            Vector(steps, stage=behind, when=last),
        ),
        final=(),
        values=tuple(values.items()),
        carried=(TOTAL,),
    )


def may_be_in_pieces(d: Description) -> bool:
    """Whether a kernel is one product that is summed over one dimension."""
    sums = [m.over for m in d.matrices]
    return len(sums) == 1 and len(sums[0]) == 1 and not d.dims_with(DimKind.SEQUENTIAL)


def _of_total(step: Step, acc: str) -> Step:
    """The step on the sum in place of the accumulators."""

    def named(name: str) -> str:
        return TOTAL if name == acc else name

    return replace(step, out=named(step.out), ins=tuple(map(named, step.ins)))


def _stored(
    product: Matrix, out: Operand, acc: Value, values: dict[str, Value]
) -> tuple[tuple[Operand, ...], tuple[Step, ...]]:
    """The result and the step that makes it, for accumulators that were stored as they are."""
    name = f"{product.out}_out"
    values[name] = Value(acc.dims, out.dtype)
    convert = out.dtype is not acc.dtype
    step = Step("vconv" if convert else "vcopy", name, (TOTAL,), words=("rint",) * convert)
    return (replace(out, name=name),), (step,)
