"""Scalar registers for lines with virtual ones: linear scan over live ranges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from ge.dialects.diagnostics import DoesNotFit
from ge.dialects.npu.operands import REGISTERS, Addr, Reg
from ge.lowering.scalars import Line, Virtual, registers_of

KEPT = 8
"""The last registers: a kernel leaves them as they are."""


def allocate(
    lines: list[Line], arguments: dict[Virtual, Reg], where: str, *, stay: bool = False
) -> list[Line]:
    """The lines over real registers; `arguments` hold their values from the start.

    A value that a loop uses but does not make stays alive until the loop ends; arguments that
    `stay` are there behind the lines, too.
    """
    lines = without_dead(lines)
    last = _last_uses(lines, arguments)
    if stay:
        last |= dict.fromkeys(arguments, len(lines))
    free = [n for n in range(REGISTERS - KEPT) if Reg(n) not in arguments.values()]
    heapify(free)
    held: dict[Virtual, Reg] = dict(arguments)
    ends: list[tuple[int, int]] = [(last.get(v, -1), r.number) for v, r in arguments.items()]
    heapify(ends)
    out = []
    for at, line in enumerate(lines):
        while ends and ends[0][0] < at:
            heappush(free, heappop(ends)[1])
        for v in registers_of(line.args):
            if v not in held:
                if not free:
                    raise DoesNotFit(
                        f"{where} needs more than {REGISTERS - KEPT} scalar registers at once"
                    )
                held[v] = Reg(heappop(free))
                heappush(ends, (last[v], held[v].number))
        out.append(Line(line.row, tuple(_with(a, held) for a in line.args)))
    return out


def _with(value: Any, held: dict[Virtual, Reg]) -> Any:
    if isinstance(value, Virtual):
        return held[value]
    if isinstance(value, Addr):
        return Addr(value.space, value.offset, _with(value.base, held))
    if type(value) is tuple:
        return tuple(_with(v, held) for v in value)
    return value


def without_dead(lines: list[Line]) -> list[Line]:
    """The lines without scalar results that nothing reads; what is written twice is kept."""
    written = Counter(line.args[0] for line in lines if _computes(line))
    read: set[Virtual] = set()
    kept = []
    for line in reversed(lines):
        result = line.args[0] if _computes(line) else None
        if result is not None and written[result] == 1 and result not in read:
            continue
        read.update(registers_of(line.args[1:] if result is not None else line.args))
        kept.append(line)
    return kept[::-1]


def _computes(line: Line) -> bool:
    """Whether the line does nothing but write its first operand, a register."""
    return line.row is not None and bool(line.args) and isinstance(line.args[0], Virtual)


def _last_uses(lines: list[Line], arguments: Iterable[Virtual]) -> dict[Virtual, int]:
    """The last line that needs each register, with loops taken into account."""
    first: dict[Virtual, int] = dict.fromkeys(arguments, -1)
    last: dict[Virtual, int] = {}
    place = {line.args[0]: at for at, line in enumerate(lines) if line.row is None}
    open_loops: list[tuple[int, int]] = []
    for at, line in enumerate(lines):
        while open_loops and open_loops[-1][1] <= at:
            open_loops.pop()
        for v in registers_of(line.args):
            first.setdefault(v, at)
            end = at
            for start, stop in open_loops:
                if first[v] <= start:
                    end = max(end, stop)
                    break
            last[v] = max(last.get(v, 0), end)
        if line.row is not None and line.row.mnemonic == "loop":
            open_loops.append((at, place[line.args[1]]))
    return last
