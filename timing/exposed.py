"""Registers that code outside regions reads while a region may have written them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ge.dialects.npu.instr import Inst
from ge.dialects.npu.isa import scalar
from ge.dialects.npu.operands import Addr, Value
from ge.timing.regions import BRANCHES, Region, flow

LEAVES = (scalar.ret, scalar.halt, scalar.jump)


class Outside:
    """The code of a program that belongs to no region, read from its beginning to its end.

    What such code has written itself before it reads it, no region needs to hand on. A register is
    taken to be handed on wherever that is not plain: where code is entered from elsewhere, behind
    calls of code that is no region, and in loops around regions.
    """

    def __init__(
        self,
        code: list[Inst],
        label: Callable[[Value], int],
        functions: Mapping[int, Region],
        loops: Mapping[int, Region],
    ) -> None:
        self._code = code
        self._label = label
        self._functions = functions
        self._loops = loops
        self._covered = {r.start: r for r in functions.values()}
        self._called = {label(i.args[0]) for i in code if i.instr is scalar.call} - set(functions)
        self._entered = {label(i.args[-1]) for i in code if i.instr in BRANCHES}
        self._exposes: dict[int, set[int]] = {place: set() for place in self._called}
        self._flows: dict[Inst, tuple[set[int], int]] = {}
        """What instructions read, and what they write; -1 for nothing."""
        self._needed: set[int] = set()
        self._sink = self._needed
        """Where what is exposed goes: to all regions, or to the callers of a function."""
        self._written: set[int] = set()
        self._ends: list[tuple[int, set[int]]] = []

    def needed(self) -> set[int]:
        """The registers, given what each region needs when it begins."""
        before = -1
        while before != (before := sum(map(len, (self._needed, *self._exposes.values())))):
            self._read()
        return self._needed

    def _read(self) -> None:
        self._sink, self._written, self._ends = self._needed, set(), []
        place = 0
        while place < len(self._code):
            self._arrive(place)
            region = self._covered.get(place)
            if region is not None:
                place = region.end
                continue
            inst = self._code[place]
            self._instruction(inst)
            place += 1
            if inst.instr is scalar.loop:
                place = self._loop(place)

    def _arrive(self, place: int) -> None:
        """Forget what is not sure to have been written when code is reached another way."""
        while self._ends and self._ends[-1][0] <= place:
            self._written = self._ends.pop()[1]
        if place in self._exposes:
            self._sink, self._written, self._ends = self._exposes[place], set(), []
        elif place in self._entered:
            self._sink, self._written = self._needed, set()

    def _instruction(self, inst: Inst) -> None:
        known = self._flows.get(inst)
        if known is None:
            found = flow(inst)
            bases = {v.base.number for v in inst.args if isinstance(v, Addr) and v.base}
            known = self._flows[inst] = {*found.reads} | bases, found.target
        reads, target = known
        if reads:
            self._sink |= reads - self._written
        if target >= 0:
            self._written.add(target)
        if inst.instr is scalar.call:
            self._call(self._label(inst.args[0]))
        if inst.instr in LEAVES:
            self._sink, self._written = self._needed, set()

    def _call(self, label: int) -> None:
        region = self._functions.get(label)
        if region is not None:
            self._sink |= region.head.keys() - self._written
            self._written -= region.writes
        else:
            self._sink |= self._exposes[label] - self._written
            self._written = set()

    def _loop(self, place: int) -> int:
        """Go into a loop that is no region, or past one that is; where that leads."""
        region = self._loops.get(place - 1)
        if region is not None:
            self._sink |= region.head.keys() - self._written
            self._written -= region.writes
            return region.end
        end = self._label(self._code[place - 1].args[1])
        inside = range(place, end)
        if any(self._code[at].instr in (scalar.call, scalar.loop) for at in inside):
            # A later trip may read what a region of an earlier one has written.
            self._written = set()
        self._ends.append((end, set(self._written)))
        return place
