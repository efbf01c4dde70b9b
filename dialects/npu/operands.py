"""Operand kinds: what an operand may be, its text and its bits, each in both directions.

The assembly grammar knows only syntactic values (`Reg`, numbers, `Addr`, `Name`, tuples); a kind
turns one into the operand it stands for, or says what must stand there instead.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Protocol

from ge.dialects import dtypes
from ge.dialects.npu.places import Space, Unit
from ge.dialects.npu.routine import Routine
from ge.dialects.npu.values import Addr as Addr
from ge.dialects.npu.values import Name as Name
from ge.dialects.npu.values import Number as Number
from ge.dialects.npu.values import Reg as Reg
from ge.dialects.npu.values import Sym as Sym
from ge.dialects.npu.values import Value as Value
from ge.dialects.npu.values import written as written
from ge.dialects.npu.words import Activation as Activation
from ge.dialects.npu.words import Compare as Compare
from ge.dialects.npu.words import Round as Round

REGISTERS = 128
REG_BITS = 7
NUM_BITS = 32


class OperandError(ValueError):
    """An operand does not fit its slot; `index` says which."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


class Kind(Protocol):
    """One operand slot of an instruction."""

    keyed: ClassVar[bool]
    """Whether the operand is written `name=value`."""

    @property
    def what(self) -> str:
        """What must stand in the slot, for messages."""
        ...

    def read(self, value: Value) -> Value:
        """The operand a syntactic value stands for; raises ValueError if it cannot."""
        ...

    def text(self, value: Value) -> str: ...

    def encode(self, value: Value) -> tuple[int, int]:
        """The operand's bits and how many they are."""
        ...

    def decode(self, word: int, at: int) -> tuple[Value, int]:
        """The operand whose bits start at bit `at` of `word`, and the bit after it."""
        ...


def _signed(bits: int, width: int) -> int:
    return bits - (1 << width) if bits >> (width - 1) else bits


def _take(word: int, at: int, width: int) -> tuple[int, int]:
    return (word >> at) & ((1 << width) - 1), at + width


@dataclass(frozen=True)
class RegKind:
    """A scalar register."""

    keyed: ClassVar[bool] = False
    what: ClassVar[str] = f"a register x0..x{REGISTERS - 1}"

    def read(self, value: Value) -> Reg:
        if isinstance(value, Reg) and value.number < REGISTERS:
            return value
        raise ValueError

    def text(self, value: Reg) -> str:
        return str(value)

    def encode(self, value: Reg) -> tuple[int, int]:
        return value.number, REG_BITS

    def decode(self, word: int, at: int) -> tuple[Reg, int]:
        bits, at = _take(word, at, REG_BITS)
        return Reg(bits), at


@dataclass(frozen=True)
class NumKind:
    """A register, or an integer of 32 bits with sign: one tag bit tells them apart."""

    keyed: bool = True

    what: ClassVar[str] = f"a register or an integer in [{-(1 << 31)}, {(1 << 31) - 1}]"

    def read(self, value: Value) -> Number:
        if isinstance(value, Reg):
            return RegKind().read(value)
        if type(value) is int and -(1 << 31) <= value < 1 << 31:
            return value
        raise ValueError

    def text(self, value: Number) -> str:
        return str(value)

    def encode(self, value: Number) -> tuple[int, int]:
        if isinstance(value, Reg):
            return value.number << 1 | 1, 1 + REG_BITS
        return (value & (1 << NUM_BITS) - 1) << 1, 1 + NUM_BITS

    def decode(self, word: int, at: int) -> tuple[Number, int]:
        if word >> at & 1:
            bits, at = _take(word, at + 1, REG_BITS)
            return Reg(bits), at
        bits, at = _take(word, at + 1, NUM_BITS)
        return _signed(bits, NUM_BITS), at


