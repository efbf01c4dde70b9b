"""The matrix unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ge.dialects import dtypes
from ge.dialects.dtypes import DType
from ge.dialects.lazy import lazy
from ge.dialects.npu.instr import Work, instr
from ge.dialects.npu.operands import L0a, L0b, L0c, Num, Type
from ge.dialects.npu.places import Unit
from ge.dialects.npu.state import State

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy("numpy")

CUBE = 16
"""Rows and columns of the cube; its depth is 32 bytes of operand."""
DEPTH_BYTES = 32


def cubes(m: int, n: int, k: int, dt: DType) -> int:
    """How many cubes a product of tiles falls into, the last ones padded."""
    depth = DEPTH_BYTES // dt.bytes
    return -(-m // CUBE) * -(-n // CUBE) * -(-k // depth)


def _cubes(m: int, n: int, k: int, dt: DType, **_: Any) -> Work:
    return Work(items=cubes(m, n, k, dt))


def accumulator(dt: DType) -> DType:
    """The type the cube adds products of `dt` in."""
    return dtypes.F32 if dt.is_float else dtypes.I32


@instr(0x60, Unit.M, rate="mmad", work=_cubes, hardware="Mmad")
def mmad(state: State, c: L0c, a: L0a, b: L0b, m: Num, n: Num, k: Num, init: Num, dt: Type) -> None:
    """Multiply and accumulate dense tiles: `c[m,n] = a[m,k] . b[k,n]`, plus `c` unless `init`.

    Products of floats add up in f32, those of integers in i32. Types: f16, bf16, f32, i8, u8.
    """
    acc = accumulator(dt)
    left = state.read(a, (m, k), (k, 1), dt).astype(acc.numpy, copy=False)
    right = state.read(b, (k, n), (n, 1), dt).astype(acc.numpy, copy=False)
    if not init:
        state.read(c, (m, n), (n, 1), acc)
    out = state.out(c, (m, n), (n, 1), acc)
    if init:
        np.matmul(left, right, out=out)
    else:
        out += left @ right
