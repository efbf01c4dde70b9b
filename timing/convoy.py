"""All cores together: one after the other, or at once where it is known what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ge.dialects.diagnostics import CheckFailed
from ge.timing.effects import Snapshot, added
from ge.timing.engine import Clock, Meetings, Visit
from ge.timing.snapshots import Snapshots, resume
from ge.timing.stretches import Call, Joint, Passage, Stretch, Stretches
from ge.timing.walk import Core


class Convoy:
    """The cores of a run, each followed by a clock and nothing else.

    While it goes through known stretches the cores stay where they were; `_settle` brings them to
    where it is.
    """

    def __init__(
        self, cores: Sequence[Core], meetings: Meetings, stretches: Stretches, snapshots: Snapshots
    ) -> None:
        self._cores = cores
        self._clocks: list[Clock] = [core.clock for core in cores]
        self._meetings = meetings
        self._stretches = stretches
        self._snapshots = snapshots
        self._counts = [0] * len(cores)
        self._registers: dict[int, int | Sequence[int]] = {}
        self._ahead = False
        """Whether the cores have yet to be brought to where the convoy is."""

    def go(self) -> bool:
        """From the meeting that all cores wait at to another, or to the end of the program.

        False if they do not all wait at one.
        """
        waits = self._cores[0].waits
        if waits is None or any(core.waits != waits for core in self._cores):
            return False
        for core in self._cores:
            core.go_on()
        (number, place), base = waits, self._clocks[0].now
        stretch = self._stretches.at(place)
        joint = self._joint() if stretch else None
        while stretch is not None and joint is not None:
            passage = joint.passages.get(stretch.number)
            if passage is None:
                self._settle(joint.states, [base] * len(self._cores), place, number)
                passage = self._run(stretch, base)
                if passage is None:
                    return True
                joint.passages[stretch.number] = passage
            else:
                self._pass(passage, stretch, base)
            place, number = stretch.end, number + 1
            self._meetings.arrive(number, base + passage.arrival)
            time = self._meetings.time(number, stretch.launches)
            joint = passage.after.get(time - base)
            if joint is None:
                self._settle(passage.states, [base + t for t in passage.times], place, number)
                joint = self._behind(number, stretch.launches)
                if joint is not None:
                    passage.after[time - base] = joint
            else:
                self._ahead = True
            base, stretch = time, self._stretches.at(place)
        if joint is not None:
            self._settle(joint.states, [base] * len(self._cores), place, number)
        for core in self._cores:
            core.run()
        return True

    def _joint(self) -> Joint | None:
        """The state in which the cores are; None if it is none that is worth to be known."""
        first = self._clocks[0].scalar_time()
        states = []
        for core, clock in zip(self._cores, self._clocks, strict=True):
            if clock.scalar_time() != first or clock.visit is not clock.outside:
                return None
            state = None if any(core.pending) else self._snapshots.take(core, clock)
            if state is None:
                return None
            states.append(state)
        return self._stretches.joint(tuple(states))

    def _run(self, stretch: Stretch, base: int) -> Passage | None:
        """What the cores do until they wait again; None if that ends in no state to be known."""
        seen = [len(clock.visits) for clock in self._clocks]
        marks = [clock.mark() for clock in self._clocks]
        for core in self._cores:
            core.run()
        both = list(zip(self._clocks, marks, strict=True))
        effects = [clock.measure(mark) for clock, mark in both]
        states = [
            None if any(core.pending) else self._snapshots.take(core, core.clock)
            for core in self._cores
        ]
        known = tuple(state for state in states if state is not None)
        if len(known) < len(states):
            return None
        outside = Visit(-1, (), 0)
        for effect in effects:
            outside.busy = added(outside.busy, effect.busy)
            outside.tallies = added(outside.tallies, effect.tallies)
        pairs = list(zip(self._clocks, seen, strict=True))
        visits = [
            _together([clock.visits[before + i] for clock, before in pairs], base)
            for i in range(len(stretch.calls))
        ]
        return Passage(
            states=known,
            times=tuple(effect.cycles for effect in effects),
            arrival=self._meetings.arrival(self._cores[0].met) - base,
            visits=tuple(visits),
            outside=outside,
            counts=tuple(effect.instructions for effect in effects),
            after={},
        )

    def _pass(self, passage: Passage, stretch: Stretch, base: int) -> None:
        """Have done what is known of a stretch, but for where the cores are."""
        self._ahead = True
        first, *others = self._clocks
        for call, visit in zip(stretch.calls, passage.visits, strict=True):
            first.visits.append(_moved(visit, call, base))
            nothing = Visit(call.kernel, call.sources, base + visit.entered)
            for clock in others:
                clock.visits.append(nothing)
        first.outside.add(passage.outside)
        self._counts = added(self._counts, passage.counts)
        self._registers |= stretch.constants
        self._registers |= stretch.results

    def _behind(self, number: int, launched: bool) -> Joint | None:
        """Have the cores pass the meeting that they have been brought to."""
        for clock in self._clocks:
            clock.meet(number, launched)
        return self._joint()

    def _settle(
        self, states: Sequence[Snapshot], times: Iterable[int], place: int, number: int
    ) -> None:
        """Bring the cores to a place behind a meeting, each in its state at its time."""
        for core, count in zip(self._cores, self._counts, strict=True):
            core.stand(place, number, count)
        if not self._ahead:
            return
        for core, clock, state, time in zip(self._cores, self._clocks, states, times, strict=True):
            clock.set_time(time)
            resume(state, core, clock)
            for register, value in self._registers.items():
                core.registers[register] = value if isinstance(value, int) else value[core.core]
        self._counts = [0] * len(self._cores)
        self._registers = {}
        self._ahead = False


def _together(visits: Sequence[Visit], base: int) -> Visit:
    """All cores' pass through a kernel as one, relative to `base`."""
    found = Visit(visits[0].kernel, visits[0].sources, min(v.entered for v in visits) - base)
    for visit in visits:
        found.busy = added(found.busy, visit.busy)
        found.tallies = added(found.tallies, visit.tallies)
    working = [visit for visit in visits if visit.start >= 0]
    found.end = max(visit.end for visit in working or visits) - base
    if working:
        found.start = min(visit.start for visit in working) - base
    return found


def _moved(visit: Visit, call: Call, base: int) -> Visit:
    """A pass of all cores, as it is when it begins at `base`."""
    found = Visit(call.kernel, call.sources, base + visit.entered)
    found.take(visit)
    found.end += base
    if visit.start >= 0:
        found.start += base
    return found


def walk(
    cores: Sequence[Core],
    progress: Callable[[int], None] | None = None,
    convoy: Convoy | None = None,
) -> None:
    """Run all cores to their end, one after the other between meetings.

    A convoy takes them further while they are all at one.
    """
    least = 0
    while any(core.running for core in cores):
        moved = convoy is not None and convoy.go()
        for core in () if moved else cores:
            if core.met > least:
                least = min(other.arrived for other in cores)
            if core.running and core.met <= least:
                core.go_on()
                core.run()
                moved = True
                if progress:
                    progress(sum(one.count for one in cores))
        if not moved:
            raise _no_meeting(cores)


def _no_meeting(cores: Sequence[Core]) -> CheckFailed:
    waiting = next(core for core in cores if core.running)
    late = next(core for core in cores if core.arrived < waiting.met)
    place = waiting.meeting()
    how = "waits, too," if late.running else "has ended"
    return CheckFailed(
        f"deadlock: core {waiting.core} waits at {place} until all cores have arrived "
        f"{waiting.met} times; core {late.core} {how} after {late.arrived} arrivals"
    )