@dataclass(frozen=True)
class WideKind:
    """An integer of 64 bits with sign."""

    keyed: ClassVar[bool] = False
    what: ClassVar[str] = "an integer of 64 bits"

    def read(self, value: Value) -> int:
        if type(value) is int and -(1 << 63) <= value < 1 << 63:
            return value
        raise ValueError

    def text(self, value: int) -> str:
        return str(value)

    def encode(self, value: int) -> tuple[int, int]:
        return value & (1 << 64) - 1, 64

    def decode(self, word: int, at: int) -> tuple[int, int]:
        bits, at = _take(word, at, 64)
        return _signed(bits, 64), at


@dataclass(frozen=True)
class RealKind:
    """A real number, kept as a 64-bit float: exact for every element type up to 32 bits."""

    keyed: ClassVar[bool] = False
    what: ClassVar[str] = "a number"

    def read(self, value: Value) -> float:
        if type(value) in (int, float):
            return float(value)
        if value in ("inf", "nan"):
            return float(value)
        raise ValueError

    def text(self, value: float) -> str:
        return repr(value)

    def encode(self, value: float) -> tuple[int, int]:
        if value != value:
            value = math.nan  # One nan: text has no word for its sign and payload.
        return int.from_bytes(struct.pack("<d", value), "little"), 64

    def decode(self, word: int, at: int) -> tuple[float, int]:
        bits, at = _take(word, at, 64)
        (value,) = struct.unpack("<d", bits.to_bytes(8, "little"))
        return value, at


@dataclass(frozen=True)
class AtKind:
    """An address in a fixed memory: base register and an offset of 32 bits."""

    space: Space
    keyed: ClassVar[bool] = False

    @property
    def what(self) -> str:
        return f"an address {self.space}[0..0xffffffff]"

    def read(self, value: Value) -> Addr:
        if (
            isinstance(value, Addr)
            and value.space is self.space
            and 0 <= value.offset < 1 << NUM_BITS
            and (value.base is None or value.base.number < REGISTERS)
        ):
            return value
        raise ValueError

    def text(self, value: Addr) -> str:
        return str(value)

    def encode(self, value: Addr) -> tuple[int, int]:
        if value.base is None:
            return value.offset << 1, 1 + NUM_BITS
        return (value.offset << REG_BITS | value.base.number) << 1 | 1, 1 + REG_BITS + NUM_BITS

    def decode(self, word: int, at: int) -> tuple[Addr, int]:
        base = None
        has_base, at = _take(word, at, 1)
        if has_base:
            index, at = _take(word, at, REG_BITS)
            base = Reg(index)
        offset, at = _take(word, at, NUM_BITS)
        return Addr(self.space, offset, base), at


@dataclass(frozen=True)
class DimsKind:
    """A list of numbers: one a dimension, outermost first, or one a tensor."""

    most: int = 8
    bits: int = 4
    """Bits of the count."""
    keyed: ClassVar[bool] = True
    num: ClassVar[NumKind] = NumKind()

    @property
    def what(self) -> str:
        return f"a list of 1 to {self.most} registers or 32-bit integers, like [128,x5]"

    def read(self, value: Value) -> tuple[Number, ...]:
        if type(value) is tuple and 1 <= len(value) <= self.most:
            return tuple(self.num.read(v) for v in value)
        raise ValueError

    def text(self, value: tuple[Number, ...]) -> str:
        return f"[{','.join(map(str, value))}]"

    def encode(self, value: tuple[Number, ...]) -> tuple[int, int]:
        word, width = len(value), self.bits
        for v in value:
            bits, n = self.num.encode(v)
            word |= bits << width
            width += n
        return word, width

    def decode(self, word: int, at: int) -> tuple[tuple[Number, ...], int]:
        count, at = _take(word, at, self.bits)
        values = []
        for _ in range(count):
            value, at = self.num.decode(word, at)
            values.append(value)
        return self.read(tuple(values)), at


