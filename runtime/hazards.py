"""Happens-before: finds accesses to the same bytes that nothing orders, whatever their times.

Each unit of a core counts its events; a vector of such counts says what a unit has seen of the
others. Flags, barriers and meetings carry vectors; a unit sees what the scalar unit had seen when
it handed the instruction over. Two accesses to common bytes, one of them a write, from different
units or cores, are a hazard unless the later one's vector has seen the earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ge.dialects.npu.places import Space
from ge.runtime.machine import Layout
from ge.runtime.shared_memory import GmAccess, SharedHistory
from ge.runtime.tile_history import TileHistory
from ge.timing.listener import Flag, Listener, flag_name
from ge.timing.steps import QUEUES, SCALAR, Code, Registers, Step

Vector = tuple[int, ...]
Ticket = tuple[int, Vector, int]
"""What the scalar unit had seen when it handed an instruction over: version, vector, arrivals."""


class Hazard(NamedTuple):
    """Two instructions that need an order and have none."""

    first: str
    second: str
    why: str

    def __str__(self) -> str:
        return f"{self.second} must be ordered behind {self.first}: {self.why}"


class Findings:
    """Hazards of a run, one a pair of instructions."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._seen: set[tuple[int, int, str]] = set()
        self.hazards: list[Hazard] = []

    def add(self, first: tuple[int, int, int], second: tuple[int, int, int], why: str) -> None:
        """`first` and `second` are core, queue and instruction."""
        key = (min(first[2], second[2]), max(first[2], second[2]), why.partition("[")[0])
        if key not in self._seen:
            self._seen.add(key)
            self.hazards.append(Hazard(self._text(*first), self._text(*second), why))

    def _text(self, core: int, queue: int, index: int) -> str:
        kernel = self._code.kernel_of[index]
        kind = f" of {self._code.program.kernels[kernel].kind}" if kernel >= 0 else ""
        return f"core {core} {QUEUES[queue]} {self._code.text(index)}{kind}"


class HazardChecker(Listener):
    """Checks one core; the device memory's history is shared by all cores."""

    def __init__(self, core: int, findings: Findings, shared: SharedHistory) -> None:
        self._core = core
        self._findings = findings
        self._shared = shared
        self._vectors = [[0] * len(QUEUES) for _ in QUEUES]
        self._events = [0] * len(QUEUES)
        self._joined = [0] * len(QUEUES)
        """The scalar unit's version that a queue has seen."""
        self._version = 0
        self._scalar: Vector = (0,) * len(QUEUES)
        self._flags: dict[Flag, tuple[Vector, int]] = {}
        self._cleared: dict[Flag, tuple[int, int, int]] = {}
        """Queue, event and instruction of the last wait for a flag."""
        self._arrivals: dict[int, list[int]] = {}
        self._histories = {space: TileHistory() for space in Space}
        self._arrived = 0
        self._met = 0
        self._covered = 0
        """Arrivals before the current instruction was handed over: the next one covers it."""
        self._queue = SCALAR
        self._index = 0

    def issue(self, step: Step, registers: Registers, queue: int, waiting: int) -> Any:
        return self._version, self._scalar, self._arrived

    def work(self, step: Step, ticket: Ticket) -> None:
        self._event(step.queue, step.index, ticket)

    def scalar(self, step: Step, registers: Registers) -> None:
        self._event(SCALAR, step.index, (self._version, self._scalar, self._arrived))
        self._publish()

    def signal(self, step: Step, queue: int, flag: Flag, ticket: Ticket) -> None:
        self._event(queue, step.index, ticket)
        vector = self._vectors[queue]
        last = self._cleared.get(flag)
        if last is not None and last[0] != queue and vector[last[0]] < last[1]:
            first, second = (self._core, last[0], last[2]), (self._core, queue, step.index)
            self._findings.add(first, second, "the flag may still be set when it is set again")
        self._flags[flag] = tuple(vector), step.index

    def wait(self, step: Step, queue: int, flag: Flag, ticket: Ticket) -> None:
        self._event(queue, step.index, ticket)
        self._cleared[flag] = queue, self._events[queue], step.index
        raised, _ = self._flags.pop(flag)
        _join(self._vectors[queue], raised)
        if queue == SCALAR:
            self._see(raised)

    def drain(self) -> None:
        for vector in self._vectors:
            self._see(vector)
        for history in self._histories.values():
            history.clear()

    def arrive(self, number: int) -> None:
        self._arrived = number
        self._arrivals[number] = list(self._scalar)

    def reach(self, queue: int, number: int) -> None:
        _join(self._arrivals[number], self._vectors[queue])

    def meet(self, number: int, launched: bool) -> None:
        self._met = number
        arrival = tuple(self._arrivals.pop(number))
        self._see(arrival)
        for history in self._histories.values():
            history.forget(arrival)
        self._shared.passed(self._core, number)

    def halt(self) -> None:
        for flag, (_, index) in self._flags.items():
            at = (self._core, SCALAR, index)
            why = f"flag {flag_name(flag)} is set and nobody waits for it"
            self._findings.add(at, at, why)
        self._shared.passed(self._core, None)

    def access(self, space: Space, offset: int, layout: Layout, write: bool) -> None:
        """Compare an access of the instruction being executed with those before it."""
        queue = self._queue
        history = self._histories[space]
        tile = history.tile(offset, layout, write)
        vector = self._vectors[queue]
        for other in tile.near:
            for earlier, (event, index) in other.last.items():
                if vector[earlier] < event:
                    low, high = max(tile.low, other.low), min(tile.high, other.high)
                    self._findings.add(
                        (self._core, earlier, index),
                        (self._core, queue, self._index),
                        f"bytes in {space}[{low:#x}..{high:#x})",
                    )
        tile.last[queue] = self._events[queue], self._index
        if space is Space.GM:
            access = GmAccess(tile.low, tile.high, write, self._core, layout.pattern)
            who = (self._core, queue, self._index)
            self._shared.add(access, who, self._met, self._covered)

    def _event(self, queue: int, index: int, ticket: Ticket) -> None:
        vector = self._vectors[queue]
        version, seen, self._covered = ticket
        if version > self._joined[queue]:
            self._joined[queue] = version
            _join(vector, seen)
        self._events[queue] += 1
        vector[queue] = self._events[queue]
        self._queue = queue
        self._index = index

    def _see(self, vector: Iterable[int]) -> None:
        """The scalar unit has seen `vector`, and so will all that it hands over from here on."""
        _join(self._vectors[SCALAR], vector)
        self._publish()

    def _publish(self) -> None:
        self._scalar = tuple(self._vectors[SCALAR])
        self._version += 1


def _join(vector: list[int], other: Iterable[int]) -> None:
    vector[:] = map(max, vector, other)
