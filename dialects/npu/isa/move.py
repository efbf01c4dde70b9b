"""DMA: strided tiles between memories. The on-chip side of a load is dense."""

from __future__ import annotations

from math import prod
from typing import Any

from ge.dialects.dtypes import DType
from ge.dialects.npu.geometry import dense, lines, runs
from ge.dialects.npu.instr import Work, instr
from ge.dialects.npu.operands import (
    L1,
    Act,
    Activation,
    Dims,
    Gm,
    L0a,
    L0b,
    L0c,
    Num,
    Real,
    Type,
    Ub,
)
from ge.dialects.npu.places import Unit
from ge.dialects.npu.state import State

MISS_ALL = 256
"""`miss` counts 256ths: how much of a load the second-level cache cannot deliver."""

Sizes = tuple[int, ...]


def _inside(size: Sizes, lo: Sizes, hi: Sizes) -> Sizes:
    if len(lo) == len(hi) == len(size) and not any(lo) and not any(hi):
        return size
    return tuple(max(0, n - a - b) for n, a, b in zip(size, lo, hi, strict=True))


def _fetch(
    size: Sizes, strides: Sizes, lo: Sizes, hi: Sizes, miss: int, dt: DType, **_: Any
) -> Work:
    inside = _inside(size, lo, hi)
    if not prod(inside):
        return Work()
    moved, rows = lines(inside, strides, dt.bytes)
    return Work(bytes=moved, rows=rows, hbm=-(-moved * miss // MISS_ALL))


def _fetch_fractals(
    size: Sizes, strides: Sizes, lo: Sizes, hi: Sizes, miss: int, dt: DType, **_: Any
) -> Work:
    """The rows of a matrix become rows of fractals one by one, wherever they lie in memory."""
    work = _fetch(size, strides, lo, hi, miss, dt)
    wide = [n for n in _inside(size, lo, hi) if n > 1]
    return work._replace(rows=max(work.rows, wide[0])) if len(wide) == 2 else work


def _send(size: Sizes, ds: Sizes, miss: int, dt: DType, **_: Any) -> Work:
    moved, rows = lines(size, ds, dt.bytes) if prod(size) else (0, 0)
    return Work(bytes=moved, rows=rows, hbm=-(-moved * miss // MISS_ALL))


def _inner(size: Sizes, strides: Sizes, dt: DType, **_: Any) -> Work:
    rows, _run = runs(size, strides)
    return Work(bytes=prod(size) * dt.bytes, rows=rows)


def _load(
    m: State,
    dst: Any,
    src: Gm,
    size: Sizes,
    strides: Sizes,
    lo: Sizes,
    hi: Sizes,
    pad: float,
    dt: DType,
) -> None:
    out = m.out(dst, size, dense(size), dt)
    if not any(lo) and not any(hi) and len(lo) == len(hi) == len(size):
        if out.size:
            out[...] = m.read(src, size, strides, dt)
        return
    inside = _inside(size, lo, hi)
    out[...] = pad
    if prod(inside):
        window = tuple(slice(a, a + n) for a, n in zip(lo, inside, strict=True))
        out[window] = m.read(src, inside, strides, dt)


@instr(
    0x40, Unit.MTE2, rate="gm_l1", work=_fetch_fractals, hardware="DataCopy GM->L1, ND->NZ by rows"
)
def ld__l1(
    m: State,
    dst: L1,
    src: Gm,
    size: Dims,
    strides: Dims,
    dt: Type,
    lo: Dims = (0,),
    hi: Dims = (0,),
    pad: Real = 0.0,
    miss: Num = MISS_ALL,
) -> None:
    """Load a tile of device memory into `l1`.

    `lo` and `hi` elements before and after each dimension are outside the tensor and filled with
    `pad`; `src` is the first element inside. `miss`/256 of the bytes come from device memory, the
    rest from the second-level cache.
    """
    _load(m, dst, src, size, strides, lo, hi, pad, dt)


@instr(0x41, Unit.MTE2V, rate="gm_ub", work=_fetch, hardware="DataCopy GM->UB")
def ld__ub(
    m: State,
    dst: Ub,
    src: Gm,
    size: Dims,
    strides: Dims,
    dt: Type,
    lo: Dims = (0,),
    hi: Dims = (0,),
    pad: Real = 0.0,
    miss: Num = MISS_ALL,
) -> None:
    """Load a tile of device memory into `ub`; padding and `miss` as in `ld.l1`."""
    _load(m, dst, src, size, strides, lo, hi, pad, dt)


@instr(0x42, Unit.MTE1, rate="l1_l0a", work=_inner, hardware="LoadData L1->L0A, img2col as load3d")
def ld__l0a(m: State, dst: L0a, src: L1, size: Dims, strides: Dims, dt: Type) -> None:
    """Load a strided window of `l1` into `l0a`, dense: transposes and image windows included."""
    m.out(dst, size, dense(size), dt)[...] = m.read(src, size, strides, dt)


@instr(0x43, Unit.MTE1, rate="l1_l0b", work=_inner, hardware="LoadData L1->L0B")
def ld__l0b(m: State, dst: L0b, src: L1, size: Dims, strides: Dims, dt: Type) -> None:
    """Load a strided window of `l1` into `l0b`, dense: transposes and image windows included."""
    m.out(dst, size, dense(size), dt)[...] = m.read(src, size, strides, dt)


@instr(0x44, Unit.MTE1, rate="l1_l0c", work=_inner, hardware="LoadData L1->BT, bias of Mmad")
def ld__l0c(m: State, dst: L0c, src: L1, size: Dims, strides: Dims, dt: Type) -> None:
    """Set accumulators from `l1` before products add up: a bias, repeated by strides of 0."""
    m.out(dst, size, dense(size), dt)[...] = m.read(src, size, strides, dt)


def _drain(
    m: State,
    dst: Any,
    src: L0c,
    size: Sizes,
    ds: Sizes,
    ss: Sizes,
    acc: DType,
    dt: DType,
    act: Activation,
) -> None:
    value = m.read(src, size, ss, acc)
    if act is Activation.RELU:
        value = value.clip(min=0)
    m.out(dst, size, ds, dt)[...] = value


def _hand_over(size: Sizes, dt: DType, **_: Any) -> Work:
    moved = prod(size) * dt.bytes
    return Work(bytes=moved)


@instr(
    0x48,
    Unit.FIX,
    rate="l0c_ub",
    work=_hand_over,
    hardware="Fixpipe L0C->GM, then GM->UB through L2",
)
def fix__ub(
    m: State,
    dst: Ub,
    src: L0c,
    size: Dims,
    ds: Dims,
    ss: Dims,
    acc: Type,
    dt: Type,
    act: Act = Activation.NONE,
) -> None:
    """Hand accumulators of type `acc` over to `ub` as `dt`, through `act`."""
    _drain(m, dst, src, size, ds, ss, acc, dt, act)


@instr(0x49, Unit.FIX, rate="l0c_gm", work=_send, hardware="Fixpipe L0C->GM")
def fix__gm(
    m: State,
    dst: Gm,
    src: L0c,
    size: Dims,
    ds: Dims,
    ss: Dims,
    acc: Type,
    dt: Type,
    act: Act = Activation.NONE,
    miss: Num = MISS_ALL,
) -> None:
    """Store accumulators of type `acc` to device memory as `dt`, through `act`."""
    _drain(m, dst, src, size, ds, ss, acc, dt, act)


@instr(0x4A, Unit.FIX, rate="l0c_l1", work=_hand_over, hardware="Fixpipe L0C->L1")
def fix__l1(
    m: State,
    dst: L1,
    src: L0c,
    size: Dims,
    ds: Dims,
    ss: Dims,
    acc: Type,
    dt: Type,
    act: Act = Activation.NONE,
) -> None:
    """Hand accumulators of type `acc` over to `l1` as `dt`, through `act`."""
    _drain(m, dst, src, size, ds, ss, acc, dt, act)


@instr(0x4C, Unit.MTE3, rate="ub_gm", work=_send, hardware="DataCopy UB->GM")
def st__gm(
    m: State, dst: Gm, src: Ub, size: Dims, ds: Dims, ss: Dims, dt: Type, miss: Num = MISS_ALL
) -> None:
    """Store a strided tile of `ub` to device memory."""
    m.out(dst, size, ds, dt)[...] = m.read(src, size, ss, dt)


@instr(
    0x4D,
    Unit.MTE3,
    rate="ub_l1",
    work=_hand_over,
    hardware="DataCopy UB->GM, then GM->L1 through L2",
)
def st__l1(m: State, dst: L1, src: Ub, size: Dims, ds: Dims, ss: Dims, dt: Type) -> None:
    """Hand a strided tile of `ub` over to `l1`."""
    m.out(dst, size, ds, dt)[...] = m.read(src, size, ss, dt)
