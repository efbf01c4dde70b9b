"""What a piece of code does to a clock: the figures it adds, and the state it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import add
from typing import Any, NamedTuple

NEVER = 1 << 80


class Effect(NamedTuple):
    """What a piece of code adds; `start` and `end` of its work are relative to its beginning."""

    cycles: int
    instructions: int
    busy: tuple[int, ...]
    tallies: tuple[int, ...]
    start: int
    """NEVER if it starts nothing."""
    end: int
    """-NEVER if nothing of it ends."""


def added(some: Sequence[int], more: Sequence[int]) -> list[int]:
    """Figures of two pieces of code together."""
    return list(map(add, some, more))


class Figures(NamedTuple):
    """A clock's own figures, all times relative to its scalar unit's."""

    free: tuple[int, ...]
    idle: tuple[bool, ...]
    done: tuple[int, ...]
    rings: tuple[tuple[int, ...], ...]
    levels: tuple[int, ...]
    flags: tuple[tuple[int, int], ...]
    sharers: int


class Snapshot:
    """A state, the same for all times at which it occurs."""

    def __init__(self, figures: Figures, pending: tuple[Any, ...]) -> None:
        self.figures = figures
        self.pending = pending
        """By queue: what waits for flags."""
        self.next: dict[tuple[Any, int, int], tuple[Effect, Snapshot]] = {}
        """What follows it, by the code that is run."""
        self.later: dict[int, Snapshot] = {}
        """What becomes of it by waiting, by cycles."""
        self._horizon: int | None = None

    @cached_property
    def last(self) -> int:
        """When all units have ended what they have, relative to the scalar unit."""
        return max(*self.figures.free, *self.figures.done)

    def horizon(self, credits: Sequence[int]) -> int:
        """How long to wait until it no longer matters how long one has waited."""
        found = self._horizon
        if found is None:
            free, _, done, _, levels, flags, _ = self.figures
            found = self._horizon = max(
                max(free) + 1, *done, *map(add, levels, credits), *(t for _, t in flags)
            )
        return found
