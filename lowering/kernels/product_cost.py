"""What one product of tiles takes in the matrix unit, and on its operands' way there."""

from __future__ import annotations

from ge.dialects.dtypes import DType
from ge.dialects.npu.isa.cube import cubes
from ge.dialects.npu.target import Target


def multiply(target: Target, dtype: DType, m: int, n: int, k: int) -> float:
    """Cycles of `c[m,n] += a[m,k] . b[k,n]`, padded to the matrix unit's cubes."""
    rate = target.rate("mmad", dtype.name)
    return rate.start + rate.item * cubes(m, n, k, dtype)


def cut(target: Target, dtype: DType, m: int, n: int, k: int) -> float:
    """Cycles that both operands' tiles take on their way from `l1`."""
    left, right = (target.rate(name, "") for name in ("l1_l0a", "l1_l0b"))
    moved = m / left.bytes_per_cycle + n / right.bytes_per_cycle
    return left.start + right.start + moved * k * dtype.bytes
