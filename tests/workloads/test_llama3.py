"""The Llama example on a small geometry: its tables hold together, and what cannot fit is said."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import ge
from examples.llama3.__main__ import BEGIN, END, main
from examples.llama3.eager import VIEWS, eager, launches, lists
from examples.llama3.figures import PARTS, Study
from examples.llama3.model import GEOMETRIES, Geometry, decoder
from examples.llama3.page import markdown, page, text
from examples.llama3.work import study
from ge.codegen.objects import write_object
from ge.dialects.npu.places import Space
from ge.lowering.pipelines import Options
from ge.runtime.driver import begin, unsimplified
from ge.runtime.simulator import Simulator
from ge.runtime.source import Source

SMALL = Geometry("small", 64, 2, 4, 2, 128, words=256)


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    one = Study(SMALL, "tiny", prompt=24, tokens=3, batch=2)
    found = {"model": "small", "date": "2026-01-01", "prompt": 24, "tokens": 3}
    found |= {"weights_bytes": SMALL.weights_bytes, "recorded": {"torch": "2"}, "seconds": 1.0}
    return {**found, "targets": [one.figures()]}


@pytest.fixture
def target(figures: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = figures["targets"][0]
    return found


@pytest.mark.parametrize("table", ["generate", "prefill"])
def test_no_stage_is_slower_and_none_beats_the_limit(target: dict[str, Any], table: str) -> None:
    times = [stage["us"] for stage in target[table]["stages"]]
    assert times == sorted(times, reverse=True)
    assert target[table]["limit_us"] <= times[-1]
    assert target[table]["limit_to_eager"] == pytest.approx(times[0] / target[table]["limit_us"])


def test_memory_is_what_the_geometry_says(target: dict[str, Any]) -> None:
    memory = target["memory"]
    assert memory["cache_bytes"] == 2 * 2 * SMALL.layers * 2 * 24 * 2 * 16
    assert memory["activations_bound_bytes"] <= memory["activations_bytes"]
    assert memory["activations_bytes"] <= memory["activations_no_reuse_bytes"]


def test_the_hottest_kernels_say_what_bounds_them(target: dict[str, Any]) -> None:
    for stage in target["prefill"]["stages"]:
        rows = stage["hottest"]
        assert 5 < len(rows) <= 10
        assert [row["us"] for row in rows] == sorted((row["us"] for row in rows), reverse=True)
        assert all(0 < row["unit_use"] <= 1 and row["bound"] for row in rows)
        assert sum(row["share"] for row in rows) <= 1


def test_published_sizes_are_met() -> None:
    parameters = {name: g.weights_bytes / 2e9 for name, g in GEOMETRIES.items()}
    assert parameters == pytest.approx({"8b": 8.03, "3.2-1b": 1.236, "70b": 70.55}, rel=0.005)


def test_text_page_and_document_say_the_same(figures: dict[str, Any]) -> None:
    json.dumps(figures)
    shown, made, section = text(figures), page(figures), markdown(figures)
    HTMLParser().feed(made)
    assert "+native" in shown
    assert not re.search(r"(src|href)=", made)
    for stage in figures["targets"][0]["generate"]["stages"]:
        assert all(f"{stage['us']:,.0f}" in where for where in (shown, made, section))


def test_what_fits_no_device_is_said_with_its_bytes() -> None:
    one = Study(SMALL, "tiny", prompt=24, tokens=3, batch=2)
    memory = {**one.machine.bytes_of, Space.GM: 200_000}
    one.__dict__["machine"] = replace(one.machine, bytes_of=memory)
    found = study([one])
    (target,) = found["targets"]
    assert target["does_not_fit"]["available_bytes"] == 200_000
    assert target["decode_layer_us"] > 0
    assert "does not fit one tiny" in text(found)


@pytest.mark.parametrize("past", [0, 23])
def test_each_recorded_operator_is_one_launch(past: int) -> None:
    length, kind = (1, "decode") if past else (24, "prefill")
    options = replace(Options(target="tiny").eager(), whole=True)
    model = eager(SMALL, length, past)
    stats = Simulator(unsimplified(Source(model), options).program()).run(mode="timing").stats
    # A prompt's attention leaves its heads apart: joining them is a kernel of each layer.
    joined = 0 if past else SMALL.layers
    assert stats.launches == launches(kind, SMALL.layers) + joined


def test_the_lists_hold_what_a_layer_must_do() -> None:
    for kind in ("prefill", "decode"):
        ops = [row["op"] for row in lists()[kind]["layer"]]
        assert ops.count("mm") == 7
        assert ops.count("attention") == 1
        assert sum(op not in VIEWS for op in ops) > 35


def test_layers_are_compiled_once_and_the_object_stays_small() -> None:
    few, many = (replace(SMALL, layers=n) for n in (2, 12))
    made = [begin(Source(decoder(g, 1, 23)), Options(target="tiny")).program() for g in (few, many)]
    assert len(made[0].kernels) == len(made[1].kernels)
    sizes = [len(write_object(program)) for program in made]
    assert (sizes[1] - sizes[0]) / 10 * 32 < 1_500_000


def test_every_stage_is_a_switch_of_the_tools() -> None:
    model, stages = decoder(SMALL, 1, 23), ("fuse_ops", "memory_reuse", "pipeline_schedule")
    off: dict[str, Any] = dict.fromkeys((*stages, "native"), False)
    launched = ge.compile(model, target="tiny", **off).stats().launches
    fused = ge.compile(model, target="tiny", **off | {"fuse_ops": True}).stats().launches
    assert launched is not None
    assert fused is not None
    assert launched > fused > 1
    assert ge.compile(model, target="tiny").stats().launches == 1


def test_a_section_is_replaced_and_nothing_else(
    figures: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(GEOMETRIES, "3.2-1b", SMALL)
    monkeypatch.setattr("examples.llama3.__main__.study", lambda studies: figures)
    page_, trace = tmp_path / "page.md", tmp_path / "trace.json"
    page_.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", "utf-8")
    arguments = ["--geometry", "3.2-1b", "--target", "tiny", "--prompt", "24", "--batch", "2"]
    assert main([*arguments, "--update", str(page_), "--trace", str(trace)]) == 0
    found = page_.read_text("utf-8")
    assert found.startswith(f"before\n{BEGIN}\n")
    assert found.endswith(f"\n{END}\nafter\n")
    assert "old" not in found
    assert json.loads(trace.read_text("utf-8"))["traceEvents"]
    assert "Device memory" in capsys.readouterr().out
    page_.write_text("no marks", "utf-8")
    assert main([*arguments, "--update", str(page_)]) == 3


def test_parts_are_methods_of_a_study() -> None:
    assert all(hasattr(Study, part) for part in PARTS)
