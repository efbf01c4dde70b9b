"""Buffers that share a memory: when each is alive, what any plan needs, what is wrong with one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Life(NamedTuple):
    """Bytes of a buffer, from the moment that first writes it to the last that reads it."""

    first: int
    last: int
    bytes: int

    def meets(self, other: Life) -> bool:
        return self.first <= other.last and other.first <= self.last


def lower_bound(lives: Sequence[Life]) -> int:
    """The largest sum of sizes that are alive at once: no plan can do with less."""
    at: dict[int, int] = {}
    for life in lives:
        at[life.first] = at.get(life.first, 0) + life.bytes
        at[life.last + 1] = at.get(life.last + 1, 0) - life.bytes
    most = now = 0
    for moment in sorted(at):
        now += at[moment]
        most = max(most, now)
    return most


def height(lives: Sequence[Life], places: Sequence[int]) -> int:
    """Bytes that a plan takes."""
    return max((p + x.bytes for p, x in zip(places, lives, strict=True)), default=0)


def overlaps(lives: Sequence[Life], places: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs that are alive at once and share bytes: a plan must have none."""
    found = []
    order = sorted(range(len(lives)), key=lambda i: places[i])
    for n, i in enumerate(order):
        for j in order[n + 1 :]:
            if places[j] >= places[i] + lives[i].bytes:
                break
            if lives[i].meets(lives[j]):
                found.append((i, j))
    return found
