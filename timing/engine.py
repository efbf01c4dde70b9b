"""The clock of one core: unit queues, idle heads, flags, limiters. All times are whole cycles."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from ge.dialects.npu.target import Target
from ge.timing.cost import Cost, CostModel
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

    __slots__ = ("busy", "end", "entered", "hbm_read", "hbm_write", "kernel", "sources", "start")

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
        self.hbm_read = 0
        self.hbm_write = 0


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
        self._flag = target.flag
        self._depth = target.queue_depth
        self._sharers = cores
        self.core: Any = None
        """The core it listens to; its instruction count moves the scalar unit's time."""
        self._counted = 0
        self._now = meetings.start
        # One below the start: the first instruction of a unit finds it idle.
        self._free = [self._now - 1] * len(QUEUES)
        self._done = [self._now] * len(QUEUES)
        self._idle = [False] * len(QUEUES)
        self._rings: list[deque[int]] = [deque() for _ in QUEUES]
        self._levels = [self._now - target.limits[n].credit_cycles for n in model.limits]
        self._flags: dict[Flag, int] = {}
        self._reached: dict[int, int] = {}
        self.busy = [0] * len(QUEUES)
        self.visits: list[Visit] = []
        self._visit = Visit(-1, (), self._now)
        self.outside = self._visit
        """What belongs to no kernel."""
        self.spans: list[Span] | None = [] if trace else None
        self.end = self._now

    def issue(self, step: Step, registers: Registers, queue: int, waiting: int) -> Any:
        now = self._scalar_time()
        if queue != SCALAR:
            ring = self._rings[queue]
            room = self._depth - waiting
            while len(ring) >= room:
                start = ring.popleft()
                if start > now:
                    now = start
            self._now = now
        if step.inst.instr.work is None:
            return now
        return now, self._cost(step, registers), self._visit

    def work(self, step: Step, ticket: tuple[int, Cost, Visit]) -> None:
        dispatch, cost, visit = ticket
        queue = step.queue
        start, busy = self._free[queue], cost.busy
        if dispatch > start:
            start = dispatch
            busy += cost.idle
        elif self._idle[queue]:
            busy += cost.idle
        self._idle[queue] = False
        self._rings[queue].append(start)
        end = self._limited(cost, start, start + busy)
        self._free[queue] = end
        seen = end + cost.latency
        if seen > self._done[queue]:
            self._done[queue] = seen
        self._note(visit, cost, step, start, end)

    def scalar(self, step: Step, registers: Registers) -> None:
        start = self._scalar_time()
        cost = self._cost(step, registers)
        end = self._limited(cost, start, start + cost.busy)
        self._now = end + cost.latency
        self._note(self._visit, cost, step, start, end)

    def signal(self, step: Step, queue: int, flag: Flag, ticket: int) -> None:
        at = max(ticket, self._free[queue])
        if queue != SCALAR:
            self._rings[queue].append(at)
        self._flags[flag] = max(at, self._done[queue]) + self._flag

    def wait(self, step: Step, queue: int, flag: Flag, ticket: int) -> None:
        raised = self._flags.pop(flag)
        if queue == SCALAR:
            self._now = max(ticket, raised)
            return
        at = max(ticket, raised)
        if at > self._free[queue]:
            self._free[queue] = at
            self._idle[queue] = True
        self._rings[queue].append(self._free[queue])

    def drain(self) -> None:
        self._now = max(self._scalar_time(), *self._done, *self._free)

    def arrive(self, number: int) -> None:
        self._meetings.arrive(number, self._scalar_time())

    def reach(self, queue: int, number: int) -> None:
        self._meetings.arrive(number, max(self._free[queue], self._done[queue]))

    def meet(self, number: int, launched: bool) -> None:
        self._now = max(self._scalar_time(), self._meetings.time(number, launched))

    def share(self, cores: int) -> None:
        self._sharers = cores

    def enter(self, kernel: int, sources: tuple[str, ...]) -> None:
        if kernel < 0:
            self._visit = self.outside
            return
        self._visit = Visit(kernel, sources, self._scalar_time())
        self.visits.append(self._visit)

    def halt(self) -> None:
        self.drain()
        # What was written to the memory's account has to get there before the program counts
        # as done; the credit is what the cache still holds.
        self.end = max(self._now, *self._levels)
        self.busy[SCALAR] += self.core.count * self._issue

    def _scalar_time(self) -> int:
        """Now, each instruction of the scalar unit up to the current one counted."""
        count = self.core.count
        self._now += (count - self._counted) * self._issue
        self._counted = count
        return self._now

    def _cost(self, step: Step, registers: Registers) -> Cost:
        key: Any = self._sharers
        if step.sizes is not None:
            key = (key, step.sizes(registers))
        cost = step.costs.get(key)
        if cost is None:
            args = step.arguments(registers)
            try:
                cost = self._model.of(step.inst, args, self._sharers)
            except (ValueError, TypeError, IndexError, ArithmeticError) as e:
                raise self.core.fault(f"operands must describe a tile: {e}", step.index) from e
            step.costs[key] = cost
        return cost

    def _limited(self, cost: Cost, start: int, end: int) -> int:
        """When an instruction ends, given what is left of the shared resources."""
        levels = self._levels
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
        queue = step.queue
        self.busy[queue] += end - start
        visit.busy[queue] += end - start
        visit.hbm_read += cost.hbm_read
        visit.hbm_write += cost.hbm_write
        if visit.start < 0 or start < visit.start:
            visit.start = start
        if end + cost.latency > visit.end:
            visit.end = end + cost.latency
        if self.spans is not None:
            self.spans.append(Span(queue, step.index, visit.kernel, start, end, visit.sources))
