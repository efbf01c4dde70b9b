"""The state of a core's clock relative to its scalar unit, and what a piece of code does to it."""

from __future__ import annotations

from typing import Any

from ge.timing.engine import Clock, Effect
from ge.timing.steps import QUEUES
from ge.timing.walk import Core


class Snapshot:
    """A state, the same for all times at which it occurs; `next` says what follows it."""

    __slots__ = ("key", "next")

    def __init__(self, key: tuple[Any, ...]) -> None:
        self.key = key
        self.next: dict[tuple[Any, int, int], tuple[Effect, Snapshot]] = {}


class Snapshots:
    """All states met so far."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Snapshot] = {}

    def take(self, core: Core, clock: Clock) -> Snapshot | None:
        """The state of a core; None if it belongs to more than what is being run.

        What lies so far back that it cannot matter any more is taken to have just passed.
        """
        now = clock.scalar_time()
        pending: tuple[Any, ...] = ()
        base = 0
        if any(core.pending):
            found = _pending(core, clock, now)
            if found is None:
                return None
            # A waiting instruction was handed over in the past; nothing starts before the first.
            pending = found
            base = min(0, *(ticket for queue in pending for _, _, _, ticket, _, _ in queue))
        free, first, below = clock.free, now + base, base - 1
        key = (
            tuple([t - now if t >= first else below for t in free]),
            tuple([i and t >= first for i, t in zip(clock.idle, free, strict=True)]),
            tuple([t - now if t > first else base for t in clock.done]),
            _rings(clock, now) if max(free) > now else _STALE,
            tuple(
                [
                    level - now if level > first - credit else base - credit
                    for level, credit in zip(clock.levels, clock.credits, strict=True)
                ]
            ),
            tuple(sorted([(f, t - now if t > first else base) for f, t in clock.flags.items()])),
            pending,
            clock.sharers,
        )
        snapshot = self._known.get(key)
        if snapshot is None:
            snapshot = self._known[key] = Snapshot(key)
        return snapshot


def restore(snapshot: Snapshot, core: Core, clock: Clock) -> None:
    """Bring a core whose scalar time is right into a state."""
    now = clock.scalar_time()
    free, idle, done, rings, levels, flags, pending, clock.sharers = snapshot.key
    clock.free[:] = [t + now for t in free]
    clock.idle[:] = idle
    clock.done[:] = [t + now for t in done]
    for slots, ring in zip(clock.rings, rings, strict=True):
        slots.clear()
        slots.extend([t + now for t in ring])
    clock.levels[:] = [t + now for t in levels]
    clock.flags.clear()
    clock.flags.update({flag: t + now for flag, t in flags})
    core.raised.clear()
    core.raised.update(clock.flags)
    core.blocked.clear()
    for number, queue in enumerate(pending):
        if queue:
            core.blocked[queue[0][-1]] = number
        mine = core.pending[number]
        mine.clear()
        for act, step, flag, ticket, cost, needs in queue:
            time: Any = ticket + now
            if cost is not None:
                time = (time, cost, clock.visit)
            mine.append((getattr(core, act), step, flag, [time], needs))


_STALE: tuple[tuple[int, ...], ...] = ((),) * len(QUEUES)


def _rings(clock: Clock, now: int) -> tuple[tuple[int, ...], ...]:
    """The slots that are still taken; there are none where a unit has nothing to do any more."""
    return tuple(
        [
            tuple([t - now for t in ring if t > now]) if free > now else ()
            for ring, free in zip(clock.rings, clock.free, strict=True)
        ]
    )


def _pending(core: Core, clock: Clock, now: int) -> tuple[Any, ...] | None:
    """What waits for flags; None if some of it belongs to another pass or to an arrival."""
    found = []
    for queue in core.pending:
        mine = []
        for act, step, flag, (ticket,), needs in queue:
            if step is None:
                return None
            cost = None
            if type(ticket) is tuple:
                ticket, cost, visit = ticket
                if visit is not clock.visit:
                    return None
            mine.append((act.__name__, step, flag, ticket - now, cost, needs))
        found.append(tuple(mine))
    return tuple(found)
