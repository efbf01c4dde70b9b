"""Where buffers may still begin while some have their places: bounds, conclusions, undo.

A *clique* is a set of buffers that are all alive at one moment, and in no larger such set. Only
plans where each buffer lies at the bottom or on another count: any other can be pushed down to one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from ge.lowering.lives import Life

_NOT_LIFTED = -1


def moments(lives: Sequence[Life]) -> list[int]:
    """One moment of each clique: the last start before some life ends."""
    starts = sorted(life.first for life in lives)
    last = {life.last for life in lives}
    return sorted({starts[bisect_left(starts, moment + 1) - 1] for moment in last})


class Levels:
    """Lowest and highest beginnings of buffers; what narrows them says whether any are left."""

    def __init__(self, lives: Sequence[Life], capacity: int, trouble: list[float]) -> None:
        at, count = moments(lives), range(len(lives))
        self.capacity = capacity
        self.trouble = trouble
        """How often each clique was where it ended: trouble is looked for there first."""
        self.bytes = [life.bytes for life in lives]
        self.low = [0] * len(lives)
        self.high = [capacity - life.bytes for life in lives]
        self.spans = [range(bisect_left(at, x.first), bisect_left(at, x.last + 1)) for x in lives]
        """The cliques a buffer is in."""
        self.open: list[list[int]] = [[] for _ in at]
        """Buffers without a place, by clique."""
        self.across = [0] * len(at)
        """How many of them are in a clique and in the next."""
        for i in count:
            self._put_back(i)
        self.near = [sorted({j for s in self.spans[i] for j in self.open[s]} - {i}) for i in count]
        self.placed: list[int] = [False] * len(lives)
        self.lifted = [_NOT_LIFTED] * len(lives)
        """Where a buffer would end at the lowest place that it is known not to have."""
        self.trail: list[tuple[list[int], int, int]] = []
        """Values before they changed; of a placed buffer, its being open."""
        self._cliques_due = set(range(len(at)))
        self._pairs_due = set(count)

    def _put_back(self, i: int) -> None:
        for s in self.spans[i]:
            self.open[s].append(i)
            self.across[s] += s + 1 in self.spans[i]

    def _set(self, values: list[int], i: int, value: int) -> None:
        self.trail.append((values, i, values[i]))
        values[i] = value

    def _raise(self, i: int, to: int) -> bool:
        """Buffer i begins at `to` or above."""
        if to > self.low[i]:
            self._set(self.low, i, to)
            self._cliques_due.update(self.spans[i])
            self._pairs_due.add(i)
        return self._possible(i)

    def _lower(self, i: int, to: int) -> bool:
        """Buffer i begins at `to` or below."""
        if to < self.high[i]:
            self._set(self.high, i, to)
            self._pairs_due.add(i)
        return self._possible(i)

    def _possible(self, i: int) -> bool:
        if self.low[i] <= self.high[i]:
            return True
        for s in self.spans[i]:
            self.trouble[s] += 1 / len(self.spans[i])
        return False

    def place(self, i: int) -> bool:
        """Give i the lowest place that it may have; nothing open can lie below it there."""
        top = self.low[i] + self.bytes[i]
        self.trail.append((self.placed, i, False))
        self.placed[i] = True
        for s in self.spans[i]:
            self.open[s].remove(i)
            self.across[s] -= s + 1 in self.spans[i]
        self._cliques_due.update(self.spans[i])
        for j in self.near[i]:
            if self.placed[j]:
                continue
            if self.low[j] > top:
                if self.lifted[j] != _NOT_LIFTED:
                    self._set(self.lifted, j, max(self.lifted[j], top + self.bytes[j]))
                continue
            if self.lifted[j] != _NOT_LIFTED:
                self._set(self.lifted, j, _NOT_LIFTED)
            if not self._raise(j, top):
                return False
        return self.settle()

    def lift(self, i: int) -> bool:
        """Buffer i is not at its lowest place, so it lies on one that has no place yet.

        If all of those begin above where i would end, it could be pushed down: then there is none.
        """
        others = [j for j in self.near[i] if not self.placed[j]]
        if not others:
            return False
        if self.lifted[i] == _NOT_LIFTED:
            self._set(self.lifted, i, self.low[i] + self.bytes[i])
        if min(self.low[j] for j in others) >= self.lifted[i]:
            return False
        return self._raise(i, min(self.low[j] + self.bytes[j] for j in others)) and self.settle()

    def must_lift(self, i: int) -> bool:
        """Whether nothing holds i at its lowest place."""
        return self.lifted[i] != _NOT_LIFTED

    def undo(self, mark: int) -> None:
        """Go back to when the trail was `mark` long."""
        self._cliques_due.clear()
        self._pairs_due.clear()
        while len(self.trail) > mark:
            values, i, value = self.trail.pop()
            values[i] = value
            if values is self.placed:
                self._put_back(i)

    def settle(self) -> bool:
        """Draw all conclusions that are due."""
        while True:
            if self._cliques_due:
                possible = self._settle_clique(self._cliques_due.pop())
            elif self._pairs_due:
                possible = self._settle_pairs(self._pairs_due.pop())
            else:
                return True
            if not possible:
                return False

    def _settle_clique(self, s: int) -> bool:
        """Those from any level up must fit above it; if one alone can be lowest, it is."""
        low, size, members = self.low, self.bytes, self.open[s]
        members.sort(key=low.__getitem__)
        left = self.capacity
        for i in reversed(members):
            left -= size[i]
            if low[i] > left:
                self.trouble[s] += 1
                return False
        for n, i in enumerate(members, 1):
            if n < len(members) and low[members[n]] <= left:
                break
            if not self._lower(i, left):
                return False
            top = low[i] + size[i]
            for j in members[n:]:
                if low[j] >= top:
                    break
                if not self._raise(j, top):
                    return False
            left += size[i]
        return True

    def _settle_pairs(self, i: int) -> bool:
        """Of two that meet one is below; if only one can be, it is."""
        if self.placed[i]:
            return True
        low, high, size, placed = self.low, self.high, self.bytes, self.placed
        end, latest = low[i] + size[i], high[i]
        for j in self.near[i]:
            if placed[j]:
                continue
            if low[j] + size[j] > latest and (low[j] < end or high[j] - size[i] < latest):
                if not self._below(i, j):
                    return False
                end, latest = low[i] + size[i], high[i]
            if end > high[j] and (low[j] + size[j] > low[i] or latest - size[j] < high[j]):
                if not self._below(j, i):
                    return False
                end, latest = low[i] + size[i], high[i]
        return True

    def _below(self, i: int, j: int) -> bool:
        """Buffer i is below j."""
        return self._raise(j, self.low[i] + self.bytes[i]) and self._lower(
            i, self.high[j] - self.bytes[i]
        )
