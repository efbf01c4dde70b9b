"""The clock of one core: unit queues, idle heads, flags, limiters. All times are whole cycles."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from ge.dialects.npu.target import Target
from ge.timing.cost import Cost, CostModel, Tally
from ge.timing.effects import NEVER, Effect, Snapshot, added
from ge.timing.listener import Flag, Listener
from ge.timing.steps import QUEUES, SCALAR, Registers, Step


class Span(NamedTuple):
    """An instruction occupying its unit for `[start, end)`; the kernel is -1 if there is none."""

    queue: int
    instruction: int
    kernel: int
    start: int
    end: int
    sources: tuple[str, ...] = ()


class Visit:
    """One pass of a core through a kernel."""

    __slots__ = ("busy", "end", "entered", "kernel", "sources", "start", "tallies")

    def __init__(self, kernel: int, sources: tuple[str, ...], entered: int) -> None:
        self.kernel = kernel
        self.sources = sources
        """The model's nodes that this pass stands for."""
        self.entered = entered
        self.start = -1
        """When its first instruction started on a unit; -1 before that."""
        self.end = entered
        """When its last result is visible."""
        self.busy = [0] * len(QUEUES)
        self.tallies = [0] * len(Tally)

    def take(self, other: Visit) -> None:
        """Have the figures of `other`."""
        self.start, self.end, self.busy = other.start, other.end, other.busy
        self.tallies = other.tallies

    def clear(self) -> None:
        """Have no figures."""
        self.start, self.end, self.busy = -1, -1, [0] * len(QUEUES)
        self.tallies = [0] * len(Tally)

    def add(self, other: Visit) -> None:
        """Have the figures of `other`, too."""
        self.busy = added(self.busy, other.busy)
        self.tallies = added(self.tallies, other.tallies)
        self.end = max(self.end, other.end)
        if other.start >= 0:
            self.start = min(self.start, other.start) if self.start >= 0 else other.start


class Meetings:
    """When the cores arrived, and what the host adds to a launch.

    A program without launches of its own is one launch. Otherwise launch `k`, counted from 0,
    starts its code `launch_us` after the end of what came before, and not before the host has
    dispatched it: that is busy for `host_dispatch_us` with each.
    """

    def __init__(self, target: Target, launches: bool) -> None:
        self.target = target
        self._launch = round(target.launch_us * target.clock_mhz)
        self._dispatch = round(target.host_dispatch_us * target.clock_mhz)
        self._arrivals: dict[int, int] = {}
        self._launched_by: dict[int, int] = {}
        self.start = 0 if launches else self._launch
        """When the program's first instruction is dispatched."""

    @property
    def launches(self) -> int:
        """How often the host has started code."""
        return len(self._launched_by) or 1

    def arrive(self, number: int, time: int) -> None:
        """A core's arrival: the meeting cannot be earlier."""
        self._arrivals[number] = max(self._arrivals.get(number, 0), time)

    def arrival(self, number: int) -> int:
        """When the last core has arrived at meeting `number`."""
        return self._arrivals[number]

    def time(self, number: int, launched: bool) -> int:
        """When the cores go on after meeting `number`."""
        last = self._arrivals[number]
        if not launched:
            return last + self.target.cross_core
        order = self._launched_by.setdefault(number, len(self._launched_by))
        return max(last + self._launch, (order + 1) * self._dispatch)


