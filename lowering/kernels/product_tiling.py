"""Tile sizes for a product: blocks that fill the cores, ranked by their busiest unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil, inf, prod

from ge.dialects.npu.geometry import lines
from ge.dialects.npu.isa.cube import CUBE
from ge.dialects.npu.places import Space
from ge.dialects.npu.target import Target
from ge.lowering.kernels.description import Description, Operand
from ge.lowering.kernels.product_cost import cut, in_order, multiply
from ge.lowering.kernels.tiling import Candidate, Pairs, Tiling, filled
from ge.lowering.kernels.vector_cost import VectorCost

Sizes = dict[str, int]
Chunks = tuple[tuple[int, tuple[str, int]], ...]

ACC_BYTES = 4
UB_SHARE = 0.9
"""How much of the vector memory a first guess may fill: sizes are rounded up later."""
DEPTHS = (256, 128, 64, 32, 16)
"""Steps of a sum in the small memories; the largest that fits twice has the fewest steps."""
STAGED = (8, 4, 2, 1)
"""Steps of the small memories that one load brings into `l1`."""
NEAR = 1.1
"""How far above the best bound a plan may lie that is still worth a look."""
TURNS = (2, 4, 8, 16)
"""Tiles that a kept operand stays for."""
BLOCK_CYCLES = 400
"""What a block costs that nothing hides: the first loads and the last store."""
EXTENTS = (1, 2, 4, 7, 8, 14, 16, 28, 32, 48, 56, 64, 96, 112, 128, 160, 192, 256, 384, 512)
AREAS = (16, 32, 48, 64, 96, 128, 176, 192, 256, 384, 512)
"""Rows or columns of a block, all their dimensions together."""


def product_tilings(d: Description, target: Target) -> Iterator[Candidate]:
    """Tilings to try, best first."""
    product_ = _Product(d, target)
    for cycles, _, plan in product_.ranked():
        yield Candidate(product_.tiling(plan), cycles)


def shortest(d: Description, target: Target) -> float:
    """Cycles that a product takes at least, under the best of its tilings."""
    moved = sum(o.bytes for o in (*d.operands, *d.results))
    busiest = min((cycles for cycles, _, _ in _Product(d, target).ranked()), default=inf)
    return max(busiest, moved / target.bytes_per_cycle("hbm"))


@dataclass(frozen=True)
class _Steps:
    """A step of a sum in the small memories, and what `l1` may hold of it, from large to small."""

    small: Sizes
    larger: list[Sizes]


@dataclass(frozen=True)
class _Plan:
    """A tile of the result, how its sum is cut, and which operand stays for several tiles."""

    tile: Sizes
    small: Sizes
    large: Sizes
    kept: str = ""
    cut: str = ""
    """The dimension along which those tiles follow each other."""
    turns: int = 1

    @property
    def block(self) -> Sizes:
        """What a core works on without a pause: all tiles that the kept operand stays for."""
        wide = {self.cut: self.tile[self.cut] * self.turns} if self.cut else {}
        return {**self.tile, **wide}


class _Product:
    """The matrix statement of a kernel, with what a tiling needs to know of it."""

    def __init__(self, d: Description, target: Target) -> None:
        self.d = d
        self.target = target
        self.statement = d.matrices[0]
        operands = {o.name: o for o in d.operands}
        self.left, self.right = operands[self.statement.a], operands[self.statement.b]
        self.bytes = self.left.dtype.bytes
        self.over = self.statement.over
        dims = dict(d.values)[self.statement.out].dims
        left, right = self.left.dims, self.right.dims
        self.batch = tuple(x for x in dims if x in left and x in right)
        self.rows = tuple(x for x in dims if x in left and x not in self.batch)
        self.columns = tuple(x for x in dims if x not in left)
        self.vectors = VectorCost(d, target)
        self.dims = {o.name: o.dims for o in (self.left, self.right)}
        self.moved: dict[tuple[str, tuple[int, ...]], tuple[int, int]] = {}
        """Bytes and rows of a box of an operand."""

    def ranked(self) -> list[tuple[float, int, _Plan]]:
        """Plans with their bounds, the best one first."""
        found: list[tuple[float, int, _Plan]] = []
        best, cuts = inf, self.cuts()
        sides = product(self.tiles(self.rows), self.tiles(self.columns))
        tiles = [
            {**dict.fromkeys(self.batch, 1), **dict(rows), **dict(columns)}
            for rows, columns in sides
        ]
        # Large ones first: they are mostly better, and what cannot be near the best is left out.
        for tile in sorted(tiles, key=lambda t: -prod(t.values())):
            for way in cuts:
                steps = next((s for s in way if self.fits(tile, s.small)), None)
                if steps is None:
                    continue
                each, last = self.tile_cycles(tile, steps.small)
                if self.waves(tile)[0] * each + last > NEAR * best:
                    continue
                for plan in self.plans(tile, steps):
                    found.append((self.bound(plan, each, last), len(found), plan))
                    best = min(best, found[-1][0])
        return sorted(found, key=lambda r: r[:2])

    def tiles(self, dims: tuple[str, ...]) -> list[Pairs]:
        """Tiles of the rows or columns of a product: the innermost extents are varied."""
        if not dims:
            return [()]
        found: dict[Pairs, None] = {}
        *outer, inner = dims
        extent = self.d.extents[inner]
        for most in AREAS:
            for n in sorted({min(e, extent) for e in EXTENTS if e <= most} | {min(extent, most)}):
                if n * 4 >= min(most, extent):
                    outside = filled(self.d.extents, tuple(outer), max(1, most // n))
                    found[(*outside, (inner, n))] = None
        return list(found)

    def cuts(self) -> list[list[_Steps]]:
        """Ways to cut the sum, each from deep to shallow.

        One takes the innermost dimensions whole. The other walks them place by place and takes
        more of the outermost, whose steps come out even where a window has an odd number of places.
        """
        extents = self.d.extents
        whole = []
        for depth in DEPTHS:
            larger = [dict(filled(extents, self.over, depth * factor)) for factor in STAGED]
            whole.append(_Steps(dict(filled(extents, self.over, depth)), larger))
        first, *inner = self.over
        if not inner or extents[first] < CUBE:
            return [whole]
        apart = []
        for depth in DEPTHS:
            rest = {x: extents[x] for x in inner}
            larger = [{first: min(depth * f, extents[first]), **rest} for f in STAGED]
            small = {first: min(depth, extents[first]), **dict.fromkeys(inner, 1)}
            apart.append(_Steps(small, larger))
        return [whole, apart]

    def fits(self, tile: Sizes, small: Sizes) -> bool:
        """Whether the accumulators fit, and twice the operands of a step."""
        have, k = self.target.bytes_of, prod(small.values())
        m, n = self.sides(tile)
        return (
            m * n * ACC_BYTES <= have[Space.L0C]
            and 2 * m * k * self.bytes <= have[Space.L0A]
            and 2 * n * k * self.bytes <= have[Space.L0B]
        )

    def sides(self, tile: Sizes) -> tuple[int, int]:
        """Rows and columns of a tile."""
        return prod(tile[x] for x in self.rows), prod(tile[x] for x in self.columns)

    def plans(self, tile: Sizes, steps: _Steps) -> Iterator[_Plan]:
        """Both operands loaded for every tile; or one kept for several tiles in a row."""
        room, extents = self.target.bytes_of[Space.L1], self.d.extents
        for large in steps.larger:
            sizes = {**extents, **tile, **large}
            if 2 * sum(self.box(o, sizes) for o in (self.left, self.right)) <= room:
                yield _Plan(tile, steps.small, large)
                break
        else:
            return
        for kept, other, moving in (
            (self.left, self.right, self.columns),
            (self.right, self.left, self.rows),
        ):
            panel = self.box(kept, {**extents, **tile})
            cut = next((x for x in reversed(moving) if tile[x] < extents[x]), None)
            if cut is None:
                continue
            for large in steps.larger:
                if 2 * panel + 2 * self.box(other, {**extents, **tile, **large}) <= room:
                    most = ceil(extents[cut] / tile[cut])
                    for turns in TURNS:
                        if turns <= most:
                            yield _Plan(tile, steps.small, large, kept.name, cut, turns)
                    break

    def box(self, operand: Operand, sizes: Sizes) -> int:
        """Bytes of what an operand's tile spans."""
        return prod(axis.extent(sizes) for axis in operand.axes) * self.bytes

    def tiling(self, plan: _Plan) -> Tiling:
        """The loops of a plan."""
        extents, large = self.d.extents, plan.large
        outer = [(x, large[x]) for x in self.over if large[x] < extents[x]]
        inner = [(x, plan.small[x]) for x in self.over if plan.small[x] < large[x]]
        at = f"{self.statement.out}_{outer[-1][0]}{outer[-1][1]}" if outer else ""
        names = (self.left.name, self.right.name)
        chunks = self.chunks(plan.tile)
        m, n = self.sides(plan.tile)
        return Tiling(
            in_order(self.d, self.target, (self.left, self.right), plan.block),
            inner=((plan.cut, plan.tile[plan.cut]),) if plan.turns > 1 else (),
            nests=((self.statement.out, (*outer, *inner)),),
            loads=tuple((name, "" if name == plan.kept else at) for name in names),
            chunks=chunks,
            final_stage=self.epilogue_stage(m * n, plan.tile, chunks),
        )

    def epilogue_stage(self, elements: int, block: Sizes, chunks: Chunks) -> int:
        """1 where the epilogue runs a block behind: it would fill the vector unit's queue."""
        twice = 2 * elements * ACC_BYTES <= self.target.bytes_of[Space.L0C]
        parts = max((ceil(block[dim] / n) for _, (dim, n) in chunks), default=1)
        entries = parts * sum(len(v.steps) for v in self.d.final)
        return int(twice and entries > self.target.queue_depth // 2)

    def chunks(self, block: Sizes) -> Chunks:
        """Cut the epilogue's tile along its rows so that two copies of everything fit."""
        if not self.d.final:
            return ()
        cut = max(self.rows or self.columns, key=lambda x: block[x])
        live = 8 + sum(1 for o in self.d.operands if o.name.startswith("x"))
        tile = prod(block[x] for x in (*self.rows, *self.columns)) * ACC_BYTES * live
        parts = max(1, ceil(tile / int(self.target.bytes_of[Space.UB] * UB_SHARE)))
        return ((0, (cut, max(1, block[cut] // parts))),)

    # What a plan takes.

    def tile_cycles(self, tile: Sizes, small: Sizes) -> tuple[float, float]:
        """Cycles of a tile's busiest unit, loads left out; and of its way out alone."""
        m, n = self.sides(tile)
        k = prod(small.values())
        steps = prod(ceil(self.d.extents[x] / small[x]) for x in self.over)
        out = m * n * ACC_BYTES / self.target.rate("l0c_ub", "").bytes_per_cycle + 35
        vector = self.vectors.cycles(self.d.final, tile)
        # With one copy of the accumulators the next product waits for this one's epilogue.
        single = 2 * m * n * ACC_BYTES > self.target.bytes_of[Space.L0C]
        alone = max(out, vector) if single else 0.0
        dtype = self.left.dtype
        cube = steps * multiply(self.target, dtype, m, n, k) + alone
        return max(cube, steps * cut(self.target, dtype, m, n, k), out, vector), out + vector

    def waves(self, block: Sizes) -> tuple[int, int]:
        """Blocks of the busiest core, and the cores that work at once."""
        blocks = prod(ceil(self.d.extents[x] / size) for x, size in block.items())
        return ceil(blocks / self.target.cores), min(blocks, self.target.cores)

    def bound(self, plan: _Plan, each: float, last: float) -> float:
        """Cycles of the busiest unit of one core, for all its blocks.

        `each` and `last` are those of its tiles. Nothing hides the first loads, nor the last tile's
        way out.
        """
        loaded, moved, first = self.loads(plan)
        waves, cores = self.waves(plan.block)
        shared = moved * cores / self.target.bytes_per_cycle("l2_read")
        burst = self.target.limits["l2_read"].credit_cycles
        busy = waves * (plan.turns * max(each, loaded) + BLOCK_CYCLES)
        through = waves * (plan.turns * shared + BLOCK_CYCLES) - burst
        return first + max(busy, through) + last

    def lines(self, o: Operand, sizes: Sizes) -> tuple[int, int]:
        """Bytes and rows of the box of an operand that lies inside it."""
        spans = (axis.extent(sizes) for axis in o.axes)
        box = tuple(min(span, n) for span, n in zip(spans, o.shape, strict=True))
        key = (o.name, box)
        if key not in self.moved:
            some = lines(box, o.strides, o.dtype.bytes) if box else (o.dtype.bytes, 1)
            self.moved[key] = some
        return self.moved[key]

    def loads(self, plan: _Plan) -> tuple[float, float, float]:
        """Cycles of a tile's loads into `l1`, the bytes they move, and cycles of the first ones.

        What is kept counts less.
        """
        rate = self.target.rate("gm_l1", "")
        cycles = bytes_ = first = 0.0
        for o in (self.left, self.right):
            kept = o.name == plan.kept
            sizes = {**self.d.extents, **plan.tile, **({} if kept else plan.large)}
            dims = self.dims[o.name]
            times = prod(ceil(self.d.extents[x] / sizes[x]) for x in self.over if x in dims)
            moved, rows = self.lines(o, sizes)
            each = max(rate.issue + rows * rate.row, moved / rate.bytes_per_cycle)
            share = times / plan.turns if kept else times
            # The first ones come from device memory, whose rows are slower.
            row = rate.row if rate.row_miss is None else rate.row_miss
            first += rate.start + max(rate.issue + rows * row, moved / rate.bytes_per_cycle)
            cycles += share * (rate.start + each)
            bytes_ += share * moved
        return cycles, bytes_, first
