"""Tile sizes for a description: candidates that fit, ranked by their busiest unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import merge
from math import prod

from ge.dialects.npu.places import Space
from ge.dialects.npu.target import Target
from ge.lowering.kernels.attention_tiling import attention_tilings
from ge.lowering.kernels.description import Description, DimKind
from ge.lowering.kernels.piece_tiling import piece_tilings
from ge.lowering.kernels.pieces import may_be_in_pieces
from ge.lowering.kernels.product_tiling import product_tilings
from ge.lowering.kernels.tiling import Candidate, Pairs, Tiling, filled

AHEAD = 4
"""Tiles a core should have of a kernel of the vector unit: loads then run ahead of the work."""
SHORT_BYTES = 16384
"""Transfers below this do not reach the full rate."""


def tilings(d: Description, target: Target) -> Iterator[Candidate]:
    """Tilings to try, best first: the first one that really fits is taken."""
    if d.dims_with(DimKind.SEQUENTIAL):
        yield from attention_tilings(d, target)
    elif d.matrices:
        pieces = piece_tilings(d, target) if may_be_in_pieces(d) else ()
        order = sorted(pieces, key=lambda candidate: candidate.cycles)
        yield from merge(product_tilings(d, target), order, key=lambda candidate: candidate.cycles)
    else:
        yield from (Candidate(tiling) for tiling in _vectors(d, target))


def _vectors(d: Description, target: Target) -> Iterator[Tiling]:
    """Tiles from large to small: several a core, so that loads run ahead, but none too short."""
    parallel = d.dims_with(DimKind.PARALLEL)
    held = {x for _, value in d.values for x in value.dims}
    whole = prod(d.extents[w] for w in d.dims_with(DimKind.WHOLE) if w in held)
    total = prod(d.extents[p] for p in parallel if p not in d.ordered)
    per_core = -(-total // target.cores)
    most = target.bytes_of[Space.UB] // 8 // whole
    short = max(1, SHORT_BYTES // 4 // whole)
    elements = max(1, min(most, max(-(-per_core // AHEAD), short)))
    extents = {**d.extents, **dict.fromkeys(d.single, 1)}
    # What an index names comes one place at a time: only the rest of the cores cut the others.
    apart = prod(d.extents[s] for s in d.single if s not in d.ordered)
    cores = -(-target.cores // apart)
    inner = tuple((dim, 1) for dim in d.ordered)
    while elements:
        tile = dict(_balanced(extents, parallel, min(elements, per_core), cores))
        block = {**tile, **{dim: d.extents[dim] for dim in d.ordered}}
        yield Tiling(tuple(block.items()), inner=inner)
        elements //= 2


def _balanced(extents: Mapping[str, int], dims: tuple[str, ...], most: int, cores: int) -> Pairs:
    """A tile of at most `most` elements, cut so that the last wave of cores is full too."""
    tile = dict(filled(extents, dims, most))
    cut = next((d for d in reversed(dims) if tile[d] < extents[d]), None)
    if cut is None:
        return tuple(tile.items())
    others = prod(-(-extents[d] // tile[d]) for d in dims if d != cut)
    pieces = -(-extents[cut] // tile[cut])
    waves = -(-others * pieces // cores)
    pieces = max(pieces, min(extents[cut], waves * cores // others))
    tile[cut] = -(-extents[cut] // pieces)
    return tuple(tile.items())
