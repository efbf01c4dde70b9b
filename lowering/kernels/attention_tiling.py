"""Tile sizes for attention: query tiles that fill the cores, ranked by their busiest unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import ceil, prod

from ge.dialects.npu.places import Space
from ge.dialects.npu.target import Target
from ge.lowering.kernels.description import Description, DimKind, Vector
from ge.lowering.kernels.product_cost import cut, multiply
from ge.lowering.kernels.tiling import Candidate, Tiling
from ge.lowering.kernels.vector_cost import VectorCost

KEYS = (128, 96, 64, 48, 32, 16, 8, 4)
MOST_ROWS = 128
PARTS = (1, 2, 4)
"""Into how many pieces the vector unit's tiles may be cut."""
FLAGS = 6
"""Entries of a queue that order a statement's pieces, besides its instructions."""
HAND_OVER = 1500
"""Cycles from one unit to the next and back where they cannot overlap."""
BLOCK_CYCLES = 4500
"""What a block of queries costs beside its tiles of keys: first loads, skew and last store."""
BETWEEN = 2200
"""What it costs where the next block's tiles of keys follow without a gap."""
SHORT = 64
"""Tiles of keys in a block up to which that is worth while."""


def attention_tilings(d: Description, target: Target) -> Iterator[Candidate]:
    """Tilings to try, best first."""
    costs = _Costs(d, target)
    *outer, queries = d.dims_with(DimKind.PARALLEL)
    numbers = range(sum(isinstance(s, Vector) for s in d.statements))
    found = []
    for rows in (costs.rows(), costs.few_rows()):
        for q, kv in product(rows, costs.keys()):
            busiest = costs.busiest(q, kv)
            found += [
                (costs.cycles(q, kv, parts, busiest), -kv, parts, q)
                for parts in PARTS
                if parts <= q and costs.fits(q, kv, parts)
            ]
        if found:
            break
    for cycles, key, parts, q in sorted(found):
        tiling = Tiling(
            (*((x, 1) for x in outer), (queries, q)),
            sequential=-key,
            flows=costs.flows(q, -key),
            chunks=tuple((i, (queries, ceil(q / parts))) for i in numbers) if parts > 1 else (),
        )
        yield Candidate(tiling, cycles)


