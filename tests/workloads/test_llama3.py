"""The Llama example on a small geometry: its tables hold together, and what cannot fit is said."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from examples.llama3.figures import Study
from examples.llama3.model import GEOMETRIES, Geometry
from examples.llama3.page import page, text
from ge.dialects.npu.places import Space

SMALL = Geometry("small", 64, 2, 4, 2, 128, words=256)


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return Study(SMALL, "tiny", prompt=24, tokens=3, batch=2).figures()


@pytest.mark.parametrize("table", ["generate", "prefill"])
def test_no_stage_is_slower_and_none_beats_the_limit(figures: dict[str, Any], table: str) -> None:
    times = [stage["us"] for stage in figures[table]["stages"]]
    assert times == sorted(times, reverse=True)
    assert figures[table]["limit_us"] <= times[-1]


def test_memory_is_what_the_geometry_says(figures: dict[str, Any]) -> None:
    memory = figures["memory"]
    assert memory["cache_bytes"] == 2 * 2 * SMALL.layers * 2 * 24 * 2 * 16
    assert memory["activations_bound_bytes"] <= memory["activations_bytes"]
    assert memory["activations_bytes"] <= memory["activations_no_reuse_bytes"]


def test_published_sizes_are_met() -> None:
    parameters = {name: g.weights_bytes / 2e9 for name, g in GEOMETRIES.items()}
    assert parameters == pytest.approx({"8b": 8.03, "3.2-1b": 1.236, "70b": 70.55}, rel=0.005)


def test_text_page_and_document_say_the_same(figures: dict[str, Any]) -> None:
    json.dumps(figures)
    shown, made = text(figures), page(figures)
    HTMLParser().feed(made)
    assert "+native" in shown
    assert not re.search(r"(src|href)=", made)
    for stage in figures["generate"]["stages"]:
        assert f"{stage['us']:,.0f}" in shown
        assert f"{stage['us']:,.0f}" in made


def test_what_fits_no_device_is_said_with_its_bytes() -> None:
    study = Study(SMALL, "tiny", prompt=24, tokens=3, batch=2)
    memory = {**study.target.bytes_of, Space.GM: 200_000}
    study.target = replace(study.target, bytes_of=memory)
    found = study.figures()
    assert found["does_not_fit"]["available_bytes"] == 200_000
    assert found["decode_layer_us"] > 0
    assert "does not fit one tiny" in text(found)
