"""Loops and functions whose course can be known before they run, and which registers it needs.

Time depends on registers only through sizes, flags, trip counts, branches and `share`. For each
register a region says how exactly its value is needed when the region begins: not at all, modulo
a number (a counter that only picks one of two buffers), or exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import lcm
from typing import NamedTuple

from ge.dialects.npu.instr import Inst, Instr
from ge.dialects.npu.isa import scalar, sync
from ge.dialects.npu.operands import REGISTERS, DimsKind, NumKind, Reg, RegKind, Value

CORE = REGISTERS
"""Stands for the core's number, as if a register held it."""
EXACT = 0

Demand = dict[int, int]
"""Registers that are needed, each modulo a number; modulo 0 means exactly."""

ENDS = (scalar.lds, scalar.call, scalar.ret, scalar.halt)
MEETINGS = (sync.sync__arrive, sync.sync__wait, sync.launch)
IRREGULAR = {*ENDS, *MEETINGS}
"""What a region must not hold: data, other code, and other cores."""
BRANCHES = (scalar.jump, scalar.bz, scalar.bnz)


class Irregular(Exception):
    """The code's course cannot be known before it runs."""


class Flow(NamedTuple):
    """What one instruction reads and writes; -1 for no register."""

    target: int
    numbers: tuple[Value, ...]
    """Its number operands, and the registers in its lists of numbers."""
    reads: tuple[int, ...]
    """The registers among them."""


def flow(inst: Inst) -> Flow:
    """The registers of an instruction, those of addresses left out."""
    row, args = inst
    target, numbers, lists = _operands(row)
    found = [args[index] for index in numbers]
    for index in lists:
        found += [v for v in args[index] if type(v) is Reg]
    if row is scalar.core:
        found.append(Reg(CORE))
    reads = tuple([v.number for v in found if type(v) is Reg])
    return Flow(args[target].number if target >= 0 else -1, tuple(found), reads)


@cache
def _operands(row: Instr) -> tuple[int, list[int], list[int]]:
    """Which operands are the target, -1 for none, numbers, and lists of numbers."""
    kinds = list(enumerate(row.operands.values()))
    target = next((i for i, kind in kinds if isinstance(kind, RegKind)), -1)
    numbers = [i for i, kind in kinds if isinstance(kind, NumKind)]
    return target, numbers, [i for i, kind in kinds if isinstance(kind, DimsKind)]


class Region:
    """Code that is run `trips` times: a loop's body, or a function, which is run once."""

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.body: list[int | Region] = []
        """Instructions, and inner loops behind their `loop` instruction."""
        self.targets: dict[int, int] = {}
        """Where its branches lead, by their place."""
        self.head: Demand = {}
        """What each trip needs when it begins."""
        self.out: Demand = {}
        """What is needed of it behind its end."""
        self.settled = False
        """Whether `head` is what `out` asks for."""
        self.writes: set[int] = set()
        self.needed: dict[int, list[int]] = {}
        """Scalar instructions whose results matter, and modulo what each of their numbers does."""


class Reader:
    """Reads regions out of a program's code."""

    def __init__(self, code: list[Inst], label: Callable[[Value], int]) -> None:
        self._code = code
        self._label = label
        self.flows: dict[int, Flow] = {}

    def function(self, start: int) -> Region:
        """The function at `start`, its `ret` left out. Raises Irregular."""
        end = start
        while end < len(self._code) and self._code[end].instr is not scalar.ret:
            end += 1
        return self._region(start, end)

    def loop(self, place: int) -> Region:
        """The loop that the instruction at `place` begins. Raises Irregular."""
        return self._region(place + 1, self._label(self._code[place].args[1]))

    def _region(self, start: int, end: int) -> Region:
        if not start < end <= len(self._code):
            raise Irregular
        region, at, inner = Region(start, end), start, []
        while at < end:
            row = self._code[at].instr
            region.body.append(at)
            self._read(region, at)
            at += 1
            if row is scalar.loop:
                loop = self.loop(at - 1)
                if loop.end > end:
                    raise Irregular
                region.body.append(loop)
                region.writes |= loop.writes
                inner.append(loop)
                at = loop.end
        for place, target in region.targets.items():
            inside = any(loop.start <= target < loop.end for loop in inner)
            if not place < target <= end or inside:
                raise Irregular
        return region

    def _read(self, region: Region, place: int) -> None:
        inst = self._code[place]
        if inst.instr in IRREGULAR:
            raise Irregular
        found = self.flows[place] = flow(inst)
        if found.target >= 0:
            region.writes.add(found.target)
        if inst.instr in BRANCHES:
            region.targets[place] = self._label(inst.args[-1])

    # Which registers are needed: from the end of the code to its beginning.

    def settle(self, region: Region, out: Demand) -> None:
        """Work out `head` for a region that is run again and again, given what is needed of it."""
        if not _join(region.out, out) and region.settled:
            return
        region.settled = True
        while True:
            end = dict(region.out)
            _join(end, region.head)
            if not _join(region.head, self._before(region, end)):
                return

    def settle_once(self, region: Region, out: Demand) -> None:
        """The same for a region that is run once."""
        if not _join(region.out, out) and region.settled:
            return
        region.settled = True
        region.head = self._before(region, dict(region.out))

    def _before(self, region: Region, demand: Demand) -> Demand:
        at = {region.end: dict(demand)}
        targets, flows = region.targets, self.flows
        wanted = set(targets.values())
        for item in reversed(region.body):
            if isinstance(item, Region):
                self.settle(item, {r: m for r, m in demand.items() if r in item.writes})
                _join(demand, item.head)
                place = item.start
            else:
                place = item
                target, _, reads = flows[place]
                if target >= 0:
                    if (modulus := demand.pop(target, 1)) != 1:
                        self._operands(region, place, modulus, demand)
                else:
                    if place in targets and self._code[place].instr is scalar.jump:
                        demand.clear()
                    for register in reads:
                        demand[register] = EXACT
                if place in targets:
                    _join(demand, at[targets[place]])
            if place in wanted:
                at[place] = dict(demand)
        return demand

    def _operands(self, region: Region, place: int, modulus: int, demand: Demand) -> None:
        """Need what a scalar instruction reads whose result is needed modulo `modulus`."""
        numbers = self.flows[place].numbers
        rule = MODULAR.get(self._code[place].instr.mnemonic, _exact)
        moduli = region.needed[place] = rule(modulus, numbers)
        for number, needed in zip(numbers, moduli, strict=True):
            if type(number) is Reg and needed != 1:
                register = number.number
                old = demand.get(register, 1)
                if old != needed:
                    demand[register] = lcm(old, needed)


def _join(demand: Demand, other: Demand) -> bool:
    """Need what `other` needs, too; whether that is more than before."""
    grown = False
    for register, modulus in other.items():
        old = demand.get(register, 1)
        if old != modulus and (new := lcm(old, modulus)) != old:
            demand[register] = new
            grown = True
    return grown


def _exact(modulus: int, numbers: tuple[Value, ...]) -> list[int]:
    return [EXACT] * len(numbers)


def _same(modulus: int, numbers: tuple[Value, ...]) -> list[int]:
    return [modulus] * len(numbers)


def _remainder(modulus: int, numbers: tuple[Value, ...]) -> list[int]:
    divisor = numbers[1]
    return [EXACT if isinstance(divisor, Reg) else abs(divisor), EXACT]


MODULAR = {"add": _same, "sub": _same, "mod": _remainder}
"""Instructions whose result modulo a number depends on their operands modulo a number."""
