"""Runs loops and functions without running all of them: what repeats is added up, to the cycle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ge.timing.courses import MOST, Course, Planner, Repeated
from ge.timing.effects import NEVER, Effect, Snapshot
from ge.timing.engine import Clock
from ge.timing.layout import Layout
from ge.timing.quick import QuickCode
from ge.timing.regions import CORE, LARGEST, Irregular, Region
from ge.timing.snapshots import Snapshots, resume
from ge.timing.steps import Code
from ge.timing.walk import Core

WHOLE, TRIP = 0, 1
"""What an effect is of: a whole course, or one trip."""
SHORT = 4
"""Trips of an innermost loop up to which it is not worth while to remember each."""
WINDOW = 16
"""Trips to compare at first when looking how long a pattern goes on."""


class Skipper:
    """What the cores of a program know of its loops and functions; they share it."""

    def __init__(self, code: Code) -> None:
        self.layout = Layout(code)
        self.entries = QuickCode(code, alone=True, wanted=self.layout.wanted()).entries
        """What runs the instructions of regions."""
        self.snapshots = Snapshots()

    def loop(self, core: Core, place: int, trips: int) -> bool:
        """Run the loop that the instruction at `place` begins; whether that could be done."""
        outer: Planner | None = core.planner
        if outer:
            self._run(core, outer.inner[place + 1], trips)
            return True
        planner = self.layout.loop(place)
        if planner is None or not self._in_one_kernel(core, planner.region):
            return False
        return self._try(core, planner, trips)

    def function(self, core: Core, place: int) -> None:
        """Run the function at `place` up to its end, if that can be done."""
        planner = self.layout.function(place)
        if planner is not None:
            self._try(core, planner, 1)

    def _in_one_kernel(self, core: Core, region: Region) -> bool:
        """Whether the region belongs to the kernel that is being run, and to no other."""
        kernels = core.code.kernel_of[region.start : region.end]
        return bool(core.calls) or kernels == [core.kernel] * len(kernels)

    def _try(self, core: Core, planner: Planner, trips: int) -> bool:
        """Run a region that is not inside another, a long loop in pieces."""
        head = planner.region.head
        if any(m and abs(core.registers[r]) > LARGEST for r, m in head.items() if r != CORE):
            return False
        try:
            while trips > MOST:
                self._run(core, planner, MOST)
                trips -= MOST
            self._run(core, planner, trips)
        except Irregular:
            return False
        return True

    def _run(self, core: Core, planner: Planner, trips: int) -> None:
        region, registers = planner.region, core.registers
        head = []
        for register in planner.head:
            modulus = region.head[register]
            value = core.core if register == CORE else registers[register]
            head.append(value % modulus if modulus else value)
        course = planner.course(trips, *head)
        if core.planner and _is_brief(planner, course):
            for trip in range(len(course.signatures)):
                _walk(core, planner, course, trip)
        else:
            self._run_course(core, planner, course)
        for register, value in zip(planner.results, course.results, strict=True):
            registers[register] = value
        core.place = region.end

    def _run_course(self, core: Core, planner: Planner, course: Course) -> None:
        """Run a course, or do what it has done from the same state before."""
        clock: Clock = core.clock
        state, key = self.snapshots.take(core, clock), (planner.region, WHOLE, course.number)
        known = state.next.get(key) if state else None
        if known:
            clock.apply(known[0])
            resume(known[1], core, clock)
            return
        effect, after = _Runner(self.snapshots, core, planner, course, state).whole()
        if state and after:
            state.next[key] = effect, after


def _is_brief(planner: Planner, course: Course) -> bool:
    """Whether to look what it does from a state takes longer than to run it."""
    trips = len(course.signatures)
    return trips == 1 or (trips <= SHORT and not planner.inner)


def _walk(core: Core, planner: Planner, course: Course, trip: int) -> None:
    """Run one trip, instruction by instruction and inner loop by inner loop."""
    outer, start = core.planner, course.starts(trip)
    for at, register in planner.carried:
        core.registers[register] = start[at]
    core.planner = planner
    core.run_between(planner.region.start, planner.region.end)
    core.planner = outer


class _Runner:
    """Runs one course on one core."""

    def __init__(
        self,
        snapshots: Snapshots,
        core: Core,
        planner: Planner,
        course: Course,
        state: Snapshot | None,
    ) -> None:
        self._snapshots = snapshots
        self._core = core
        self._clock: Clock = core.clock
        self._planner = planner
        self._region = planner.region
        self._course = course
        self._state = state
        self._current = True
        """Whether the core is in the state, or has yet to be brought there."""
        self._effects: list[Effect] = []
        """Those of the last trips, as far as all of them are known."""
        self._seen: dict[Snapshot, int] = {}
        """States before them, and how many trips came before that."""

    def whole(self) -> tuple[Effect, Snapshot | None]:
        """Run the course; what it does, and the state it leaves."""
        mark = self._clock.mark()
        if _is_brief(self._planner, self._course):
            for trip in range(len(self._course.signatures)):
                _walk(self._core, self._planner, self._course, trip)
            self._state = self._snapshots.take(self._core, self._clock)
        else:
            self._trips()
        effect = self._clock.measure(mark)
        if self._core.planner is None:
            # What comes next is another region, more often than not: it asks for the state only.
            self._current = False
        self._catch_up()
        return effect, self._state

    def _trips(self) -> None:
        signatures, trip = self._course.signatures, 0
        while trip < len(signatures):
            if self._state is None:
                _walk(self._core, self._planner, self._course, trip)
                self._state = self._snapshots.take(self._core, self._clock)
            elif (earlier := self._seen.get(self._state)) is not None and (
                trips := self._repeat(trip, len(self._effects) - earlier)
            ):
                trip += trips
                continue
            else:
                self._trip(trip, self._state)
            trip += 1

    def _repeat(self, trip: int, period: int) -> int:
        """Do what the last `period` trips did as often as that recurs; how many trips it is."""
        times = agreeing(self._course.signatures, trip, period) // period
        if times:
            self._clock.apply(repeated(self._effects[-period:], times))
            self._current = False
            self._forget()
        return times * period

    def _trip(self, trip: int, before: Snapshot) -> None:
        self._seen[before] = len(self._effects)
        key = (self._region, TRIP, self._course.signatures[trip])
        known = before.next.get(key)
        if known:
            self._do(*known)
            self._effects.append(known[0])
            return
        self._catch_up()
        mark = self._clock.mark()
        _walk(self._core, self._planner, self._course, trip)
        effect = self._clock.measure(mark)
        self._effects.append(effect)
        self._state = self._snapshots.take(self._core, self._clock)
        if self._state:
            before.next[key] = effect, self._state
        else:
            self._forget()

    def _do(self, effect: Effect, state: Snapshot) -> None:
        self._clock.apply(effect)
        self._state = state
        self._current = False

    def _catch_up(self) -> None:
        if not self._current and self._state:
            resume(self._state, self._core, self._clock)
            self._current = True

    def _forget(self) -> None:
        self._effects, self._seen = [], {}


def repeated(effects: Sequence[Effect], times: int) -> Effect:
    """The effect of `effects` one after the other, all of that `times` times."""
    cycles, start, end = 0, NEVER, -NEVER
    for effect in effects:
        start = min(start, cycles + effect.start)
        end = max(end, cycles + effect.end)
        cycles += effect.cycles
    return Effect(
        cycles=cycles * times,
        instructions=sum(e.instructions for e in effects) * times,
        busy=_total((e.busy for e in effects), times),
        tallies=_total((e.tallies for e in effects), times),
        start=start if start < NEVER // 2 else NEVER,
        end=end + cycles * (times - 1) if end > -NEVER // 2 else -NEVER,
    )


def _total(figures: Iterable[tuple[int, ...]], times: int) -> tuple[int, ...]:
    return tuple(sum(each) * times for each in zip(*figures, strict=True))


def agreeing(signatures: Sequence[int], trip: int, period: int) -> int:
    """How many trips from `trip` on are like those `period` earlier."""
    if isinstance(signatures, Repeated):
        return len(signatures) - trip
    found, window = 0, WINDOW
    while (at := trip + found) < len(signatures):
        new = signatures[at : at + window]
        old = signatures[at - period : at - period + len(new)]
        if new != old:
            return found + next(i for i, (a, b) in enumerate(zip(new, old, strict=True)) if a != b)
        found += len(new)
        window *= 2
    return found
