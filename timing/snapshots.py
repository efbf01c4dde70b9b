"""The state of a core relative to its scalar unit's time."""

from __future__ import annotations

from typing import Any

from ge.timing.effects import Figures, Snapshot
from ge.timing.engine import Clock
from ge.timing.steps import QUEUES
from ge.timing.walk import Core


class Snapshots:
    """All states met so far."""

    def __init__(self) -> None:
        self._known: dict[Any, Snapshot] = {}

    def take(self, core: Core, clock: Clock) -> Snapshot | None:
        """The state of a core; None if it belongs to more than what is being run.

        What lies so far back that it cannot matter any more is taken to have just passed.
        """
        since = clock.since()
        if since is None:
            return self._take(core, clock)
        state, waited = since
        if not waited:
            return state
        waited = min(waited, state.horizon(clock.credits))
        found = state.later.get(waited)
        if found is None:
            clock.catch_up()
            found = self._take(core, clock)
            assert found is not None, "nothing waits in a state that was not written out"
            state.later[waited] = found
        clock.be_in(found)
        return found

    def _take(self, core: Core, clock: Clock) -> Snapshot | None:
        now = clock.scalar_time()
        pending: tuple[Any, ...] = ()
        base = 0
        if any(core.pending):
            waiting = _pending(core, clock, now)
            if waiting is None:
                return None
            # A waiting instruction was handed over in the past; nothing starts before the first.
            pending = waiting
            base = min(0, *(ticket for queue in pending for _, _, _, ticket, _, _ in queue))
        free, first, below = clock.free, now + base, base - 1
        figures = Figures(
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
            clock.sharers,
        )
        key = (figures, pending)
        snapshot = self._known.get(key)
        if snapshot is None:
            snapshot = self._known[key] = Snapshot(figures, pending)
        return snapshot


def resume(snapshot: Snapshot, core: Core, clock: Clock) -> None:
    """Bring a core whose scalar time is right into a state."""
    clock.be_in(snapshot)
    flags = [flag for flag, _ in snapshot.figures.flags]
    if core.raised or flags:
        core.raised.clear()
        core.raised.update(flags)
    if core.blocked or snapshot.pending:
        _resume_queues(snapshot, core, clock)


def _resume_queues(snapshot: Snapshot, core: Core, clock: Clock) -> None:
    """Fill the queues with what waits in them; it looks at the clock's figures when it is run."""
    clock.catch_up()
    now = clock.scalar_time()
    core.blocked.clear()
    for mine in core.pending:
        mine.clear()
    for number, queue in enumerate(snapshot.pending):
        if queue:
            core.blocked[queue[0][-1]] = number
        for act, step, flag, ticket, cost, needs in queue:
            time: Any = ticket + now
            if cost is not None:
                time = (time, cost, clock.visit)
            core.pending[number].append((getattr(core, act), step, flag, [time], needs))


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
