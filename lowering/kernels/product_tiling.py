"""Tile sizes for a product: plans that fill the cores, as loops."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, prod

from ge.dialects.npu.places import Space
from ge.dialects.npu.target import Target
from ge.lowering.kernels.description import Description
from ge.lowering.kernels.product_cost import in_order
from ge.lowering.kernels.product_plans import ACC_BYTES, Plan, ProductPlans, Sizes
from ge.lowering.kernels.tiling import Candidate, Tiling

Chunks = tuple[tuple[int, tuple[str, int]], ...]

UB_SHARE = 0.9
"""How much of the vector memory a first guess may fill: sizes are rounded up later."""


def product_tilings(d: Description, target: Target) -> Iterator[Candidate]:
    """Tilings to try, best first."""
    plans = ProductPlans(d, target)
    for cycles, plan in plans.ranked():
        yield Candidate(_tiling(plans, plan), cycles)


def shortest(d: Description, target: Target) -> float:
    """Cycles that a product takes at least, under the best of its tilings."""
    moved = sum(o.bytes for o in (*d.operands, *d.results))
    return max(ProductPlans(d, target).best, moved / target.bytes_per_cycle("hbm"))


def _tiling(product: ProductPlans, plan: Plan) -> Tiling:
    """The loops of a plan."""
    extents, large = product.d.extents, plan.large
    outer = [(x, large[x]) for x in product.over if large[x] < extents[x]]
    inner = [(x, plan.small[x]) for x in product.over if plan.small[x] < large[x]]
    out, sides = product.statement.out, (product.left, product.right)
    at = f"{out}_{outer[-1][0]}{outer[-1][1]}" if outer else ""
    chunks = _chunks(product, plan.tile)
    m, n = product.sides(plan.tile)
    return Tiling(
        in_order(product.d, product.target, sides, plan.block),
        inner=((plan.cut, plan.tile[plan.cut]),) if plan.turns > 1 else (),
        nests=((out, (*outer, *inner)),),
        loads=tuple((o.name, "" if o.name == plan.kept else at) for o in sides),
        chunks=chunks,
        final_stage=_epilogue_stage(product, m * n, plan.tile, chunks),
    )


def _epilogue_stage(product: ProductPlans, elements: int, block: Sizes, chunks: Chunks) -> int:
    """1 where the epilogue runs a block behind: it would fill the vector unit's queue."""
    twice = 2 * elements * ACC_BYTES <= product.target.bytes_of[Space.L0C]
    parts = max((ceil(block[dim] / n) for _, (dim, n) in chunks), default=1)
    entries = parts * sum(len(v.steps) for v in product.d.final)
    return int(twice and entries > product.target.queue_depth // 2)


def _chunks(product: ProductPlans, block: Sizes) -> Chunks:
    """Cut the epilogue's tile along its rows so that two copies of everything fit."""
    if not product.d.final:
        return ()
    cut = max(product.rows or product.columns, key=lambda x: block[x])
    live = 8 + sum(1 for o in product.d.operands if o.name.startswith("x"))
    tile = prod(block[x] for x in (*product.rows, *product.columns)) * ACC_BYTES * live
    parts = max(1, ceil(tile / int(product.target.bytes_of[Space.UB] * UB_SHARE)))
    return ((0, (cut, max(1, block[cut] // parts))),)
