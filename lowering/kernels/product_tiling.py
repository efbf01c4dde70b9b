"""Tile sizes for a product: blocks that fill the cores, ranked by their busiest unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import ceil, inf, prod

from ge.dialects.npu.geometry import lines
from ge.dialects.npu.places import Space
from ge.dialects.npu.target import Target
from ge.lowering.kernels.description import Description, Operand
from ge.lowering.kernels.tiling import Pairs, Tiling, filled
from ge.lowering.kernels.vector_cost import VectorCost

Sizes = dict[str, int]
Chunks = tuple[tuple[int, tuple[str, int]], ...]

ACC_BYTES = 4
CUBE = 16
UB_SHARE = 0.9
"""How much of the vector memory a first guess may fill: sizes are rounded up later."""
DEPTHS = (256, 128, 64, 32, 16)
"""Steps of a sum in the small memories; the largest that fits twice has the fewest steps."""
STAGED = (8, 4, 2, 1)
"""Steps of the small memories that one load brings into `l1`."""
BLOCK_CYCLES = 400
"""What a block costs that nothing hides: the first loads and the last store."""
EXTENTS = (1, 2, 4, 7, 8, 14, 16, 28, 32, 48, 56, 64, 96, 112, 128, 160, 192, 256, 384, 512)
AREAS = (16, 32, 48, 64, 96, 128, 176, 192, 256, 384, 512)
"""Rows or columns of a block, all their dimensions together."""


def product_tilings(d: Description, target: Target) -> Iterator[Tiling]:
    """Tilings to try, best first."""
    for _, _, tiling in _Product(d, target).ranked():
        yield tiling


def shortest(d: Description, target: Target) -> float:
    """Cycles that a product takes at least, under the best of its tilings."""
    moved = sum(o.bytes for o in (*d.operands, *d.results))
    busiest = min((cycles for cycles, _, _ in _Product(d, target).ranked()), default=inf)
    return max(busiest, moved / target.bytes_per_cycle("hbm"))


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

    def ranked(self) -> list[tuple[float, int, Tiling]]:
        """Tilings with their bounds, the best one first."""
        found: list[tuple[float, int, Tiling]] = []
        for rows, columns in product(self.tiles(self.rows), self.tiles(self.columns)):
            block = {**dict.fromkeys(self.batch, 1), **dict(rows), **dict(columns)}
            for cut in self.cuts():
                choices = (self.nested(block, *sizes) for sizes in cut)
                if (choice := next(filter(None, choices), None)) is not None:
                    found.append((choice[0], len(found), choice[1]))
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

    def cuts(self) -> list[list[tuple[Sizes, list[Sizes]]]]:
        """Ways to cut the sum: each from deep to shallow, a step with what is loaded for it.

        One takes the innermost dimensions whole. The other walks them place by place and takes
        more of the outermost, whose steps come out even where a window has an odd number of places.
        """
        extents = self.d.extents
        whole = [
            (
                dict(filled(extents, self.over, depth)),
                [dict(filled(extents, self.over, depth * factor)) for factor in STAGED],
            )
            for depth in DEPTHS
        ]
        first, *inner = self.over
        if not inner or extents[first] < CUBE:
            return [whole]
        ones, all_ = dict.fromkeys(inner, 1), {x: extents[x] for x in inner}
        apart = [
            (
                {first: min(depth, extents[first]), **ones},
                [{first: min(depth * factor, extents[first]), **all_} for factor in STAGED],
            )
            for depth in DEPTHS
        ]
        return [whole, apart]

    def nested(
        self, block: Sizes, small: Sizes, larger: list[Sizes]
    ) -> tuple[float, Tiling] | None:
        """The loops of a block with steps of `small` in the small memories, and its bound."""
        have, extents = self.target.bytes_of, self.d.extents
        m, n = (prod(block[x] for x in dims) for dims in (self.rows, self.columns))
        k = prod(small.values())
        fits = (
            m * n * ACC_BYTES <= have[Space.L0C]
            and 2 * m * k * self.bytes <= have[Space.L0A]
            and 2 * n * k * self.bytes <= have[Space.L0B]
        )
        if not fits:
            return None
        for large in larger:
            sizes = {**extents, **block, **large}
            staged = 2 * sum(_box(o, sizes) * self.bytes for o in (self.left, self.right))
            if staged <= have[Space.L1]:
                break
        else:
            return None
        outer = [(x, large[x]) for x in self.over if large[x] < extents[x]]
        inner = [(x, small[x]) for x in self.over if small[x] < large[x]]
        at = f"{self.statement.out}_{outer[-1][0]}{outer[-1][1]}" if outer else ""
        chunks = self.chunks(block)
        tiling = Tiling(
            tuple(block.items()),
            nests=((self.statement.out, (*outer, *inner)),),
            loads=((self.left.name, at), (self.right.name, at)),
            chunks=chunks,
            final_stage=self.epilogue_stage(m * n, block, chunks),
        )
        return self.bound(block, (m, n), small, sizes), tiling

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

    # What a block takes.

    def bound(
        self, block: Sizes, tile: tuple[int, int], small: Sizes, sizes: Mapping[str, int]
    ) -> float:
        """Cycles of the busiest unit of one core, for all its blocks."""
        m, n = tile
        k = prod(small.values())
        target = self.target
        blocks = prod(ceil(self.d.extents[x] / block[x]) for x in block)
        steps = prod(ceil(self.d.extents[x] / small[x]) for x in self.over)
        cube = steps * self.multiply(m, n, k)
        loaded, moved = self.loads(sizes)
        shared = moved * min(blocks, target.cores) / target.bytes_per_cycle("l2_read")
        out = m * n * ACC_BYTES / target.rate("l0c_ub", "").bytes_per_cycle + 35
        vector = self.vectors.cycles(self.d.final, block)
        # With one copy of the accumulators the next product waits for this one's epilogue.
        single = 2 * m * n * ACC_BYTES > target.bytes_of[Space.L0C]
        alone = max(out, vector) if single else 0.0
        cut = steps * self.cut(m, n, k)
        busiest = max(cube + alone, cut, loaded, shared, out, vector)
        return ceil(blocks / target.cores) * (busiest + BLOCK_CYCLES)

    def multiply(self, m: int, n: int, k: int) -> float:
        """One step in the matrix unit, padded to its cube."""
        rate = self.target.rate("mmad", self.left.dtype.name)
        cubes = ceil(m / CUBE) * ceil(n / CUBE) * ceil(k * self.bytes / 32)
        return rate.start + rate.item * cubes

    def cut(self, m: int, n: int, k: int) -> float:
        """One step's tiles on their way from `l1`."""
        left, right = (self.target.rate(name, "") for name in ("l1_l0a", "l1_l0b"))
        moved = m / left.bytes_per_cycle + n / right.bytes_per_cycle
        return left.start + right.start + moved * k * self.bytes

    def loads(self, sizes: Mapping[str, int]) -> tuple[float, float]:
        """Cycles of all loads of a block into `l1`, and the bytes they move."""
        rate = self.target.rate("gm_l1", "")
        cycles = bytes_ = 0.0
        for o in (self.left, self.right):
            times = prod(ceil(self.d.extents[x] / sizes[x]) for x in self.over if x in o.dims)
            spans = (axis.extent(dict(sizes)) for axis in o.axes)
            box = tuple(min(span, n) for span, n in zip(spans, o.shape, strict=True))
            moved, rows = lines(box, o.strides, o.dtype.bytes) if box else (o.dtype.bytes, 1)
            each = max(rate.issue + rows * rate.row, moved / rate.bytes_per_cycle)
            cycles += times * (rate.start + each)
            bytes_ += times * moved
        return cycles, bytes_


def _box(operand: Operand, sizes: Mapping[str, int]) -> int:
    return prod(axis.extent(dict(sizes)) for axis in operand.axes)
