"""Scalar arithmetic and control: what the S unit does itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ge.dialects.dtypes import DType
from ge.dialects.npu.instr import Instr, Work, instr
from ge.dialects.npu.operands import Dst, Gm, Label, Num, Src, Symbol, Type, Wide
from ge.dialects.npu.state import State


@instr(0x01)
def li(m: State, dst: Dst, value: Wide) -> None:
    """Load a constant: `dst = value`."""
    m.set(dst, value)


@instr(0x02)
def la(m: State, dst: Dst, symbol: Symbol) -> None:
    """Load the device address of a symbol, known when the program is loaded: `dst = symbol`."""
    m.set(dst, symbol)


CONSTANTS = (li, la)
"""What puts into a register a number that does not depend on the program's run."""


def _arithmetic(opcode: int, name: str, compute: Callable[[int, int], int], meaning: str) -> Instr:
    def execute(m: State, dst: Dst, a: Src, b: Src) -> None:
        m.set(dst, compute(a, b))

    execute.__name__ = name
    execute.__doc__ = f"Scalar: `dst = {meaning}`, 64 bits."
    return instr(opcode)(execute)


ARITHMETIC = tuple(
    _arithmetic(*row)
    for row in (
        (0x10, "add", lambda a, b: a + b, "a + b"),
        (0x11, "sub", lambda a, b: a - b, "a - b"),
        (0x12, "mul", lambda a, b: a * b, "a * b"),
        (0x13, "div", lambda a, b: a // b if b else 0, "a / b, rounded down; 0 if b = 0"),
        (0x14, "mod", lambda a, b: a % b if b else 0, "a - b * floor(a / b); 0 if b = 0"),
        (0x15, "min", lambda a, b: min(a, b), "the smaller of a and b"),
        (0x16, "max", lambda a, b: max(a, b), "the larger of a and b"),
        (0x17, "and_", lambda a, b: a & b, "a and b, bit by bit"),
        (0x18, "or_", lambda a, b: a | b, "a or b, bit by bit"),
        (0x19, "xor", lambda a, b: a ^ b, "a xor b, bit by bit"),
        (0x1A, "shl", lambda a, b: a << (b & 63), "a shifted left by b modulo 64"),
        (0x1B, "shr", lambda a, b: a >> (b & 63), "a shifted right by b modulo 64, sign kept"),
        (0x1C, "slt", lambda a, b: int(a < b), "1 if a < b, else 0"),
        (0x1D, "sle", lambda a, b: int(a <= b), "1 if a <= b, else 0"),
        (0x1E, "seq", lambda a, b: int(a == b), "1 if a = b, else 0"),
        (0x1F, "sne", lambda a, b: int(a != b), "1 if a differs from b, else 0"),
    )
)


def _element(dt: DType, **_: Any) -> Work:
    return Work(bytes=dt.bytes, rows=1, hbm=dt.bytes)


@instr(0x03, rate="gm_s", work=_element, hardware="scalar load, taken as a miss")
def lds(m: State, dst: Dst, src: Gm, dt: Type) -> None:
    """Load one integer element of device memory; the S unit waits for it."""
    m.set(dst, int(m.read(src, (1,), (1,), dt)[0]))


@instr(0x04)
def jump(m: State, label: Label) -> None:
    """Go on at `label`."""
    m.jump(label)


@instr(0x05)
def bz(m: State, a: Src, label: Label) -> None:
    """Go on at `label` if `a` is 0."""
    if a == 0:
        m.jump(label)


@instr(0x06)
def bnz(m: State, a: Src, label: Label) -> None:
    """Go on at `label` if `a` is not 0."""
    if a != 0:
        m.jump(label)


@instr(0x07)
def loop(m: State, trips: Src, label: Label) -> None:
    """Run the code up to `label` `trips` times; not at all if `trips` is below 1."""
    m.loop(trips, label)


@instr(0x08)
def call(m: State, label: Label) -> None:
    """Call the function at `label`; registers are shared with it."""
    m.call(label)


@instr(0x09)
def ret(m: State) -> None:
    """Go back behind the last call."""
    m.leave()


@instr(0x0A)
def halt(m: State) -> None:
    """End this core's program."""
    m.stop()


@instr(0x0B)
def core(m: State, dst: Dst) -> None:
    """This core's number: `dst = 0 .. cores - 1`."""
    m.set(dst, m.core)


@instr(0x0C)
def cores(m: State, dst: Dst) -> None:
    """How many cores run the program."""
    m.set(dst, m.cores)


@instr(0x0D)
def share(m: State, n: Num) -> None:
    """Tell the clock that `n` cores share the memory from here on: the last wave has fewer."""
    m.share(n)
