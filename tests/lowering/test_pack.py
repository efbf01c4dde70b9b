"""Searched places: tight problems with a known solution are solved, and nothing overlaps."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from ge.lowering.lives import Life, height, lower_bound, overlaps
from ge.lowering.pack import pack
from ge.lowering.pack_levels import moments

STEPS = 3000


def cut(rng: random.Random, pieces: int, time: int, capacity: int) -> list[Life]:
    """A rectangle, cut again and again: no byte of it is free at any time."""
    rectangles = [(0, time, 0, capacity)]
    while len(rectangles) < pieces:
        rectangles.sort(key=lambda r: (r[1] - r[0]) * (r[3] - r[2]))
        begin, end, low, high = rectangles.pop()
        if rng.random() < 0.5 and end - begin > 1:
            at = rng.randrange(begin + 1, end)
            rectangles += [(begin, at, low, high), (at, end, low, high)]
        else:
            at = rng.randrange(low + 1, high)
            rectangles += [(begin, end, low, at), (begin, end, at, high)]
    rng.shuffle(rectangles)
    return [Life(begin, end - 1, high - low) for begin, end, low, high in rectangles]


def _with_holes(rng: random.Random, pieces: int, time: int, capacity: int) -> list[Life]:
    """Of a cut rectangle all but a few: what is left may be pushed about."""
    return cut(rng, pieces, time, capacity)[pieces // 10 :]


def _stairs(rng: random.Random, pieces: int, time: int, capacity: int) -> list[Life]:
    """A band that is always full, where one life ends as the next begins, beside short ones."""
    bands = [0, *sorted(rng.sample(range(1, capacity), 4)), capacity]
    lives = []
    for low, high in pairwise(bands):
        cuts = [0, *sorted(rng.sample(range(1, time), pieces // 5)), time]
        lives += [Life(begin, end - 1, high - low) for begin, end in pairwise(cuts)]
    rng.shuffle(lives)
    return lives


KINDS = (cut, _with_holes, _stairs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("pieces", "time", "capacity"), [(10, 8, 40), (40, 30, 500), (90, 60, 999)]
)
@pytest.mark.parametrize("seed", range(4))
def test_tight_problems_are_solved(
    kind: Callable[..., list[Life]], pieces: int, time: int, capacity: int, seed: int
) -> None:
    lives = kind(random.Random(seed), pieces, time, capacity)
    places = pack(lives, capacity, STEPS)
    assert places is not None
    assert overlaps(lives, places) == []
    assert min(places) >= 0
    assert height(lives, places) <= capacity


def _brute_force(lives: list[Life], capacity: int) -> bool:
    """Whether a plan exists, by trying all places in order."""

    def fits(places: list[int]) -> bool:
        i = len(places)
        if i == len(lives):
            return True
        return any(
            not overlaps(lives[: i + 1], [*places, at]) and fits([*places, at])
            for at in range(capacity - lives[i].bytes + 1)
        )

    return fits([])


@pytest.mark.parametrize("seed", range(120))
def test_a_plan_is_found_if_and_only_if_there_is_one(seed: int) -> None:
    rng = random.Random(seed)
    lives = []
    for _ in range(rng.randrange(4, 8)):
        first = rng.randrange(6)
        lives.append(Life(first, first + rng.randrange(4), rng.randrange(1, 5)))
    capacity = lower_bound(lives)
    places = pack(lives, capacity, 10_000)
    assert (places is not None) == _brute_force(lives, capacity)
    if places is not None:
        assert overlaps(lives, places) == []
        assert height(lives, places) == capacity


def test_less_than_the_bound_is_refused_without_a_search() -> None:
    lives = [Life(0, 1, 2), Life(1, 2, 1), Life(2, 3, 2)]
    assert pack(lives, 2, 0) is None


def test_a_budget_ends_the_search() -> None:
    lives = cut(random.Random(1), 60, 40, 400)
    assert pack(lives, 400, 10) is None
    assert pack(lives, 400, STEPS, lambda: True) is None


def test_plans_are_the_same_each_time() -> None:
    lives = cut(random.Random(5), 40, 30, 300)
    assert pack(lives, 300, STEPS) == pack(lives, 300, STEPS)


def test_no_buffers_need_no_places() -> None:
    assert pack([], 10, STEPS) == []


def test_cliques_are_the_largest_sets_that_meet() -> None:
    lives = [Life(0, 3, 1), Life(1, 1, 1), Life(2, 5, 1), Life(3, 4, 1), Life(7, 7, 1)]
    assert moments(lives) == [1, 3, 7]
