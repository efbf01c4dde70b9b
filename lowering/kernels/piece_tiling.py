"""Tile sizes for a product that is summed in pieces: strips that all cores have the same share of.

A tile of two by two parts lies in the vector memory. One side of a block is such a tile wide; the
other is a strip, along which a core's tiles follow each other, so that strips can be cut as evenly
as the cores ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, isqrt, prod

from ge.dialects.npu.geometry import lines
from ge.dialects.npu.isa.cube import CUBE
from ge.dialects.npu.places import Space
from ge.dialects.npu.target import Target
from ge.lowering.kernels.description import Description, Operand, Step, Value, Vector
from ge.lowering.kernels.pieces import END, PIECE, TOTAL, in_pieces
from ge.lowering.kernels.product_cost import cut, in_order, multiply
from ge.lowering.kernels.tiling import Candidate, Pairs, Tiling
from ge.lowering.kernels.vector_cost import VectorCost
from ge.lowering.scopes import BUFFER_ALIGNMENT

ACC_BYTES = 4
PARTS = 2
"""Parts of a tile along each side."""
PIECES_LEAST = 4
"""Pieces of a sum below which the way through the vector memory does not pay."""
STEPS = (256, 128, 64, 32, 16)
"""Terms of a sum that one multiplication takes."""
FIRST = 2500
"""Cycles of the first loads and of the last tile's way out, which nothing hides."""
MORE = 2
"""Copies of what an epilogue loads, at most, beside the usual ones."""
WORTH = 1.1
"""How much quicker pieces must be: they keep the vector unit busy, too."""


def piece_tilings(d: Description, target: Target) -> Iterator[Candidate]:
    """The best tiling with strips of columns, and the best with strips of rows."""
    shape = _Shape.of(d, target)
    if shape is None:
        return
    for wide in (shape.columns, shape.rows):
        yield min(
            (shape.candidate(wide, strips) for strips in shape.cuts(wide)),
            key=lambda candidate: candidate.cycles,
        )


def most_alive(steps: Sequence[Step], bytes_: Mapping[str, int]) -> int:
    """The most bytes of tiles that are needed at once between two steps."""
    most = 0
    for at in range(len(steps)):
        made = {step.out for step in steps[: at + 1]}
        needed = {name for step in steps[at + 1 :] for name in step.ins} | {steps[at].out}
        most = max(most, sum(bytes_.get(name, 0) for name in made & needed))
    return most


