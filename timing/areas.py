"""Where a program's weights, inputs, outputs and intermediates lie in device memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ge.dialects.diagnostics import DoesNotFit
from ge.dialects.npu.places import Space
from ge.dialects.npu.program import ALIGNMENT, ARENA, WEIGHTS, Program
from ge.dialects.npu.target import Target

GUARD = 8 * ALIGNMENT
"""Bytes that belong to nothing before each symbol's bytes: whoever runs past an end is caught."""


class Area(NamedTuple):
    """Bytes that one access must not leave; `blob` is the index of the weights it holds, or -1."""

    symbol: str
    address: int
    bytes: int
    writable: bool
    blob: int = -1

    @property
    def end(self) -> int:
        return self.address + self.bytes


def areas(program: Program) -> list[Area]:
    """The areas by rising address. Every array of the weights is one of its own."""
    return list(_areas(program))


def symbols(program: Program) -> dict[str, int]:
    """The address of each symbol, those of empty areas included."""
    found: dict[str, int] = {}
    for area in _areas(program):
        found.setdefault(area.symbol, area.address)
    return {WEIGHTS: 0, ARENA: 0, **found}


def needs(program: Program) -> int:
    """Bytes of device memory that the areas need."""
    return max((area.end for area in _areas(program)), default=0)


def check_fits(program: Program, target: Target) -> None:
    """Raise DoesNotFit if the areas need more device memory than the target has."""
    end = needs(program)
    if end > target.bytes_of[Space.GM]:
        raise DoesNotFit(
            f"the program needs {end} bytes of device memory, "
            f"'{target.name}' has {target.bytes_of[Space.GM]}"
        )


def _areas(program: Program) -> Iterator[Area]:
    at = GUARD
    for index, blob in enumerate(program.weights):
        yield Area(WEIGHTS, at, blob.bytes, False, index)
        at = _aligned(at + blob.bytes)
    written = {ARENA, *(t.symbol for t in program.outputs)}
    wanted = {**{t.symbol: t.bytes for t in program.signature}, ARENA: program.arena.bytes}
    for symbol, size in wanted.items():
        at += GUARD
        yield Area(symbol, at, size, symbol in written)
        at = _aligned(at + size)


def _aligned(address: int) -> int:
    return -(-address // ALIGNMENT) * ALIGNMENT
