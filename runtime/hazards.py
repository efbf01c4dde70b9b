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
from ge.runtime.overlap import touch
from ge.runtime.shared_memory import GmAccess, SharedHistory
from ge.timing.listener import Flag, Listener
from ge.timing.steps import QUEUES, SCALAR, Code, Registers, Step

Vector = tuple[int, ...]


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
        key = (first[2], second[2], why.partition("[")[0])
        if key not in self._seen:
            self._seen.add(key)
            self.hazards.append(Hazard(self._text(*first), self._text(*second), why))

    def _text(self, core: int, queue: int, index: int) -> str:
        kernel = self._code.kernel_of[index]
        kind = f" of {self._code.program.kernels[kernel].kind}" if kernel >= 0 else ""
        return f"core {core} {QUEUES[queue]} {self._code.text(index)}{kind}"


class _Tile:
    """Bytes of one memory that were accessed in one way, and who did that last."""

    __slots__ = ("high", "layout", "low", "near", "reads", "writes")

    def __init__(self, offset: int, layout: Layout) -> None:
        self.layout = layout
        self.low = offset + layout.low
        self.high = offset + layout.high
        self.reads: dict[int, tuple[int, int]] = {}
        """Event and instruction of the last read by each queue: earlier ones are ordered by it."""
        self.writes: dict[int, tuple[int, int]] = {}
        self.near: list[_Tile] = []
        """Tiles that share bytes with this one, itself included."""

    def touches(self, other: _Tile) -> bool:
        if other.low >= self.high or self.low >= other.high:
            return False
        return touch(other.low - self.low, self.layout.pattern, other.layout.pattern)


class _Chip:
    """The tiles of one on-chip memory."""

    def __init__(self) -> None:
        self.tiles: dict[tuple[int, Layout], _Tile] = {}

    def tile(self, offset: int, layout: Layout) -> _Tile:
        found = self.tiles.get((offset, layout))
        if found is None:
            found = _Tile(offset, layout)
            for other in self.tiles.values():
                if found.touches(other):
                    found.near.append(other)
                    other.near.append(found)
            found.near.append(found)
            self.tiles[offset, layout] = found
        return found

    def forget(self, seen: Vector) -> None:
        """Drop what `seen` has seen: all that follows is ordered behind it."""
        kept = {key: tile for key, tile in self.tiles.items() if _unseen(tile, seen)}
        if len(kept) == len(self.tiles):
            return
        alive = set(map(id, kept.values()))
        for tile in kept.values():
            tile.near = [other for other in tile.near if id(other) in alive]
        self.tiles = kept


def _unseen(tile: _Tile, seen: Vector) -> bool:
    return any(
        event > seen[queue]
        for accesses in (tile.reads, tile.writes)
        for queue, (event, _) in accesses.items()
    )


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
        self._chips: dict[Space, _Chip] = {space: _Chip() for space in Space}
        self._arrived = 0
        self._met = 0
        self._queue = SCALAR
        self._index = 0

    def issue(self, step: Step, registers: Registers, queue: int, waiting: int) -> Any:
        return self._version, self._scalar

    def work(self, step: Step, ticket: tuple[int, Vector]) -> None:
        self._event(step.queue, step.index, ticket)

    def scalar(self, step: Step, registers: Registers) -> None:
        self._event(SCALAR, step.index, (self._version, self._scalar))
        self._publish()

    def signal(self, step: Step, queue: int, flag: Flag, ticket: tuple[int, Vector]) -> None:
        self._event(queue, step.index, ticket)
        vector = self._vectors[queue]
        last = self._cleared.get(flag)
        if last is not None and last[0] != queue and vector[last[0]] < last[1]:
            first, second = (self._core, last[0], last[2]), (self._core, queue, step.index)
            self._findings.add(first, second, "the flag may still be set when it is set again")
        self._flags[flag] = tuple(vector), step.index

    def wait(self, step: Step, queue: int, flag: Flag, ticket: tuple[int, Vector]) -> None:
        self._event(queue, step.index, ticket)
        self._cleared[flag] = queue, self._events[queue], step.index
        raised, _ = self._flags.pop(flag)
        _join(self._vectors[queue], raised)
        if queue == SCALAR:
            self._see(raised)

    def drain(self) -> None:
        for vector in self._vectors:
            self._see(vector)
        for chip in self._chips.values():
            chip.tiles.clear()

    def arrive(self, number: int) -> None:
        self._arrived = number
        self._arrivals[number] = list(self._scalar)

    def reach(self, queue: int, number: int) -> None:
        _join(self._arrivals[number], self._vectors[queue])

    def meet(self, number: int, launched: bool) -> None:
        self._met = number
        arrival = tuple(self._arrivals.pop(number))
        self._see(arrival)
        for chip in self._chips.values():
            chip.forget(arrival)
        self._shared.passed(self._core, number)

    def halt(self) -> None:
        for flag, (_, index) in self._flags.items():
            at = (self._core, SCALAR, index)
            why = f"flag {flag[0]} -> {flag[1]} {flag[2]} is set and nobody waits for it"
            self._findings.add(at, at, why)
        self._shared.passed(self._core, None)

    def access(self, space: Space, offset: int, layout: Layout, write: bool) -> None:
        """Compare an access of the instruction being executed with those before it."""
        queue = self._queue
        if space is Space.GM:
            self._shared.add(
                GmAccess(
                    offset + layout.low,
                    offset + layout.high,
                    write,
                    (self._core, queue, self._index),
                    self._events[queue],
                    tuple(self._vectors[queue]),
                    layout.pattern,
                ),
                self._met,
                self._arrived,
            )
            return
        tile = self._chips[space].tile(offset, layout)
        for other in tile.near:
            if other.writes:
                self._compare(space, tile, other, other.writes, "written")
            if write and other.reads:
                self._compare(space, tile, other, other.reads, "read")
        (tile.writes if write else tile.reads)[queue] = self._events[queue], self._index

    def _compare(
        self,
        space: Space,
        tile: _Tile,
        other: _Tile,
        accesses: dict[int, tuple[int, int]],
        done: str,
    ) -> None:
        vector = self._vectors[self._queue]
        for queue, (event, index) in accesses.items():
            if vector[queue] < event:
                low, high = max(tile.low, other.low), min(tile.high, other.high)
                self._findings.add(
                    (self._core, queue, index),
                    (self._core, self._queue, self._index),
                    f"bytes {done} in {space}[{low:#x}..{high:#x})",
                )

    def _event(self, queue: int, index: int, ticket: tuple[int, Vector]) -> None:
        vector = self._vectors[queue]
        version, seen = ticket
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
