"""Runs loops and functions without running all of them: what repeats is added up, to the cycle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ge.timing.courses import MOST, Course, Planner, Repeated
from ge.timing.engine import NEVER, Clock, Effect
from ge.timing.layout import Layout
from ge.timing.regions import CORE, Irregular, Region
from ge.timing.snapshots import Snapshot, Snapshots, restore
from ge.timing.walk import Core

LARGEST = 1 << 62
"""Beyond this, sums may wrap: then a register modulo a number does not say enough."""
WHOLE, TRIP = 0, 1
"""What an effect is of: a whole course, or one trip."""
SHORT = 4
"""Trips of an innermost loop up to which it is not worth while to remember each."""
WINDOW = 16
"""Trips to compare at first when looking how long a pattern goes on."""


class Skipper:
    """What the cores of a program know of its loops and functions; they share it."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
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
        _Runner(self.snapshots, core, planner, course).whole()
        for register, value in zip(planner.results, course.results, strict=True):
            registers[register] = value
        core.place = region.end


class _Runner:
    """Runs one course on one core."""

    def __init__(self, snapshots: Snapshots, core: Core, planner: Planner, course: Course) -> None:
        self._snapshots = snapshots
        self._core = core
        self._clock: Clock = core.clock
        self._planner = planner
        self._region = planner.region
        self._course = course
        self._state = snapshots.take(core, self._clock)
        self._current = True
        """Whether the core is in the state, or has yet to be brought there."""
        self._effects: list[Effect] = []
        """Those of the last trips, as far as all of them are known."""
        self._seen: dict[Snapshot, int] = {}
        """States before them, and how many trips came before that."""

    def whole(self) -> None:
        """Run the course, or do what it has done from the same state before."""
        before, key = self._state, (self._region, WHOLE, self._course.number)
        known = before.next.get(key) if before else None
        if known:
            self._do(known)
        else:
            mark = self._clock.mark()
            trips = len(self._course.signatures)
            if trips == 1 or (trips <= SHORT and not self._planner.inner):
                for trip in range(trips):
                    self._walk(trip)
                self._state = self._snapshots.take(self._core, self._clock)
            else:
                self._trips()
            effect = self._clock.measure(mark)
            if before and self._state:
                before.next[key] = effect, self._state
        self._catch_up()

    def _trips(self) -> None:
        signatures, trip = self._course.signatures, 0
        while trip < len(signatures):
            if self._state is None:
                self._walk(trip)
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
            self._do(known)
            self._effects.append(known[0])
            return
        self._catch_up()
        mark = self._clock.mark()
        self._walk(trip)
        effect = self._clock.measure(mark)
        self._effects.append(effect)
        self._state = self._snapshots.take(self._core, self._clock)
        if self._state:
            before.next[key] = effect, self._state
        else:
            self._forget()

    def _walk(self, trip: int) -> None:
        """Run one trip, instruction by instruction and inner loop by inner loop."""
        core, outer = self._core, self._core.planner
        start = self._course.starts(trip)
        for at, register in self._planner.carried:
            core.registers[register] = start[at]
        core.planner = self._planner
        core.run_between(self._region.start, self._region.end)
        core.planner = outer

    def _do(self, known: tuple[Effect, Snapshot]) -> None:
        effect, self._state = known
        self._clock.apply(effect)
        self._current = False

    def _catch_up(self) -> None:
        if not self._current and self._state:
            restore(self._state, self._core, self._clock)
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
        new = list(signatures[at : at + window])
        old = list(signatures[at - period : at - period + len(new)])
        if new != old:
            return found + next(i for i, (a, b) in enumerate(zip(new, old, strict=True)) if a != b)
        found += len(new)
        window *= 2
    return found
