"""Accesses of all cores to device memory, compared once no core can add to their epoch.

An access made after meeting `m` and before arrival `a + 1` belongs to the epochs `m` to `a`: two
between an arrive and its wait. Accesses of different cores are unordered exactly if they share an
epoch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from ge.runtime.overlap import Pattern, touch

Who = tuple[int, int, int]
"""Core, queue, instruction."""


class GmAccess(NamedTuple):
    """One access to bytes of device memory that somebody may write."""

    low: int
    high: int
    write: bool
    core: int
    pattern: Pattern


class SharedHistory:
    """The accesses of the epochs that are not over."""

    def __init__(self, cores: int, report: Callable[[Who, Who, str], None]) -> None:
        self._report = report
        self._passed = [0] * cores
        self._epochs: defaultdict[int, dict[GmAccess, Who]] = defaultdict(dict)

    def add(self, access: GmAccess, who: Who, met: int, arrived: int) -> None:
        """Note an access made after meeting `met` and arrival `arrived`."""
        for epoch in range(met, arrived + 1):
            self._epochs[epoch][access] = who

    def passed(self, core: int, meeting: int | None) -> None:
        """A core has passed a meeting, or ended; compare the epochs that are over by that."""
        self._passed[core] = 1 << 62 if meeting is None else meeting
        over = min(self._passed)
        for epoch in sorted(e for e in self._epochs if e < over):
            self._compare(self._epochs.pop(epoch))

    def _compare(self, accesses: dict[GmAccess, Who]) -> None:
        writes = sorted((a for a in accesses if a.write), key=_low)
        bounds = _union(writes)
        starts = [low for low, _ in bounds]
        reads = [a for a in accesses if not a.write and _meets(a, bounds, starts)]
        open_writes: list[GmAccess] = []
        open_reads: list[GmAccess] = []
        for access in sorted(writes + reads, key=_low):
            open_writes = [a for a in open_writes if a.high > access.low]
            against = open_writes
            if access.write:
                open_reads = [a for a in open_reads if a.high > access.low]
                against = open_writes + open_reads
            for other in against:
                if other.core != access.core and touch(
                    access.low - other.low, other.pattern, access.pattern
                ):
                    self._found(access, other, accesses)
            (open_writes if access.write else open_reads).append(access)

    def _found(self, access: GmAccess, other: GmAccess, by: dict[GmAccess, Who]) -> None:
        first, second = sorted((access, other), key=lambda a: a.core)
        low, high = max(access.low, other.low), min(access.high, other.high)
        self._report(by[first], by[second], f"bytes in gm[{low:#x}..{high:#x})")


def _low(access: GmAccess) -> int:
    return access.low


def _union(writes: list[GmAccess]) -> list[tuple[int, int]]:
    """The ranges that writes, sorted by their beginnings, cover; gaps in patterns included."""
    ranges: list[tuple[int, int]] = []
    for access in writes:
        if ranges and access.low <= ranges[-1][1]:
            ranges[-1] = ranges[-1][0], max(ranges[-1][1], access.high)
        else:
            ranges.append((access.low, access.high))
    return ranges


def _meets(access: GmAccess, ranges: list[tuple[int, int]], starts: list[int]) -> bool:
    index = bisect_left(starts, access.high) - 1
    return index >= 0 and ranges[index][1] > access.low
