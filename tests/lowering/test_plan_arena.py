"""Places in device memory: never two at once in the same bytes, and near the bound."""

from __future__ import annotations

import random

import pytest

from ge.lowering.lives import Life, height, lower_bound, overlaps
from ge.lowering.plan_arena import plan


def _random_lives(seed: int) -> list[Life]:
    rng = random.Random(seed)
    lives = []
    for _ in range(rng.randrange(1, 60)):
        first = rng.randrange(40)
        last = first + rng.choice((0, 1, 1, 2, 5, 20))
        lives.append(Life(first, last, 512 * rng.choice((1, 1, 2, 3, 8, 31))))
    return lives


def _alive(lives: list[Life], moment: int) -> int:
    return sum(x.bytes for x in lives if x.first <= moment <= x.last)


@pytest.mark.parametrize("seed", range(60))
def test_plans_are_right(seed: int) -> None:
    lives = _random_lives(seed)
    places = plan(lives)
    assert overlaps(lives, places) == []
    assert min(places) >= 0
    bound = max(_alive(lives, moment) for moment in range(70))
    assert lower_bound(lives) == bound
    assert bound <= height(lives, places) <= 1.35 * bound


def test_the_checker_sees_an_overlap() -> None:
    lives = [Life(0, 2, 10), Life(2, 3, 10), Life(3, 4, 10)]
    assert overlaps(lives, [0, 9, 20]) == [(0, 1)]
    assert overlaps(lives, [0, 10, 0]) == []
    assert overlaps(lives, [0, 10, 19]) == [(1, 2)]


TIGHT = {
    "a chain": [Life(i, i + 1, 4) for i in range(9)],
    "a residual over a chain": [Life(0, 9, 2), *(Life(i, i + 1, 4) for i in range(9))],
    "large after small": [Life(0, 1, 1), Life(1, 2, 3), Life(2, 3, 1), Life(2, 4, 2)],
    "one that is read at once": [Life(3, 3, 7)],
    "stairs": [Life(i, i + 3, i + 1) for i in range(6)],
}


@pytest.mark.parametrize("name", TIGHT)
def test_tight_problems_meet_the_bound(name: str) -> None:
    lives = TIGHT[name]
    assert height(lives, plan(lives)) == lower_bound(lives)


def test_nothing_needs_nothing() -> None:
    assert lower_bound([]) == 0
    assert height([], []) == 0
