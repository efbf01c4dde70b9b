"""Places for buffers within a capacity: a search that is exact, with a budget.

Lowest places are decided first: a buffer below which none can come is put where it may lie lowest;
if that leads nowhere, it lies on some other. Cliques that share no open buffer are searched apart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from ge.lowering.lives import Life, lower_bound
from ge.lowering.pack_levels import Levels, moments

FIRST_DETOURS = 200
"""Steps of the first tries beyond one a buffer; each round of tries has four times as many."""


class _Choice(NamedTuple):
    """A buffer that was put at its lowest place, and what is to be solved for that to be right."""

    mark: int
    buffer: int
    part: range
    parts: list[range]


class _Search:
    """One depth-first search; cliques where it fails are remembered in `levels.trouble`."""

    def __init__(self, levels: Levels, rank: Sequence[int], weighted: bool) -> None:
        self.levels = levels
        self.rank = rank
        self.weighted = weighted
        self.steps = 0

    def run(self, budget: int, expired: Callable[[], bool]) -> bool | None:
        """Whether all buffers have places; None if the budget did not suffice to say."""
        if not self.levels.settle():
            return False
        choices: list[_Choice] = []
        part = range(len(self.levels.open))
        while True:
            solved = self._descend(part, choices, budget, expired)
            if solved is None:
                return None
            while choices and solved and not choices[-1].parts:
                choices.pop()
            if solved and not choices:
                return True
            if solved:
                part = choices[-1].parts.pop()
                continue
            again = self._backtrack(choices)
            if again is None:
                return False
            part = again

    def _backtrack(self, choices: list[_Choice]) -> range | None:
        """The part whose last choice has an alternative, after taking that."""
        while choices:
            choice = choices.pop()
            self.levels.undo(choice.mark)
            if self.levels.lift(choice.buffer):
                return choice.part
        return None

    def _descend(
        self, part: range, choices: list[_Choice], budget: int, expired: Callable[[], bool]
    ) -> bool | None:
        """Decide one buffer after the other, until the last of a part or a dead end."""
        levels = self.levels
        while (i := self._lowest(part)) is not None:
            self.steps += 1
            if self.steps > budget or expired():
                return None
            mark = len(levels.trail)
            if not levels.must_lift(i) and levels.place(i):
                parts = self._split(part)
                choices.append(_Choice(mark, i, part, parts))
                part = parts.pop()
                continue
            if not levels.must_lift(i):
                levels.undo(mark)
            if not levels.lift(i):
                return False
        return True

    def _split(self, part: range) -> list[range]:
        """Runs of cliques with no open buffer in common; the shortest comes last."""
        across, begin, parts = self.levels.across, part.start, []
        for s in part:
            if s + 1 == part.stop or not across[s]:
                parts.append(range(begin, s + 1))
                begin = s + 1
        return sorted(parts, key=len, reverse=True)

    def _lowest(self, part: range) -> int | None:
        """An open buffer that no other can lie below, where there was most trouble."""
        levels = self.levels
        cliques = [s for s in part if levels.open[s]]
        if not cliques:
            return None
        if not self.weighted:
            return self._first(set().union(*(levels.open[s] for s in cliques)))
        found = self._first(levels.open[max(cliques, key=levels.trouble.__getitem__)])
        while True:
            lower = self._first(set().union(*(levels.open[s] for s in levels.spans[found])))
            if levels.low[lower] >= levels.low[found]:
                return found
            found = lower

    def _first(self, buffers: Collection[int]) -> int:
        """The lowest, and of several the one that ranks first."""
        low = self.levels.low
        least = min(map(low.__getitem__, buffers))
        return min((i for i in buffers if low[i] == least), key=self.rank.__getitem__)


def _ranks(lives: Sequence[Life]) -> list[list[int]]:
    """Which of several lowest buffers comes first: by how full it is there, time and area."""
    at = moments(lives)
    load = [sum(x.bytes for x in lives if x.first <= m <= x.last) for m in at]
    full = [max(n for m, n in zip(at, load, strict=True) if x.first <= m <= x.last) for x in lives]
    time = [x.last - x.first + 1 for x in lives]
    area = [x.bytes * t for x, t in zip(lives, time, strict=True)]
    ranks = []
    size = [x.bytes for x in lives]
    for columns in ((full, size), (time, area, full), (full, area, time), (full, time, area)):
        keys = list(zip(*columns, strict=True))
        rank = [0] * len(lives)
        for n, i in enumerate(sorted(range(len(lives)), key=lambda i: keys[i], reverse=True)):
            rank[i] = n
        ranks.append(rank)
    return ranks


def _tries(lives: Sequence[Life]) -> Iterator[tuple[list[int], bool, int]]:
    ranks = _ranks(lives)
    for n in count():
        for weighted in (False, True):
            for rank in ranks:
                yield rank, weighted, len(lives) + (FIRST_DETOURS * 4**n)


def pack(
    lives: Sequence[Life],
    capacity: int,
    steps: int,
    expired: Callable[[], bool] = lambda: False,
) -> list[int] | None:
    """Addresses below `capacity` under which no two lives that meet overlap, or None.

    None says that there are none, or that `steps` choices did not find them or time is up.
    """
    if lower_bound(lives) > capacity:
        return None
    trouble = [0.0] * len(moments(lives))
    for rank, weighted, budget in _tries(lives):
        search = _Search(Levels(lives, capacity, trouble), rank, weighted)
        solved = search.run(min(budget, steps), expired)
        if solved is not None:
            return search.levels.low if solved else None
        steps -= search.steps
        if steps <= 0 or expired():
            return None
    return None