@dataclass(frozen=True)
class WordKind:
    """One word of an enumeration; `rows` maps the word to its member, in encoding order."""

    noun: str
    rows: tuple[tuple[str, Any], ...]
    keyed: ClassVar[bool] = False
    bits: ClassVar[int] = 5

    @property
    def what(self) -> str:
        return f"{self.noun} ({', '.join(word for word, _ in self.rows)})"

    def read(self, value: Value) -> Any:
        for word, member in self.rows:
            if value is member or (isinstance(value, Name) and value == word):
                return member
        raise ValueError

    def text(self, value: Any) -> str:
        return str(value)

    def encode(self, value: Any) -> tuple[int, int]:
        return next(i for i, (_, m) in enumerate(self.rows) if m is value), self.bits

    def decode(self, word: int, at: int) -> tuple[Any, int]:
        index, at = _take(word, at, self.bits)
        if index >= len(self.rows):
            raise ValueError(f"{self.noun} number {index} is unknown")
        return self.rows[index][1], at


@dataclass(frozen=True)
class LabelKind:
    """A place in the code: a label in text, a byte distance from the instruction in bits."""

    keyed: ClassVar[bool] = False
    what: ClassVar[str] = "a label"

    def read(self, value: Value) -> Name | int:
        if isinstance(value, Name) or type(value) is int:
            return value
        raise ValueError

    def text(self, value: Name | int) -> str:
        return str(value)

    def encode(self, value: Name | int) -> tuple[int, int]:
        distance = (
            value if isinstance(value, int) else 0
        )  # A name is patched when all labels are known.
        return distance & (1 << NUM_BITS) - 1, NUM_BITS

    def decode(self, word: int, at: int) -> tuple[int, int]:
        bits, at = _take(word, at, NUM_BITS)
        return _signed(bits, NUM_BITS), at


@dataclass(frozen=True)
class SymKind:
    """A symbol with an offset; 64 zero bits that a relocation fills when the program is loaded."""

    keyed: ClassVar[bool] = False
    what: ClassVar[str] = "a symbol, like weights+0x40"

    def read(self, value: Value) -> Sym:
        if isinstance(value, Sym):
            return value
        if isinstance(value, Name):
            return Sym(str(value), 0)
        raise ValueError

    def text(self, value: Sym) -> str:
        return str(value)

    def encode(self, value: Sym | int) -> tuple[int, int]:
        return (value if isinstance(value, int) else 0), 64

    def decode(self, word: int, at: int) -> tuple[int, int]:
        return _take(word, at, 64)


@dataclass(frozen=True)
class RoutineKind(SymKind):
    """A routine of the AI CPU; encoded as a symbol is."""

    what: ClassVar[str] = "a routine"

    def read(self, value: Value) -> Sym:
        symbol = super().read(value)
        if symbol.addend:
            raise ValueError
        return symbol


def _words(members: Iterable[Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((str(m), m) for m in members)


Dst = Annotated[Reg, RegKind()]
Num = Annotated[int, NumKind()]
Src = Annotated[int, NumKind(keyed=False)]
Wide = Annotated[int, WideKind()]
Real = Annotated[float, RealKind()]
Gm = Annotated[Addr, AtKind(Space.GM)]
L1 = Annotated[Addr, AtKind(Space.L1)]
L0a = Annotated[Addr, AtKind(Space.L0A)]
L0b = Annotated[Addr, AtKind(Space.L0B)]
L0c = Annotated[Addr, AtKind(Space.L0C)]
Ub = Annotated[Addr, AtKind(Space.UB)]
Dims = Annotated[tuple[int, ...], DimsKind()]
Type = Annotated[dtypes.DType, WordKind("an element type", _words(dtypes.DTYPES))]
Rounding = Annotated[Round, WordKind("a rounding mode", _words(Round))]
Comparison = Annotated[Compare, WordKind("a comparison", _words(Compare))]
Act = Annotated[Activation, WordKind("an activation", _words(Activation))]
Queue = Annotated[Unit, WordKind("a unit", _words(Unit))]
Label = Annotated[int, LabelKind()]
Symbol = Annotated[int, SymKind()]
Task = Annotated[Routine, RoutineKind()]
Places = Annotated[tuple[int, ...], DimsKind(most=60, bits=6)]
