"""Syntactic values: what an operand of an instruction looks like, whatever slot it stands in."""

from __future__ import annotations

from typing import Any, NamedTuple

from ge.dialects.npu.places import Space


class Reg(NamedTuple):
    """A scalar register."""

    number: int

    def __str__(self) -> str:
        return f"x{self.number}"


class Name(str):
    """A bare word of the assembly text: an enumerated operand, a label or a symbol."""

    __slots__ = ()


class Sym(NamedTuple):
    """A symbol plus a byte offset, bound to an address when the program is loaded."""

    name: str
    addend: int

    def __str__(self) -> str:
        return f"{self.name}+{self.addend:#x}" if self.addend else self.name


class Addr(NamedTuple):
    """A byte address in a memory: `offset`, or `base` register plus `offset`."""

    space: Space
    offset: int
    base: Reg | None = None

    def __str__(self) -> str:
        if self.base is None:
            return f"{self.space}[{self.offset:#x}]"
        return (
            f"{self.space}[{self.base}+{self.offset:#x}]"
            if self.offset
            else f"{self.space}[{self.base}]"
        )


Number = int | Reg
Value = Any
"""Reg, int, float, Addr, Sym, Name, a tuple of numbers, or a member of an enumeration."""


def written(value: Value) -> str:
    """A syntactic value as assembly writes it, for messages."""
    return f"[{','.join(map(str, value))}]" if type(value) is tuple else str(value)
