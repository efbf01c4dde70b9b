"""Affine maps: their text reads back, and mistakes in it are named."""

from __future__ import annotations

import random

import pytest

from ge.dialects.npu.axes import Axis, axes, dims_of, identity, text_of


def _random_axis(rng: random.Random) -> Axis:
    dims = rng.sample(("b", "ky", "x1", "m", "_d"), rng.randrange(4))
    terms = tuple((d, rng.choice((1, 1, 2, 17, -1, -3))) for d in dims)
    return Axis(terms, rng.choice((0, 0, 5, -4)))


@pytest.mark.parametrize("seed", range(40))
def test_text_reads_back(seed: int) -> None:
    rng = random.Random(seed)
    maps = tuple(_random_axis(rng) for _ in range(rng.randrange(1, 5)))
    assert axes(text_of(maps)) == maps


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", ()),
        ("b, 2*y+ky-1", (Axis((("b", 1),)), Axis((("y", 2), ("ky", 1)), -1))),
        ("-x*3 + 4", (Axis((("x", -3),), 4),)),
        ("0", (Axis(()),)),
    ],
)
def test_forms(text: str, want: tuple[Axis, ...]) -> None:
    assert axes(text) == want


@pytest.mark.parametrize("text", ["2*", "a b", "m+", "m,,n", "m*n", "3m", "+"])
def test_mistakes_are_named(text: str) -> None:
    with pytest.raises(ValueError, match="must be a sum like"):
        axes(text)


def test_dims_and_extents() -> None:
    maps = axes("2*y+ky-1, b")
    assert dims_of(maps) == ("y", "ky", "b")
    assert maps[0].extent({"y": 4, "ky": 3}) == 9
    assert identity(("b", "y")) == axes("b, y")
