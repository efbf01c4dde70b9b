"""What all cores do between two meetings, and what is known of doing it from a given state.

A program calls equal kernels again and again; between two meetings the cores do the same things.
From equal states they then take equal times, and what they did once need not be done again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ge.dialects.npu.isa import scalar, sync
from ge.timing.courses import Planner
from ge.timing.effects import Snapshot
from ge.timing.engine import Visit
from ge.timing.layout import Layout
from ge.timing.regions import CORE, LARGEST, Irregular
from ge.timing.steps import Code

LAST = (sync.sync__wait, sync.launch)
"""What a stretch ends with."""


class Call(NamedTuple):
    """A kernel that is called, and the model's nodes that it stands for."""

    kernel: int
    sources: tuple[str, ...]


class Stretch(NamedTuple):
    """Code from behind one meeting to the next. Stretches of one number do the same in time."""

    number: int
    end: int
    """The place behind the meeting."""
    launches: bool
    """Whether the host starts what is behind it."""
    calls: tuple[Call, ...]
    constants: Mapping[int, int]
    """What it puts into registers itself."""
    results: Mapping[int, Sequence[int]]
    """What its calls leave in registers, by core."""


class Joint:
    """The cores' states behind a meeting; `passages` says what follows, by a stretch's number."""

    __slots__ = ("passages", "states")

    def __init__(self, states: tuple[Snapshot, ...]) -> None:
        self.states = states
        self.passages: dict[int, Passage] = {}


class Passage(NamedTuple):
    """What a stretch does; all times are relative to the joint state before it."""

    states: tuple[Snapshot, ...]
    """Those in which the cores wait."""
    times: tuple[int, ...]
    """When each core's scalar unit begins to wait."""
    arrival: int
    """When the last core has arrived."""
    visits: tuple[Visit, ...]
    """Of each call, all cores together."""
    outside: Visit
    """What belongs to no kernel, all cores together."""
    counts: tuple[int, ...]
    """Instructions of each core."""
    after: dict[int, Joint]
    """The joint state behind the meeting, by its time."""


class Stretches:
    """Those of a program, as far as they are regular; and the joint states met so far."""

    def __init__(self, code: Code, layout: Layout) -> None:
        self._code = code
        self._layout = layout
        self._found: dict[int, Stretch | None] = {}
        self._recurs: Counter[int] = Counter()
        """How many stretches have a number."""
        self._numbers: dict[Any, int] = {}
        self._left: dict[tuple[int, ...], dict[int, Sequence[int]]] = {}
        """What calls leave in registers, by core."""
        self._joints: dict[tuple[Snapshot, ...], Joint] = {}

    def at(self, place: int) -> Stretch | None:
        """The stretch that begins at a place; None if it is not worth while to know it.

        That is where it has to be run to be known, and where it does what no other does.
        """
        if place not in self._found:
            self._follow(place)
        found = self._found[place]
        return found if found and self._recurs[found.number] > 1 else None

    def _follow(self, place: int) -> None:
        """Read the stretches from a place on, one behind the other."""
        while place not in self._found:
            try:
                found = self._found[place] = self._read(place)
            except Irregular:
                self._found[place] = None
                return
            self._recurs[found.number] += 1
            place = found.end

    def joint(self, states: tuple[Snapshot, ...]) -> Joint:
        """The joint state that is these states."""
        found = self._joints.get(states)
        if found is None:
            found = self._joints[states] = Joint(states)
        return found

    def _read(self, place: int) -> Stretch:
        code, insts = self._code, self._code.program.code
        constants: dict[int, int] = {}
        signature: list[Any] = []
        calls: list[Call] = []
        results: dict[int, Sequence[int]] = {}
        while place < len(insts) and insts[place].instr not in LAST:
            inst = insts[place]
            if code.kernel_of[place] >= 0:
                raise Irregular
            if inst.instr in scalar.CONSTANTS:
                register = inst.args[0].number
                constants[register] = int(code.operand(inst, 1))
                results.pop(register, None)
                signature.append(inst.instr)
            elif inst.instr is scalar.call:
                label = code.label(inst.args[0])
                signature.append(self._call(label, constants, results))
                if (kernel := code.kernel_of[label]) >= 0:
                    calls.append(Call(kernel, code.sources(kernel, place)))
            elif inst.instr is sync.sync__arrive:
                signature.append(inst.instr)
            else:
                raise Irregular
            place += 1
        if place == len(insts):
            raise Irregular
        meeting = insts[place].instr
        key = (*signature, meeting)
        number = self._numbers.setdefault(key, len(self._numbers))
        launches = meeting is sync.launch
        return Stretch(number, place + 1, launches, tuple(calls), constants, results)

    def _call(
        self, label: int, constants: dict[int, int], results: dict[int, Sequence[int]]
    ) -> tuple[int, ...]:
        """The function and what its time depends on; what it leaves goes to `results`."""
        planner = self._layout.function(label)
        if planner is None:
            raise Irregular
        head: list[int] = []
        for register in planner.head:
            if register == CORE:
                continue
            value, modulus = constants.get(register), planner.region.head[register]
            if value is None or abs(value) > LARGEST:
                raise Irregular
            head.append(value % modulus if modulus else value)
        key = (label, *head)
        if key not in self._left:
            cores = range(self._code.program.cores)
            left = [_left(planner, core, head) for core in cores]
            self._left[key] = dict(zip(planner.results, zip(*left, strict=True), strict=True))
        for register in self._left[key]:
            constants.pop(register, None)
        results |= self._left[key]
        return key


def _left(planner: Planner, core: int, head: Sequence[int]) -> Sequence[int]:
    """The registers that a core's course through a function leaves."""
    values = iter(head)
    whole = [core if r == CORE else next(values) for r in planner.head]
    return planner.course(1, *whole).results
