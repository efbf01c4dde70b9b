"""Scalar code while it is written: folded when constant, shared when it stands there already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ge.dialects.npu.instr import Instr
from ge.dialects.npu.isa import INSTRS
from ge.dialects.npu.operands import Addr


class Virtual(NamedTuple):
    """A register before registers are allocated."""

    number: int


Scalar = int | Virtual


class Line(NamedTuple):
    """A label, or an instruction whose operands may hold virtual registers."""

    row: Instr | None
    args: tuple[Any, ...]


_FOLD: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
    "slt": lambda a, b: int(a < b),
    "sle": lambda a, b: int(a <= b),
    "seq": lambda a, b: int(a == b),
    "and": lambda a, b: a & b,
}


class ScalarWriter:
    """Appends lines; `known` holds, scope by scope, the values that are in a register already."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.known: list[dict[tuple[str, Scalar, Scalar], Virtual]] = [{}]
        self.registers = 0
        self.labels = 0

    def register(self) -> Virtual:
        self.registers += 1
        return Virtual(self.registers - 1)

    def label(self) -> str:
        self.labels += 1
        return f".L{self.labels}"

    def place(self, label: str) -> None:
        self.lines.append(Line(None, (label,)))

    def emit(self, mnemonic: str, *args: Any) -> None:
        self.lines.append(self.line(mnemonic, *args))

    def line(self, mnemonic: str, *args: Any) -> Line:
        """An instruction that stands nowhere yet."""
        return Line(INSTRS[mnemonic], args)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is computed inside may not be there outside: a loop's body, a guarded part."""
        self.known.append({})
        yield
        self.known.pop()

    def variable(self, value: Scalar) -> Virtual:
        """A register that will be written again."""
        register = self.register()
        self.assign(register, value)
        return register

    def assign(self, register: Virtual, value: Scalar) -> None:
        if isinstance(value, int):
            self.emit("li", register, value)
        else:
            self.emit("add", register, value, 0)

    def compute(self, mnemonic: str, a: Scalar, b: Scalar) -> Scalar:
        """`a mnemonic b`, in a register only if it is neither constant nor one of the two."""
        if isinstance(a, int) and isinstance(b, int):
            return _FOLD[mnemonic](a, b)
        if (same := _identity(mnemonic, a, b)) is not None:
            return same
        key = (mnemonic, a, b)
        for scope in reversed(self.known):
            if key in scope:
                return scope[key]
        register = self.register()
        self.emit(mnemonic, register, a, b)
        self.known[-1][key] = register
        return register

    def add(self, a: Scalar, b: Scalar) -> Scalar:
        return self.compute("add", b, a) if isinstance(a, int) else self.compute("add", a, b)

    def sub(self, a: Scalar, b: Scalar) -> Scalar:
        return self.compute("sub", a, b)

    def mul(self, a: Scalar, b: Scalar) -> Scalar:
        return self.compute("mul", b, a) if isinstance(a, int) else self.compute("mul", a, b)

    def div(self, a: Scalar, b: Scalar) -> Scalar:
        return self.compute("div", a, b)

    def mod(self, a: Scalar, b: Scalar) -> Scalar:
        return self.compute("mod", a, b)

    def min(self, a: Scalar, b: Scalar) -> Scalar:
        return self.compute("min", a, b)

    def max(self, a: Scalar, b: Scalar) -> Scalar:
        return self.compute("max", a, b)

    def ceil_div(self, a: Scalar, b: int) -> Scalar:
        return self.div(self.add(a, b - 1), b)

    def product(self, factors: list[Scalar]) -> Scalar:
        total: Scalar = 1
        for factor in factors:
            total = self.mul(total, factor)
        return total


def _identity(mnemonic: str, a: Scalar, b: Scalar) -> Scalar | None:
    """The result where it is an operand or plain to see."""
    if mnemonic in ("add", "sub") and b == 0:
        return a
    if mnemonic in ("mul", "div") and b == 1:
        return a
    if (mnemonic == "mul" and b == 0) or (mnemonic == "sub" and a == b):
        return 0
    if mnemonic == "mod" and b == 1:
        return 0
    return None


def registers_of(args: tuple[Any, ...]) -> list[Virtual]:
    """The virtual registers among the operands of a line, those of addresses included."""
    found: list[Virtual] = []
    for a in args:
        if isinstance(a, Virtual):
            found.append(a)
        elif isinstance(a, Addr):
            if isinstance(a.base, Virtual):
                found.append(a.base)
        elif isinstance(a, tuple):
            found.extend(v for v in a if isinstance(v, Virtual))
    return found