class Clock(Listener):
    """The times of one core.

    An instruction starts when the scalar unit has handed it over, its unit is free and its flags
    are set; a shared resource that is used up moves its end. Everything is relative to the scalar
    unit's time: shifting all of it shifts all results.
    """

    def __init__(self, model: CostModel, meetings: Meetings, cores: int, trace: bool) -> None:
        target = meetings.target
        self._model = model
        self._meetings = meetings
        self._issue = target.issue
        self._call = target.call
        self._flag = target.flag
        self._depth = target.queue_depth
        self.sharers = cores
        self.core: Any = None
        """The core it listens to; its instruction count moves the scalar unit's time."""
        self._counted = 0
        self.now = meetings.start
        # One below the start: the first instruction of a unit finds it idle.
        self.free = [self.now - 1] * len(QUEUES)
        self.done = [self.now] * len(QUEUES)
        self.idle = [False] * len(QUEUES)
        self.rings: list[deque[int]] = [deque() for _ in QUEUES]
        self.credits = model.credits
        self.levels = [self.now - credit for credit in self.credits]
        self.flags: dict[Flag, int] = {}
        self._reached: dict[int, int] = {}
        self.busy = [0] * len(QUEUES)
        self.visits: list[Visit] = []
        self.visit = Visit(-1, (), self.now)
        self.outside = self.visit
        """What belongs to no kernel."""
        self.spans: list[Span] | None = [] if trace else None
        self.end = self.now
        self._behind: Snapshot | None = None
        """The state that the figures are to be brought to before they are used."""
        self._since = 0
        """The scalar unit's time of that state."""

    def follow(self, core: Any) -> None:
        """Listen to `core`."""
        self.core = core
        core.clock = self

    def issue(self, step: Step, registers: Registers, queue: int, waiting: int) -> Any:
        if step.works and self._call:
            self.now += self._call
            self.visit.busy[SCALAR] += self._call
        now = self.hand_over(queue, waiting)
        if not step.works:
            return now
        sizes = step.sizes
        cost = step.costs.get((self.sharers, sizes(registers)) if sizes else self.sharers)
        return now, cost or self._cost(step, registers), self.visit

    def hand_over(self, queue: int, waiting: int = 0) -> int:
        """Wait for room in a queue, in which `waiting` others wait for flags; the time of that."""
        if self._behind:
            self.catch_up()
        count: int = self.core.count
        now = self.now + (count - self._counted) * self._issue
        self._counted = count
        if queue != SCALAR:
            ring = self.rings[queue]
            room = self._depth - waiting
            while len(ring) >= room:
                start = ring.popleft()
                if start > now:
                    now = start
        self.now = now
        return now

    def work(self, step: Step, ticket: tuple[int, Cost, Visit]) -> None:
        dispatch, cost, visit = ticket
        busy, idle, latency, charges, _ = cost
        queue = step.queue
        start = self.free[queue]
        if dispatch > start:
            start = dispatch
            busy += idle
        elif self.idle[queue]:
            busy += idle
        self.idle[queue] = False
        self.rings[queue].append(start)
        end = start + busy
        if charges:
            end = self._limited(cost, start, end)
        self.free[queue] = end
        seen = end + latency
        if seen > self.done[queue]:
            self.done[queue] = seen
        self._note(visit, cost, step, start, end)

    def scalar(self, step: Step, registers: Registers) -> None:
        self.catch_up()
        start = self.scalar_time()
        cost = self._cost(step, registers)
        end = self._limited(cost, start, start + cost.busy)
        self.now = end + cost.latency
        self._note(self.visit, cost, step, start, end)

    def signal(self, step: Step | None, queue: int, flag: Flag, ticket: int) -> None:
        at, done = self.free[queue], self.done[queue]
        if ticket > at:
            at = ticket
        if queue != SCALAR:
            self.rings[queue].append(at)
        self.flags[flag] = (at if at > done else done) + self._flag

    def wait(self, step: Step | None, queue: int, flag: Flag, ticket: int) -> None:
        raised = self.flags.pop(flag)
        if queue == SCALAR:
            self.now = max(ticket, raised)
            return
        at, free = ticket if ticket > raised else raised, self.free[queue]
        if at > free:
            self.free[queue] = free = at
            self.idle[queue] = True
        self.rings[queue].append(free)

    def drain(self) -> None:
        self.catch_up()
        self.now = max(self.scalar_time(), *self.done, *self.free)

    def arrive(self, number: int) -> None:
        self._meetings.arrive(number, self.scalar_time())

    def arrive_idle(self, number: int) -> None:
        """The core arrives while nothing in its queues waits for a flag."""
        known = self._behind
        last = self._since + known.last if known else max(*self.free, *self.done)
        self._meetings.arrive(number, max(self.scalar_time(), last))

    def reach(self, queue: int, number: int) -> None:
        self.catch_up()
        self._meetings.arrive(number, max(self.free[queue], self.done[queue]))

    def meet(self, number: int, launched: bool) -> None:
        self.now = max(self.scalar_time(), self._meetings.time(number, launched))

    def share(self, cores: int) -> None:
        self.catch_up()
        self.sharers = cores

    def enter(self, kernel: int, sources: tuple[str, ...]) -> None:
        if kernel < 0:
            self.visit = self.outside
            return
        self.visit = Visit(kernel, sources, self.scalar_time())
        self.visits.append(self.visit)

    def halt(self) -> None:
        self.drain()
        # What was written to the memory's account has to get there before the program counts
        # as done; the credit is what the cache still holds.
        self.end = max(self.now, *self.levels)
        each = zip(*(visit.busy for visit in (self.outside, *self.visits)), strict=True)
        self.busy = [sum(cycles) for cycles in each]
        self.busy[SCALAR] += self.core.count * self._issue

    # Pieces of code whose effect is known.

    def mark(self) -> tuple[int, int, Visit]:
        """Begin to measure a piece of code."""
        visit = self.visit
        kept = Visit(visit.kernel, visit.sources, visit.entered)
        kept.take(visit)
        visit.clear()
        return self.scalar_time(), self.core.count, kept

    def measure(self, mark: tuple[int, int, Visit]) -> Effect:
        """What was done since `mark`."""
        then, count, kept = mark
        visit = self.visit
        effect = Effect(
            cycles=self.scalar_time() - then,
            instructions=self.core.count - count,
            busy=tuple(visit.busy),
            tallies=tuple(visit.tallies),
            start=visit.start - then if visit.start >= 0 else NEVER,
            end=visit.end - then if visit.end >= 0 else -NEVER,
        )
        visit.add(kept)
        return effect

    def apply(self, effect: Effect) -> None:
        """Do what a piece of code does, but for the state it leaves behind."""
        visit, now = self.visit, self.scalar_time()
        if visit.start < 0 and not any(visit.busy):
            visit.busy, visit.tallies = list(effect.busy), list(effect.tallies)
        else:
            visit.busy = added(visit.busy, effect.busy)
            visit.tallies = added(visit.tallies, effect.tallies)
        if effect.start != NEVER and not 0 <= visit.start <= now + effect.start:
            visit.start = now + effect.start
        if effect.end + now > visit.end:
            visit.end = effect.end + now
        self.now = now + effect.cycles
        self.core.count += effect.instructions
        self._counted = self.core.count

    # States that are known: taken up without being written out, until something uses them.

    def be_in(self, state: Snapshot) -> None:
        """Be in a state that was met before, now."""
        self._behind, self._since = state, self.scalar_time()

    def since(self) -> tuple[Snapshot, int] | None:
        """The state that the clock is known to have been in, and how long ago that was."""
        return (self._behind, self.scalar_time() - self._since) if self._behind else None

    def catch_up(self) -> None:
        """Write out the state that the clock is known to be in."""
        if self._behind is None:
            return
        found, since = self._behind.figures, self._since
        self._behind = None
        self.free[:] = [t + since for t in found.free]
        self.idle[:] = found.idle
        self.done[:] = [t + since for t in found.done]
        for ring, slots in zip(self.rings, found.rings, strict=True):
            ring.clear()
            ring.extend([t + since for t in slots])
        self.levels[:] = [t + since for t in found.levels]
        self.flags = {flag: t + since for flag, t in found.flags}
        self.sharers = found.sharers

    def set_time(self, now: int) -> None:
        """Have the scalar unit be at a time with the instruction that its core has come to."""
        self.now = now
        self._counted = self.core.count

    def scalar_time(self) -> int:
        """Now, each instruction of the scalar unit up to the current one counted."""
        count = self.core.count
        self.now += (count - self._counted) * self._issue
        self._counted = count
        return self.now

    def _cost(self, step: Step, registers: Registers) -> Cost:
        key: Any = self.sharers
        if step.sizes is not None:
            key = (key, step.sizes(registers))
        cost = step.costs.get(key)
        if cost is None:
            args = step.sized(registers)
            try:
                cost = self._model.of(step.inst, args, self.sharers)
            except (ValueError, TypeError, IndexError, ArithmeticError) as e:
                raise self.core.fault(f"operands must describe a tile: {e}", step.index) from e
            step.costs[key] = cost
        return cost

    def _limited(self, cost: Cost, start: int, end: int) -> int:
        """When an instruction ends, given what is left of the shared resources."""
        levels = self.levels
        for limit, cycles, credit, posted in cost.charges:
            level = levels[limit]
            if start - credit > level:
                level = start - credit
            level += cycles
            levels[limit] = level
            if level > end and not posted:
                end = level
        return end

    def _note(self, visit: Visit, cost: Cost, step: Step, start: int, end: int) -> None:
        _, _, latency, _, tallies = cost
        queue = step.queue
        visit.busy[queue] += end - start
        for tally, n in tallies:
            visit.tallies[tally] += n
        if visit.start < 0 or start < visit.start:
            visit.start = start
        if end + latency > visit.end:
            visit.end = end + latency
        if self.spans is not None:
            self.spans.append(Span(queue, step.index, visit.kernel, start, end, visit.sources))
