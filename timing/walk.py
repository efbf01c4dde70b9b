"""The walk: executes the scalar program of every core and hands out all other instructions.

The only place that knows registers, loops, calls, queues and flags. An instruction handed to a
queue is executed at once unless its queue waits for a flag: a wait may stand before its set in
program order, because the scalar unit runs ahead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ge.dialects.diagnostics import CheckFailed
from ge.dialects.npu.isa.sync import FLAGS
from ge.dialects.npu.operands import REGISTERS, Reg
from ge.dialects.npu.places import Unit
from ge.timing.listener import Flag, Listener, flag_name, pack_flag, unpack_flag
from ge.timing.steps import QUEUES, SCALAR, Code, Registers, Step, queues

BUDGET = 1 << 40
"""Instructions a core may execute before the program counts as running away."""
CALLS = 256
"""Calls that may be open at once."""

_PAUSED = -1
_NOWHERE = -2
_TOP, _WRAP = 1 << 63, 1 << 64

Action = tuple[Callable[..., None], Step | None, Any, list[Any], Flag | None]
"""What a queue has to do: the method, its instruction and argument, the tickets, a flag to find."""


class Core:
    """One core: its registers, its place in the code, its queues and flags.

    Implements `State`: instruction bodies act on it. `memory` implements `read` and `out`.
    """

    def __init__(
        self, code: Code, number: int, memory: Any, listeners: Sequence[Listener], budget: int
    ) -> None:
        self.code = code
        self.core = number
        self.cores = code.program.cores
        self.read = memory.read
        self.out = memory.out
        self.host = memory.host
        self.listeners = listeners
        self.registers: Registers = [0] * REGISTERS
        self.place = code.main
        self.count = 0
        """Instructions executed."""
        self.arrived = 0
        self.met = 0
        self.running = True
        self.kernel = -1
        self._budget = budget
        self._queue_of = queues(code.target)
        self._depth = code.target.queue_depth
        self.pending: list[deque[Action]] = [deque() for _ in QUEUES]
        self.raised: set[Flag] = set()
        self.blocked: dict[Flag, int] = {}
        self._unreached = 0
        self._loops: list[list[int]] = []
        self._loop_end = _NOWHERE
        self.entries = code.entries
        self.calls: list[tuple[int, list[list[int]], int, bool]] = []
        self._inherited = False
        self._resume = code.main
        self._launching = False
        self.only: Any = listeners[0] if len(listeners) == 1 else None
        """The listener, if there is one alone."""
        self.clock: Any = None
        """The clock that follows it, if one does."""
        self.skipper: Any = None
        """What runs loops and functions without running all of them."""
        self.planner: Any = None
        """That of the region being run."""

    def run(self) -> None:
        """Go on until the core has to wait for the others, or has ended."""
        entries, registers, limit = self.entries, self.registers, self._budget
        while True:
            place = self.place
            if place == self._loop_end:
                place = self._next_trip(place)
            if place < 0:
                return
            self.place = place + 1
            count = self.count = self.count + 1
            if count > limit:
                raise self.fault(f"the program must end within {limit} instructions")
            entries[place](self, registers)

    def run_between(self, start: int, end: int) -> None:
        """Run code that leads from `start` to `end`, all loops in it being regions."""
        entries, registers = self.skipper.entries, self.registers
        self.place = place = start
        while place != end:
            self.place = place + 1
            self.count += 1
            entries[place](self, registers)
            place = self.place

    def go_on(self) -> None:
        """Pass the meeting that the core has been waiting for."""
        if self.met:
            for listener in self.listeners:
                listener.meet(self.met, self._launching)
        self._launching = False
        self.place = self._resume

    @property
    def waits(self) -> tuple[int, int] | None:
        """The meeting it waits for outside of calls and loops, and the place behind it."""
        if not self.met or self.place != _PAUSED or not self.running or self.calls or self._loops:
            return None
        return self.met, self._resume

    def meeting(self) -> str:
        """Where it waits, for messages."""
        return self.code.text(self._resume - 1)

    def stand(self, place: int, meetings: int, more: int) -> None:
        """Be at a place behind so many meetings, `more` instructions later."""
        self.arrived = self.met = meetings
        self._launching = False
        self.place = place
        self.count += more

    def fault(self, message: str, index: int | None = None) -> CheckFailed:
        """The error for the instruction at `index`, or the one being executed."""
        index = self.place - 1 if index is None else index
        return CheckFailed(message, f"core {self.core}: {self.code.text(index)}")

    def let_go(self) -> None:
        """Have no memory any more: what listens keeps a core until Python collects garbage."""
        del self.read, self.out, self.host

    # What the scalar unit does to itself.

    def set(self, register: Reg, value: int) -> None:
        if not -_TOP <= value < _TOP:
            value = (value + _TOP) % _WRAP - _TOP
        self.registers[register[0]] = value

    def jump(self, place: int) -> None:
        while self._loops and not self._loops[-1][0] <= place <= self._loops[-1][1]:
            self._leave_loop()
        self.place = place

    def loop(self, trips: int, end: int) -> None:
        if end < self.place:
            raise self.fault("a loop must end behind its beginning")
        if trips < 1 or end == self.place:
            self.place = end
            return
        if self.skipper and self.skipper.loop(self, self.place - 1, trips):
            return
        self._loops.append([self.place, end, trips])
        self._loop_end = end

    def _next_trip(self, place: int) -> int:
        while place == self._loop_end:
            top = self._loops[-1]
            top[2] -= 1
            if top[2]:
                return top[0]
            self._leave_loop()
        return place

    def _leave_loop(self) -> None:
        self._loops.pop()
        self._loop_end = self._loops[-1][1] if self._loops else _NOWHERE

    def call(self, place: int) -> None:
        if len(self.calls) == CALLS:
            raise self.fault(f"at most {CALLS} calls may be open")
        self.follow_kernel(self.place - 1)
        self.calls.append((self.place, self._loops, self.kernel, self._inherited))
        self._loops = []
        self._loop_end = _NOWHERE
        # Code called from within a kernel belongs to it: shared code names no nodes of its own.
        self._inherited = self._inherited or self.kernel >= 0
        if not self._inherited and (kernel := self.code.kernel_of[place]) >= 0:
            self._enter(kernel, self.place - 1)
        self.place = place
        if self.skipper:
            self.skipper.function(self, place)

    def leave(self) -> None:
        if not self.calls:
            raise self.fault("a return must follow a call")
        self.place, self._loops, kernel, self._inherited = self.calls.pop()
        self._loop_end = self._loops[-1][1] if self._loops else _NOWHERE
        if kernel != self.kernel:
            self._enter(kernel)

    def stop(self) -> None:
        self._check_idle("ends")
        self.place = _PAUSED
        self.running = False
        for listener in self.listeners:
            listener.halt()

    def ran_past(self) -> None:
        raise CheckFailed("the code must not be run past its end", f"core {self.core}")

    def share(self, cores: int) -> None:
        if not 1 <= cores <= self.cores:
            raise self.fault(f"the sharing cores must be 1 to {self.cores}, got {cores}")
        for listener in self.listeners:
            listener.share(cores)

    def scalar(self, step: Step, registers: Registers) -> None:
        """Run an instruction of the scalar unit that takes its time."""
        for listener in self.listeners:
            listener.scalar(step, registers)
        try:
            step.run(self, registers)
        except (ValueError, TypeError, OverflowError) as e:
            raise self.fault(f"the instruction cannot be executed: {e}", step.index) from e

    def follow_kernel(self, index: int) -> None:
        if not self._inherited and not self.calls:
            kernel = self.code.kernel_of[index]
            if kernel != self.kernel:
                self._enter(kernel)

    def _enter(self, kernel: int, call: int = -1) -> None:
        self.kernel = kernel
        sources = self.code.sources(kernel, call)
        for listener in self.listeners:
            listener.enter(kernel, sources)

    # Queues and flags.

    def issue(self, step: Step, registers: Registers) -> None:
        """Hand an instruction to its unit."""
        if not self.calls:
            self.follow_kernel(step.index)
        queue = step.queue
        pending = self.pending[queue]
        if pending:
            self._put(queue, self._work, step, None, None)
            return
        for listener in self.listeners:
            listener.work(step, listener.issue(step, registers, queue, 0))

    def _work(self, step: Step, queue: int, flag: Flag | None, tickets: list[Any]) -> None:
        for listener, ticket in zip(self.listeners, tickets, strict=True):
            listener.work(step, ticket)

    def signal(self, source: Unit, target: Unit, flag: int) -> None:
        key = self._flag(source, target, flag)
        self._put(self._queue_of[source], self._signal, self._step(), key, None)

    def _signal(self, step: Step, queue: int, flag: Flag, tickets: list[Any]) -> None:
        if flag in self.raised:
            raise self.fault(f"flag {flag_name(flag)} must not be set twice", step.index)
        self.raised.add(flag)
        for listener, ticket in zip(self.listeners, tickets, strict=True):
            listener.signal(step, queue, flag, ticket)

    def wait(self, source: Unit, target: Unit, flag: int) -> None:
        key = self._flag(source, target, flag)
        queue = self._queue_of[target]
        self._put(queue, self._wait, self._step(), key, key)
        if queue == SCALAR and self.pending[SCALAR]:
            raise self._deadlock("waits for a flag")

    def _wait(self, step: Step, queue: int, flag: Flag, tickets: list[Any]) -> None:
        self.raised.remove(flag)
        for listener, ticket in zip(self.listeners, tickets, strict=True):
            listener.wait(step, queue, flag, ticket)

    def _flag(self, source: Unit, target: Unit, flag: int) -> Flag:
        if not 0 <= flag < FLAGS:
            raise self.fault(f"a flag must be 0 to {FLAGS - 1}, got {flag}")
        return pack_flag(source, target, flag)

    def _step(self) -> Step:
        return self.code.steps[self.place - 1]

    def _put(
        self,
        queue: int,
        act: Callable[..., None],
        step: Step,
        flag: Flag | None,
        needs: Flag | None,
    ) -> None:
        """Execute at once, or append to a queue that waits or is going to."""
        pending = self.pending[queue]
        waiting = len(pending)
        if waiting >= self._depth:
            raise self._deadlock(f"cannot hand over {self.code.text(step.index)}: queue full")
        held = self.registers.copy() if flag is None else self.registers
        tickets = [one.issue(step, held, queue, waiting) for one in self.listeners]
        if not waiting and (needs is None or needs in self.raised):
            act(step, queue, flag, tickets)
            if needs is None and flag in self.blocked:
                self._execute(self.blocked.pop(flag))
            return
        pending.append((act, step, flag, tickets, needs))
        if not waiting and needs is not None:
            self.blocked[needs] = queue

    def _execute(self, queue: int) -> None:
        """Go on with a queue whose flag is set, and with the queues it frees on the way."""
        freed = [queue]
        while freed:
            queue = freed.pop()
            pending = self.pending[queue]
            while pending:
                act, step, subject, tickets, needs = pending[0]
                if needs is not None and needs not in self.raised:
                    self.blocked[needs] = queue
                    break
                pending.popleft()
                act(step, queue, subject, tickets)
                if subject is not None and subject in self.blocked and needs is None:
                    freed.append(self.blocked.pop(subject))

    # Meetings.

    def drain(self) -> None:
        self._check_idle("waits for all units")
        for listener in self.listeners:
            listener.drain()

    def arrive(self) -> None:
        self.arrived += 1
        for listener in self.listeners:
            listener.arrive(self.arrived)
        for queue, pending in enumerate(self.pending):
            if pending:
                self._unreached += 1
                pending.append((self._reach, None, None, [self.arrived], None))
            else:
                self._tell_reached(queue, self.arrived)

    def _reach(self, step: None, queue: int, flag: None, numbers: list[int]) -> None:
        self._unreached -= 1
        self._tell_reached(queue, numbers[0])

    def _tell_reached(self, queue: int, number: int) -> None:
        for listener in self.listeners:
            listener.reach(queue, number)

    def meet(self) -> None:
        if self._unreached:
            raise self._deadlock("waits for the other cores")
        self.met += 1
        if self.met > self.arrived:
            raise self.fault("a core must arrive before it waits for the others")
        self._resume = self.place
        self.place = _PAUSED

    def launch(self) -> None:
        self.drain()
        self.arrive()
        self.meet()
        self._launching = True

    def _check_idle(self, does: str) -> None:
        if any(self.pending):
            raise self._deadlock(does)

    def _deadlock(self, does: str) -> CheckFailed:
        """Both ends of each wait that nothing can end."""
        ends = [f"the scalar unit {does} at {self.code.text(self.place - 1)}"]
        for queue, pending in enumerate(self.pending):
            if pending and (flag := pending[0][4]) is not None:
                step = pending[0][1]
                assert step is not None
                source, target, _ = unpack_flag(flag)
                ends.append(
                    f"{target} waits at {self.code.text(step.index)} for flag {flag_name(flag)}, "
                    f"and {self._state_of(source, queue)}"
                )
        return CheckFailed(f"deadlock: {'; '.join(ends)}", f"core {self.core}")

    def _state_of(self, unit: Unit, waiting: int) -> str:
        pending = self.pending[self._queue_of[unit]]
        if self._queue_of[unit] == waiting:
            return f"{unit} shares its queue"
        if not pending or pending[0][1] is None:
            return f"{unit} has nothing left that sets it"
        return f"{unit} itself waits at {self.code.text(pending[0][1].index)}"