@dataclass(frozen=True)
class _Costs:
    """What a tile of queries and keys needs and takes."""

    d: Description
    target: Target

    @cached_property
    def vectors(self) -> VectorCost:
        """What the vector statements take."""
        return VectorCost(self.d, self.target)

    @property
    def queries(self) -> str:
        """The dimension of the queries; heads that share their keys may be part of it."""
        return self.d.dims_with(DimKind.PARALLEL)[-1]

    @property
    def heads(self) -> int:
        """Independent attentions: everything parallel but the queries."""
        parallel = self.d.dims_with(DimKind.PARALLEL)
        return prod(self.d.extents[x] for x in parallel if x != self.queries)

    def rows(self) -> list[int]:
        """Sizes of query tiles: as few as cut the rows into so many equal ones."""
        rows = self.d.extents[self.queries]
        fewest = ceil(rows / MOST_ROWS)
        return sorted({ceil(rows / n) for n in range(fewest, 4 * fewest + 9) if n <= rows})

    def few_rows(self) -> list[int]:
        """Sizes for memories that hold none of those."""
        return [q for q in KEYS if q < self.d.extents[self.queries]]

    def keys(self) -> list[int]:
        return sorted({min(kv, self.d.extents["kv"]) for kv in KEYS})

    def fits(self, q: int, kv: int, parts: int) -> bool:
        """Both products' operands and results, and what the vector unit cannot do without."""
        depth, wide = self.d.extents["d"], self.d.extents["e"]
        bytes_, have = self.d.operands[0].dtype.bytes, self.target.bytes_of
        return (
            q * (kv + wide) * 4 <= have[Space.L0C]
            and q * (depth + kv) * bytes_ <= have[Space.L0A]
            and kv * (depth + wide) * bytes_ <= have[Space.L0B]
            and self.vector_bytes(q, kv, parts, 1) <= have[Space.UB]
        )

    def vector_bytes(self, q: int, kv: int, parts: int, copies: int) -> int:
        """The vector unit's tiles, those that others fill or empty in so many copies."""
        wide, bytes_ = self.d.extents["e"], self.d.operands[0].dtype.bytes
        masks = [o for o in self.d.operands if "kv" in o.dims and self.queries in o.dims]
        temporary = 2 * kv * 4 + wide * 4 + sum(kv * 4 for o in masks if o.dtype.bits == 16)
        handed = kv * (4 + bytes_) + sum(kv * o.dtype.bytes for o in masks)
        kept = q * wide * (4 + bytes_)
        return kept + ceil(q / parts) * (temporary + copies * handed)

    def cycles(self, q: int, kv: int, parts: int, busiest: tuple[int, int]) -> float:
        """Of the busiest core: its blocks, each with all tiles of keys."""
        blocks, tiles = busiest
        overlap = self.d.until is None and kv >= self.d.extents["kv"]
        around = (
            BLOCK_CYCLES + (blocks - 1) * BETWEEN if self.flows(q, kv) else blocks * BLOCK_CYCLES
        )
        return tiles * self.tile(q, kv, parts) + (BLOCK_CYCLES if overlap else around)

    def flows(self, q: int, kv: int) -> bool:
        """Whether blocks are short enough for their ends to matter, and there are several."""
        blocks, tiles = self.busiest(q, kv)
        return blocks > 1 and tiles <= SHORT * blocks

    def busiest(self, q: int, kv: int) -> tuple[int, int]:
        """Blocks of the core that has most to do, and the tiles of keys in all of them."""
        rows, keys, cores = self.d.extents[self.queries], self.d.extents["kv"], self.target.cores
        cut = ceil(rows / q)
        waves = ceil(self.heads * cut / cores)
        if self.d.until is None:
            return waves, waves * ceil(keys / kv)
        reach = self.d.until.offset
        ends = [min(rows, q * i + q) for i in reversed(range(cut))]
        each = [ceil(min(keys, end + reach) / kv) for end in ends]
        # The first core has the costliest block of every wave: heads follow each other.
        return waves, sum(each[i // self.heads] for i in range(0, self.heads * cut, cores))

    def tile(self, q: int, kv: int, parts: int) -> float:
        """One tile of keys: the busiest unit, or one after the other if a queue is too short."""
        body = [s for s in self.d.body if isinstance(s, Vector)]
        sizes = {self.queries: q, "kv": kv, "e": self.d.extents["e"]}
        vector: float = self.vectors.cycles(body, sizes)
        out = q * (kv + self.d.extents["e"]) * 4
        drained = out / self.target.rate("l0c_ub", "").bytes_per_cycle + 70 * parts
        products = ((q, kv, self.d.extents["d"]), (q, self.d.extents["e"], kv))
        dtype = self.d.operands[0].dtype
        cube = sum(multiply(self.target, dtype, *sizes) for sizes in products)
        entries = parts * sum(len(v.steps) + FLAGS for v in body)
        crowded = self.vector_bytes(q, kv, parts, 2) > self.target.bytes_of[Space.UB]
        if crowded or entries > self.target.queue_depth:
            return vector + drained + cube + HAND_OVER
        moved = sum(cut(self.target, dtype, *sizes) for sizes in products)
        return max(vector, drained, cube, self.loads(kv), moved)

    def loads(self, kv: int) -> float:
        """Keys and values on their way to `l1`, row by row."""
        rate, bytes_ = self.target.rate("gm_l1", ""), self.d.operands[0].dtype.bytes
        widths = (self.d.extents["d"], self.d.extents["e"])
        return sum(kv * max(rate.row, w * bytes_ / rate.bytes_per_cycle) for w in widths)