@dataclass(frozen=True)
class _Shape:
    """A product's dimensions, and the sizes that the memories allow."""

    d: Description
    target: Target
    left: Operand
    right: Operand
    batch: tuple[str, ...]
    rows: str
    columns: str
    over: str
    side: int
    """Rows and columns of a part: two of those fill the accumulators."""
    step: int
    """Terms of one multiplication."""
    piece: int
    """Terms of the sum between two additions."""

    @classmethod
    def of(cls, d: Description, target: Target) -> _Shape | None:
        """The shape of a product that is large enough, else None."""
        (product,) = d.matrices
        operands = {o.name: o for o in d.operands}
        left, right = operands[product.a], operands[product.b]
        dims = dict(d.values)[product.out].dims
        batch = tuple(x for x in dims if x in left.dims and x in right.dims)
        rows = [x for x in dims if x in left.dims and x not in batch]
        columns = [x for x in dims if x not in left.dims]
        if len(rows) != 1 or len(columns) != 1:
            return None
        have, bytes_ = target.bytes_of, left.dtype.bytes
        side = 1 << isqrt(have[Space.L0C] // 2 // ACC_BYTES).bit_length() - 1
        room = min(have[Space.L0A], have[Space.L0B]) // 2
        step = next((k for k in STEPS if side * k * bytes_ <= room), 0)
        most = have[Space.L1] // (2 * 2 * PARTS * side * bytes_)
        piece = most // step * step if step else 0
        (over,) = product.over
        few = min(d.extents[rows[0]], d.extents[columns[0]]) <= side
        if few or not piece or d.extents[over] < PIECES_LEAST * piece:
            return None
        names = (rows[0], columns[0], over)
        return cls(d, target, left, right, batch, *names, side, step, piece)

    @property
    def tile(self) -> int:
        """Rows or columns of a tile."""
        return PARTS * self.side

    @cached_property
    def described(self) -> Description:
        """The kernel that sums in pieces."""
        return in_pieces(self.d, self.piece)

    @property
    def last(self) -> Vector:
        """What is done with the sum."""
        statement = self.described.body[-1]
        assert isinstance(statement, Vector)
        return statement

    @cached_property
    def vectors(self) -> VectorCost:
        """What the vector statements take."""
        return VectorCost(self.described, self.target)

    def other(self, wide: str) -> str:
        """The dimension whose tiles are not strips."""
        return self.rows if wide == self.columns else self.columns

    def cuts(self, wide: str) -> Iterator[int]:
        """Widths of strips: whole tiles, or as even as a number of strips makes them."""
        extent = self.d.extents[wide]
        most = ceil(extent / self.tile)
        widths = {ceil(ceil(extent / n) / CUBE) * CUBE for n in range(1, most + 1)}
        yield from sorted({*widths, self.tile})

    def candidate(self, wide: str, strip: int) -> Candidate:
        """The tiling with strips of so many places, and what it takes."""
        other, extents = self.other(wide), self.d.extents
        high = min(self.tile, extents[other])
        block = {**dict.fromkeys(self.batch, 1), other: high, wide: strip}
        inner = ((wide, self.tile),) if strip > self.tile else ()
        operands = (self.left.name, self.right.name)
        tiling = Tiling(
            in_order(self.d, self.target, (self.left, self.right), block),
            inner=inner,
            sequential=self.piece,
            flows=True,
            within=((self.rows, self.side), (self.columns, self.side)),
            nests=(("acc", ((self.over, self.step),)),),
            loads=tuple((name, "sequential") for name in operands),
            chunks=((PIECE, (self.rows, self.side // 2)), (END, (self.rows, self.last_rows))),
            copies=self.copies,
        )
        blocks = prod(ceil(extents[x] / n) for x, n in block.items())
        waves = ceil(blocks / self.target.cores)
        tiles = [*[self.tile] * (strip // self.tile), strip % self.tile]
        cycles = sum(self.tile_cycles(other, high, wide, n) for n in tiles if n)
        return Candidate(tiling, WORTH * (FIRST + waves * cycles))

    @cached_property
    def copies(self) -> Pairs:
        """More copies of what the last statement loads: a chunk takes less time than a load."""
        sizes = {self.rows: self.last_rows, self.columns: self.side}
        left = self.room - self.last_bytes(self.last_rows)
        found = []
        for o in self.d.operands:
            if set(sizes) <= set(o.dims):
                each = prod(sizes.values()) * o.dtype.bytes
                more = max(0, min(MORE, left // each))
                left -= more * each
                found += [(f"{o.name}_ub", PARTS + more)] * bool(more)
        return tuple(found)

    @property
    def room(self) -> int:
        """Bytes of the vector memory beside the sum and what is being added to it."""
        taken = self.side * (self.tile * PARTS + self.side) * ACC_BYTES
        return self.target.bytes_of[Space.UB] - taken

    @cached_property
    def last_rows(self) -> int:
        """Rows that the last statement takes at once: as many as the vector memory has room for."""
        rows = self.side
        while rows > 1 and self.last_bytes(rows) > self.room:
            rows //= 2
        return rows

    def last_bytes(self, rows: int) -> int:
        """Bytes that the last statement has at once: two copies of what other units touch."""
        sizes = {self.rows: rows, self.columns: self.side}

        def bytes_(tile: Operand | Value) -> int:
            size = prod(sizes.get(x, 1) for x in tile.dims) * tile.dtype.bytes
            return ceil(size / BUFFER_ALIGNMENT) * BUFFER_ALIGNMENT

        outside = {o.name: o for o in (*self.described.operands, *self.described.results)}
        used = {name for step in self.last.steps for name in (step.out, *step.ins)}
        moved = sum(PARTS * bytes_(outside[name]) for name in used & outside.keys())
        values = dict(self.described.values)
        inner = {name: values[name] for name in used - outside.keys() - {TOTAL}}
        return moved + most_alive(self.last.steps, {name: bytes_(v) for name, v in inner.items()})

    def tile_cycles(self, other: str, high: int, wide: str, width: int) -> float:
        """Cycles of a tile: its pieces, and the epilogue."""
        sizes = {other: high, wide: width}
        parts = [
            (m, n) for m in self.parts(sizes[self.rows]) for n in self.parts(sizes[self.columns])
        ]
        # A part waits until the one before the last has left its accumulators.
        piece = sum(map(self.part, parts, (parts[-1], *parts)))
        pieces = self.d.extents[self.over] / self.piece
        ends: float = self.vectors.cycles((*self.described.init, self.last), sizes)
        # The vector unit's queue is full meanwhile: nothing that comes behind it is asked for.
        return pieces * max(piece, self.loads(sizes)) + ends

    def parts(self, size: int) -> list[int]:
        """The sizes of a tile's parts along one side."""
        rest = size % self.side
        return [self.side] * (size // self.side) + [rest] * bool(rest)

    def part(self, sizes: tuple[int, int], before: tuple[int, int]) -> float:
        """Cycles of one piece of a part: the busiest unit, or the way out of the part before."""
        dtype, steps, (m, n) = self.left.dtype, self.piece // self.step, sizes
        cube = steps * multiply(self.target, dtype, m, n, self.step)
        moved = steps * cut(self.target, dtype, m, n, self.step)
        rate = self.target.rate("l0c_ub", "")
        out, last = (
            a * b * ACC_BYTES / rate.bytes_per_cycle + PARTS * rate.start
            for a, b in (sizes, before)
        )
        return max(cube, moved, out, last + rate.latency)

    def loads(self, sizes: dict[str, int]) -> float:
        """Cycles of a piece's loads, by rows and by what the cache delivers to all cores."""
        rate = self.target.rate("gm_l1", "")
        extents = {**self.d.extents, **dict.fromkeys(self.batch, 1), **sizes, self.over: self.piece}
        cycles = bytes_ = 0.0
        for o in (self.left, self.right):
            box = tuple(
                min(axis.extent(extents), n) for axis, n in zip(o.axes, o.shape, strict=True)
            )
            moved, rows = lines(box, o.strides, o.dtype.bytes)
            cycles += rate.start + max(rate.issue + rows * rate.row, moved / rate.bytes_per_cycle)
            bytes_ += moved
        return max(cycles, bytes_ * self.target.cores / self.target.bytes_per_cycle("l2_read"))
