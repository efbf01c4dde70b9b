"""What one product of tiles takes in the matrix unit, and on its operands' way there.

And in which order its tiles follow each other, so that few bytes come from device memory twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, prod

from ge.dialects.dtypes import DType
from ge.dialects.npu.isa.cube import cubes
from ge.dialects.npu.target import Target
from ge.lowering.kernels.description import Description, Operand


def multiply(target: Target, dtype: DType, m: int, n: int, k: int) -> float:
    """Cycles of `c[m,n] += a[m,k] . b[k,n]`, padded to the matrix unit's cubes."""
    rate = target.rate("mmad", dtype.name)
    return rate.start + rate.item * cubes(m, n, k, dtype)


def cut(target: Target, dtype: DType, m: int, n: int, k: int) -> float:
    """Cycles that both operands' tiles take on their way from `l1`."""
    left, right = (target.rate(name, "") for name in ("l1_l0a", "l1_l0b"))
    moved = m / left.bytes_per_cycle + n / right.bytes_per_cycle
    return left.start + right.start + moved * k * dtype.bytes


def in_order(
    d: Description, target: Target, sides: tuple[Operand, Operand], block: Mapping[str, int]
) -> tuple[tuple[str, int], ...]:
    """The tile sizes, the loop outermost whose operand had better be read once.

    What lies inside is gone through again and again: from device memory, where the cache has no
    room for it.
    """
    pairs = tuple((x, block[x]) for x in d.extents if x in block)
    left, right = sides
    rows, columns = (prod(_tiles(d, o, block)) for o in sides)
    if any(x in left.dims and x in right.dims for x in block):
        return pairs
    usual = left.bytes + right.bytes * _passes(target, right, rows, columns)
    turned = right.bytes + left.bytes * _passes(target, left, columns, rows)
    if turned >= usual:
        return pairs
    return tuple(sorted(pairs, key=lambda pair: pair[0] not in right.dims))


def _tiles(d: Description, operand: Operand, block: Mapping[str, int]) -> Iterator[int]:
    """Tiles along each of the operand's dimensions that are cut."""
    return (ceil(d.extents[x] / n) for x, n in block.items() if x in operand.dims)


def _passes(target: Target, inner: Operand, outside: int, inside: int) -> int:
    """How often all of the inner operand comes from device memory."""
    if inner.bytes <= target.cache_room:
        return 1
    return ceil(outside / max(1, target.cores // inside))
