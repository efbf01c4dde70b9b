"""Tile sizes for a description: candidates that fit, ranked by their busiest unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import inf, prod

from ge.dialects.npu.places import Space
from ge.dialects.npu.target import Target
from ge.lowering.kernels.attention_tiling import attention_tilings
from ge.lowering.kernels.description import Description, DimKind, Matrix, Operand
from ge.lowering.kernels.tiling import Pairs, Tiling

Chunks = tuple[tuple[int, tuple[str, int]], ...]

ACC_BYTES = 4
UB_SHARE = 0.9
"""How much of the vector memory a first guess may fill: sizes are rounded up later."""
DEPTHS = (256, 128, 64, 32, 16)
"""Steps of a sum in the small memories; the largest that fits twice has the fewest steps."""
BLOCK_CYCLES = 400
"""What a block costs that nothing hides: the first loads and the last store."""
AHEAD = 4
"""Tiles a core should have of a kernel of the vector unit: loads then run ahead of the work."""
SHORT_BYTES = 16384
"""Transfers below this do not reach the full rate."""
EXTENTS = (1, 2, 4, 7, 8, 14, 16, 28, 32, 48, 56, 64, 96, 112, 128, 160, 192, 256, 384, 512)


def tilings(d: Description, target: Target) -> Iterator[Tiling]:
    """Tilings to try, best first: the first one that really fits is taken."""
    if d.dims_with(DimKind.SEQUENTIAL):
        yield from attention_tilings(d, target)
    elif d.matrices:
        yield from _products(d, target)
    else:
        yield from _vectors(d, target)


def _fill(extents: Mapping[str, int], dims: tuple[str, ...], most: int) -> Pairs:
    """Extents whose product is at most `most`, innermost dimensions first."""
    tile = {}
    for dim in reversed(dims):
        tile[dim] = max(1, min(extents[dim], most))
        most //= tile[dim]
    return tuple((d, tile[d]) for d in dims)


def _vectors(d: Description, target: Target) -> Iterator[Tiling]:
    """Tiles from large to small: several a core, so that loads run ahead, but none too short."""
    parallel = d.dims_with(DimKind.PARALLEL)
    held = {x for _, value in d.values for x in value.dims}
    whole = prod(d.extents[w] for w in d.dims_with(DimKind.WHOLE) if w in held)
    total = prod(d.extents[p] for p in parallel)
    per_core = -(-total // target.cores)
    most = target.bytes_of[Space.UB] // 8 // whole
    short = max(1, SHORT_BYTES // 4 // whole)
    elements = max(1, min(most, max(-(-per_core // AHEAD), short)))
    extents = {**d.extents, **dict.fromkeys(d.single, 1)}
    # What an index names comes one place at a time: only the rest of the cores cut the others.
    cores = -(-target.cores // prod(d.extents[s] for s in d.single))
    while elements:
        yield Tiling(_balanced(extents, parallel, min(elements, per_core), cores))
        elements //= 2


def _balanced(extents: Mapping[str, int], dims: tuple[str, ...], most: int, cores: int) -> Pairs:
    """A tile of at most `most` elements, cut so that the last wave of cores is full too."""
    tile = dict(_fill(extents, dims, most))
    cut = next((d for d in reversed(dims) if tile[d] < extents[d]), None)
    if cut is None:
        return tuple(tile.items())
    others = prod(-(-extents[d] // tile[d]) for d in dims if d != cut)
    pieces = -(-extents[cut] // tile[cut])
    waves = -(-others * pieces // cores)
    pieces = max(pieces, min(extents[cut], waves * cores // others))
    tile[cut] = -(-extents[cut] // pieces)
    return tuple(tile.items())


# Products


@dataclass(frozen=True)
class _Product:
    """A matrix statement with what a tiling needs to know of it."""

    statement: Matrix
    left: Operand
    right: Operand
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]


def _product_of(d: Description) -> _Product:
    statement = d.matrices[0]
    operands = {o.name: o for o in d.operands}
    left, right = operands[statement.a], operands[statement.b]
    dims = dict(d.values)[statement.out].dims
    both = tuple(x for x in dims if x in left.dims and x in right.dims)
    rows = tuple(x for x in dims if x in left.dims and x not in both)
    columns = tuple(x for x in dims if x not in left.dims)
    return _Product(statement, left, right, both, rows, columns)


def shortest(d: Description, target: Target) -> float:
    """Cycles that a product takes at least, under the best of its tilings."""
    moved = sum(o.bytes for o in (*d.operands, *d.results))
    busiest = min((cycles for cycles, _, _ in _ranked(d, target)), default=inf)
    return max(busiest, moved / target.bytes_per_cycle("hbm"))


def _products(d: Description, target: Target) -> Iterator[Tiling]:
    for _, _, tiling in _ranked(d, target):
        yield tiling


def _ranked(d: Description, target: Target) -> list[tuple[float, int, Tiling]]:
    """Tilings of a product with their bounds, the best one first."""
    p = _product_of(d)
    ranked: list[tuple[float, int, Tiling]] = []
    for rows, columns in product(_tiles(d, p.rows), _tiles(d, p.columns)):
        block = {**dict.fromkeys(p.batch, 1), **dict(rows), **dict(columns)}
        for depth in DEPTHS:
            choice = _nested(d, p, block, depth, target)
            if choice is not None:
                ranked.append((choice[0], len(ranked), choice[1]))
                break
    ranked.sort(key=lambda r: r[:2])
    return ranked


def _tiles(d: Description, dims: tuple[str, ...]) -> list[Pairs]:
    """Tiles of the rows or columns of a product: the innermost extents are varied."""
    if not dims:
        return [()]
    found: dict[Pairs, None] = {}
    *outer, inner = dims
    extent = d.extents[inner]
    for most in (16, 32, 48, 64, 96, 128, 176, 256, 512):
        for n in sorted({min(e, extent) for e in EXTENTS if e <= most} | {min(extent, most)}):
            if n * 4 >= min(most, extent):
                found[(*_fill(d.extents, tuple(outer), max(1, most // n)), (inner, n))] = None
    return list(found)


def _padded(n: int, granule: int = 16) -> int:
    return -(-n // granule) * granule


def _nested(
    d: Description, p: _Product, block: dict[str, int], depth: int, target: Target
) -> tuple[float, Tiling] | None:
    """The loops of one product with tiles of `depth` in the small memories, and its bound."""
    bytes_ = p.left.dtype.bytes
    m = prod(block[x] for x in p.rows)
    n = prod(block[x] for x in p.columns)
    over = p.statement.over
    small = dict(_fill(d.extents, over, depth))
    k = prod(small.values())
    fits = (
        m * n * 4 <= target.bytes_of[Space.L0C]
        and 2 * m * k * bytes_ <= target.bytes_of[Space.L0A]
        and 2 * n * k * bytes_ <= target.bytes_of[Space.L0B]
    )
    if not fits:
        return None
    total = prod(d.extents[x] for x in over)
    sizes = {**d.extents, **block}
    for factor in (8, 4, 2, 1):
        large = dict(_fill(d.extents, over, depth * factor))
        staged = 2 * sum(_box(o, {**sizes, **large}) * o.dtype.bytes for o in (p.left, p.right))
        if staged <= target.bytes_of[Space.L1]:
            break
    else:
        return None
    nest = _nest(over, d.extents, large, small)
    loads_at = next(
        (f"acc_{x}{s}" for x, s in reversed(nest[: _count(over, d.extents, large)])), ""
    )
    tiling = Tiling(
        tuple(block.items()),
        nests=((p.statement.out, nest),),
        loads=((p.left.name, loads_at), (p.right.name, loads_at)),
        chunks=(chunks := _chunks(d, p, block, target)),
        final_stage=_epilogue_stage(d, m * n, block, chunks, target),
    )
    return _bound(d, p, block, (m, n, k, total), {**sizes, **large}, target), tiling


def _epilogue_stage(
    d: Description, elements: int, block: dict[str, int], chunks: Chunks, target: Target
) -> int:
    """1 where the epilogue runs a block behind: it would fill the vector unit's queue."""
    twice = 2 * elements * ACC_BYTES <= target.bytes_of[Space.L0C]
    parts = max((-(-block[dim] // n) for _, (dim, n) in chunks), default=1)
    entries = parts * sum(len(v.steps) for v in d.final)
    return int(twice and entries > target.queue_depth // 2)


def _count(over: tuple[str, ...], extents: Mapping[str, int], large: Mapping[str, int]) -> int:
    return sum(large[x] < extents[x] for x in over)


def _nest(
    over: tuple[str, ...],
    extents: Mapping[str, int],
    large: Mapping[str, int],
    small: Mapping[str, int],
) -> Pairs:
    """Loops over large steps, whose loads go to l1, and inside them over small ones."""
    outer = [(x, large[x]) for x in over if large[x] < extents[x]]
    inner = [(x, small[x]) for x in over if small[x] < large[x]]
    return (*outer, *inner)


def _box(operand: Operand, sizes: Mapping[str, int]) -> int:
    return prod(axis.extent(dict(sizes)) for axis in operand.axes)


def _chunks(d: Description, p: _Product, block: dict[str, int], target: Target) -> Chunks:
    """Cut the epilogue's tile along its rows so that two copies of everything fit."""
    if not d.final:
        return ()
    rows = p.rows or p.columns
    cut = max(rows, key=lambda x: block[x])
    live = 8 + sum(1 for o in d.operands if o.name.startswith("x"))
    tile = prod(block[x] for x in (*p.rows, *p.columns)) * 4 * live
    parts = max(1, -(-tile // int(target.bytes_of[Space.UB] * UB_SHARE)))
    piece = max(1, block[cut] // parts)
    return ((0, (cut, piece)),)


def _bound(
    d: Description,
    p: _Product,
    block: dict[str, int],
    tile: tuple[int, int, int, int],
    sizes: Mapping[str, int],
    target: Target,
) -> float:
    """Cycles of the busiest unit of one core, for all its blocks."""
    m, n, k, total = tile
    dtype = p.left.dtype
    blocks = prod(-(-d.extents[x] // block[x]) for x in block)
    waves = -(-blocks // target.cores)
    steps = -(-total // k)
    cube = target.rate("mmad", dtype.name)
    depth = _padded(k, max(1, 32 // dtype.bytes)) * dtype.bytes // 32
    busy_m = steps * (cube.start + cube.item * _padded(m) * _padded(n) // 256 * depth)
    busy_1 = steps * (
        2 * target.rate("l1_l0a", "").start
        + m * k * dtype.bytes / target.rate("l1_l0a", "").bytes_per_cycle
        + n * k * dtype.bytes / target.rate("l1_l0b", "").bytes_per_cycle
    )
    load = target.rate("gm_l1", "")
    busy_2 = 0.0
    moved = 0.0
    whole = {**sizes, **{x: d.extents[x] for x in p.statement.over}}
    for o in (p.left, p.right):
        size = _box(o, whole) * o.dtype.bytes
        run = o.axes[-1].extent(dict(sizes)) * o.dtype.bytes if o.axes else 1
        busy_2 += max(load.row * size / max(run, 1), size / load.bytes_per_cycle)
        moved += size
    shared = moved * min(blocks, target.cores) / target.bytes_per_cycle("l2_read")
    out = m * n * 4 / target.rate("l0c_ub", "").bytes_per_cycle + 35
    vector = sum(len(v.steps) for v in d.final) * m * n / 64 / target.vector_units * 1.5
    # With one copy of the accumulators the next product waits for this one's epilogue.
    alone = max(out, vector) if 2 * m * n * 4 > target.bytes_of[Space.L0C] else 0.0
    return waves * (max(busy_m + alone, busy_1, busy_2, shared, out, vector) + BLOCK_CYCLES)
