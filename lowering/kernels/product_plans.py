"""The plans of a product, ranked by their busiest unit: all of them are priced at once.

Sizes are arrays here, a row for each tile; a second axis holds the steps that are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ge.dialects.npu.geometry import lines
from ge.dialects.npu.isa.cube import CUBE
from ge.dialects.npu.places import Space
from ge.dialects.npu.target import Target
from ge.lowering.kernels.description import Description, Operand
from ge.lowering.kernels.product_cost import cut, multiply
from ge.lowering.kernels.tiling import Pairs, filled
from ge.lowering.kernels.vector_cost import VectorCost

Sizes = dict[str, int]
Array = NDArray[Any]
Arrays = dict[str, Any]
"""Sizes of many tiles; those that all share may be numbers."""

ACC_BYTES = 4
DEPTHS = (256, 128, 64, 32, 16)
"""Steps of a sum in the small memories; the largest that fits twice has the fewest steps."""
STAGED = (8, 4, 2, 1)
"""Steps of the small memories that one load brings into `l1`."""
TURNS = (2, 4, 8, 16)
"""Tiles that a kept operand stays for."""
BLOCK_CYCLES = 400
"""What a block costs that nothing hides: the first loads and the last store."""
EXTENTS = (1, 2, 4, 7, 8, 14, 16, 28, 32, 48, 56, 64, 96, 112, 128, 160, 192, 256, 384, 512)
AREAS = (16, 32, 48, 64, 96, 128, 176, 192, 256, 384, 512)
"""Rows or columns of a block, all their dimensions together."""


@dataclass(frozen=True)
class Plan:
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


@dataclass(frozen=True)
class _Steps:
    """A step of a sum in the small memories, and what `l1` may hold of it, from large to small."""

    small: Sizes
    larger: list[Sizes]


@dataclass(frozen=True)
class _Alike:
    """Plans with the same cut of the sum and the same kept operand, one for each tile."""

    bounds: Array
    """Infinite where there is none."""
    small: Arrays
    large: Arrays
    kept: str = ""
    moving: tuple[str, ...] = ()
    """The dimensions that what is kept may stay along."""
    turns: int = 1


@dataclass(frozen=True)
class _Load:
    """What an operand of a tile takes: how often, its bytes, and cycles of each and the first."""

    times: Any
    moved: Array
    each: Array
    first: Array


class ProductPlans:
    """The matrix statement of a kernel, and the ways to tile it."""

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
        self.known: dict[tuple[str, int], tuple[int, int]] = {}
        """Bytes and rows of boxes of the operands."""

    def ranked(self) -> Iterator[tuple[float, Plan]]:
        """Plans with their bounds, the best one first."""
        bounds = np.concatenate([a.bounds for a in self.plans], axis=1)
        width = bounds.shape[1]
        for place in np.argsort(bounds, axis=None, kind="stable"):
            row, column = divmod(int(place), width)
            if bounds[row, column] == inf:
                return
            yield float(bounds[row, column]), self.plan(self.plans[column], row)

    @property
    def best(self) -> float:
        """The least bound of all; infinite if nothing fits."""
        return min((float(a.bounds.min()) for a in self.plans), default=inf)

    def plan(self, alike: _Alike, row: int) -> Plan:
        """That of one tile."""
        tile, small, large = (
            {x: int(n[row, 0]) for x, n in sizes.items()}
            for sizes in (self.tiles, alike.small, alike.large)
        )
        if not alike.kept:
            return Plan(tile, small, large)
        cut_ = next(x for x in alike.moving if tile[x] < self.d.extents[x])
        return Plan(tile, small, large, alike.kept, cut_, alike.turns)

    def sides(self, tile: Arrays) -> tuple[Any, Any]:
        """Rows and columns of a tile."""
        return prod(tile[x] for x in self.rows), prod(tile[x] for x in self.columns)

    @cached_property
    def tiles(self) -> Arrays:
        """Tiles of the result, large ones first: where bounds are equal these are better."""
        rows, columns = self.side_tiles(self.rows), self.side_tiles(self.columns)
        ones = np.ones(len(rows) * len(columns), np.int64)
        found = dict.fromkeys(self.batch, ones)
        for number, x in enumerate(self.rows):
            found[x] = np.repeat([tile[number][1] for tile in rows], len(columns))
        for number, x in enumerate(self.columns):
            found[x] = np.tile([tile[number][1] for tile in columns], len(rows))
        order = np.argsort(-prod(found.values(), start=ones), kind="stable")
        return {x: n[order, None] for x, n in found.items()}

    def side_tiles(self, dims: tuple[str, ...]) -> list[Pairs]:
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

    @cached_property
    def plans(self) -> list[_Alike]:
        """All plans: the sum cut in each way, as deep as the small memories have room for."""
        found: list[_Alike] = []
        for way in self.cuts():
            depths = {x: np.array([[s.small[x] for s in way]]) for x in self.over}
            at, deep = _first(self.fits(depths))
            small = {x: n[0, at] for x, n in depths.items()}
            larger = {
                x: np.array([[large[x] for large in s.larger] for s in way])[at[:, 0]]
                for x in self.over
            }
            found += self.alike(small, larger, deep)
        return found

    def fits(self, small: Arrays) -> Array:
        """Whether the accumulators fit, and twice the operands of a step."""
        have, k = self.target.bytes_of, prod(small.values())
        m, n = self.sides(self.tiles)
        found: Array = (
            (m * n * ACC_BYTES <= have[Space.L0C])
            & (2 * m * k * self.bytes <= have[Space.L0A])
            & (2 * n * k * self.bytes <= have[Space.L0B])
        )
        return found

    def alike(self, small: Arrays, larger: Arrays, deep: Array) -> Iterator[_Alike]:
        """Both operands loaded for every tile; or one kept for several tiles in a row."""
        room, extents, tiles = self.target.bytes_of[Space.L1], self.d.extents, self.tiles
        sizes = {**extents, **tiles, **larger}
        stage, fit = _first(2 * (self.box(self.left, sizes) + self.box(self.right, sizes)) <= room)
        large, possible = _at(larger, stage), deep & fit
        cycles = self.tile_cycles(small)
        loads = [self.load(o, {**extents, **tiles, **large}) for o in (self.left, self.right)]
        bounds = self.bounds(loads, ("", 1), tiles, cycles)
        yield _Alike(np.where(possible, bounds, inf), small, large)
        for kept, other, inner_last in (
            (self.left, self.right, self.columns),
            (self.right, self.left, self.rows),
        ):
            moving = inner_last[::-1]
            panel = 2 * self.box(kept, {**extents, **tiles})
            stage, fit = _first(panel + 2 * self.box(other, sizes) <= room)
            large = _at(larger, stage)
            loads = [
                self.load(o, {**extents, **tiles, **(large if o is other else {})})
                for o in (self.left, self.right)
            ]
            for turns in TURNS:
                block, enough = self.blocks(moving, turns)
                bounds = self.bounds(loads, (kept.name, turns), block, cycles)
                bounds = np.where(possible & fit & enough, bounds, inf)
                yield _Alike(bounds, small, large, kept.name, moving, turns)

    def blocks(self, moving: tuple[str, ...], turns: int) -> tuple[Arrays, Array]:
        """The tiles in a row as one, and where there are as many as that.

        They follow each other along the first dimension that is cut.
        """
        block, enough = dict(self.tiles), np.zeros((1, 1), bool)
        whole = np.ones((1, 1), bool)
        for x in moving:
            n, extent = self.tiles[x], self.d.extents[x]
            here = whole & (n < extent)
            block[x] = np.where(here, n * turns, n)
            enough = enough | (here & (turns <= -(-extent // n)))
            whole = whole & ~here
        return block, enough

    def box(self, operand: Operand, sizes: Arrays) -> Any:
        """Bytes of what an operand's tile spans."""
        return prod(axis.extent(sizes) for axis in operand.axes) * self.bytes

    # What a plan takes.

    @cached_property
    def epilogue(self) -> Any:
        """Cycles that the vector unit takes for a tile, however its sum is cut."""
        return VectorCost(self.d, self.target).cycles(self.d.final, self.tiles)

    def tile_cycles(self, small: Arrays) -> tuple[Array, Array]:
        """Cycles of a tile's busiest unit, loads left out; and of its way out alone."""
        m, n = self.sides(self.tiles)
        k = prod(small.values())
        steps = prod(-(-self.d.extents[x] // small[x]) for x in self.over)
        out = m * n * ACC_BYTES / self.target.rate("l0c_ub", "").bytes_per_cycle + 35
        vector = self.epilogue
        # With one copy of the accumulators the next product waits for this one's epilogue.
        single = 2 * m * n * ACC_BYTES > self.target.bytes_of[Space.L0C]
        alone = np.where(single, np.maximum(out, vector), 0.0)
        dtype = self.left.dtype
        cube = steps * multiply(self.target, dtype, m, n, k) + alone
        moved = steps * cut(self.target, dtype, m, n, k)
        busiest = np.maximum(np.maximum(cube, moved), np.maximum(out, vector))
        return busiest, out + vector

    def bounds(
        self,
        loads: list[_Load],
        kept: tuple[str, int],
        block: Arrays,
        tile: tuple[Array, Array],
    ) -> Array:
        """Cycles of the busiest unit of one core, for all its blocks.

        `kept` is the operand that stays, and for how many tiles: what is kept counts less. `tile`
        is what tiles take. Nothing hides the first loads, nor the last tile's way out.
        """
        name, turns = kept
        each, last = tile
        loaded = moved = first = np.zeros((1, 1))
        for load, o in zip(loads, (self.left, self.right), strict=True):
            share = load.times / turns if o.name == name else load.times
            loaded = loaded + share * load.each
            moved = moved + share * load.moved
            first = first + load.first
        blocks = prod(-(-self.d.extents[x] // size) for x, size in block.items())
        waves, cores = -(-blocks // self.target.cores), np.minimum(blocks, self.target.cores)
        shared = moved * cores / self.target.bytes_per_cycle("l2_read")
        burst = self.target.limits["l2_read"].credit_cycles
        busy = waves * (turns * np.maximum(each, loaded) + BLOCK_CYCLES)
        through = waves * (turns * shared + BLOCK_CYCLES) - burst
        found: Array = first + np.maximum(busy, through) + last
        return found

    def load(self, o: Operand, sizes: Arrays) -> _Load:
        """What loads of an operand into `l1` take that are as large as these sizes."""
        rate = self.target.rate("gm_l1", "")
        times = prod(-(-self.d.extents[x] // sizes[x]) for x in self.over if x in o.dims)
        moved, rows = self.lines(o, sizes)
        through = moved / rate.bytes_per_cycle
        # The first ones come from device memory, whose rows are slower.
        row = rate.row if rate.row_miss is None else rate.row_miss
        return _Load(
            times,
            moved,
            rate.start + np.maximum(rate.issue + rows * rate.row, through),
            rate.start + np.maximum(rate.issue + rows * row, through),
        )

    def lines(self, o: Operand, sizes: Arrays) -> tuple[Array, Array]:
        """Bytes and rows of the boxes of an operand that lie inside it."""
        key, step = np.zeros((1, 1), np.int64), 1
        for axis, n in zip(o.axes, o.shape, strict=True):
            key = key + (np.minimum(axis.extent(sizes), n) - 1) * step
            step *= n
        keys, places = np.unique(key, return_inverse=True)
        found = np.array([self._lines(o, int(k)) for k in keys])[places.reshape(key.shape)]
        return found[..., 0], found[..., 1]

    def _lines(self, o: Operand, key: int) -> tuple[int, int]:
        """Of the box that a number stands for."""
        found = self.known.get((o.name, key))
        if found is None:
            box, rest = [], key
            for n in o.shape:
                rest, places = divmod(rest, n)
                box.append(places + 1)
            bytes_ = o.dtype.bytes
            found = lines(tuple(box), o.strides, bytes_) if box else (bytes_, 1)
            self.known[o.name, key] = found
        return found


def _first(holds: Array) -> tuple[Array, Array]:
    """The first place along the second axis where something holds, and whether there is one."""
    holds = np.atleast_2d(holds)
    return holds.argmax(1)[:, None], np.any(holds, 1, keepdims=True)


def _at(sizes: Arrays, place: Array) -> Arrays:
    """The sizes at a place of the second axis."""
    return {x: np.take_along_axis(n, place, 1) for x, n in sizes.items()}
