"""What the benchmarks are made of: long texts assemble, chains compile, figures are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ge
from bench.big_assembly import repeated
from bench.chains import chain
from bench.measure import Figure, report
from bench.workload_models import WORKLOADS
from examples.models import MODELS, simple_transformer
from ge.codegen.parse_asm import parse_asm
from ge.dialects.diagnostics import UnsupportedError
from ge.dialects.weights_file import WeightsFolder


def test_a_long_text_is_the_kernels_again_and_again(tmp_path: Path) -> None:
    compiled = ge.compile(simple_transformer(17, (1, 4, 16), heads=2), target="tiny")
    compiled.save(tmp_path / "small.s")
    text = (tmp_path / "small.s").read_text("utf-8")
    long = repeated(text, 5 * len(text.splitlines()))
    assert 0 <= long.count("\n") - 5 * text.count("\n") < text.count("\n")
    program = parse_asm(long, "long.s", WeightsFolder(tmp_path))
    assert len(program.kernels) > 4 * len(compiled.program.kernels)
    assert len({kernel.symbol for kernel in program.kernels}) == len(program.kernels)


@pytest.mark.parametrize("count", [1, 8, 20])
def test_a_chain_has_as_many_operators_as_asked(count: int) -> None:
    model = chain(count)
    assert len(model.graph.node) == count
    assert ge.compile(model, target="tiny").stats().cycles


def test_figures_stand_beside_their_bars(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = [
        Figure("fast", 1.0, "s", 2.0),
        Figure("slow", 1234567.0, "lines/s", 2e6, at_least=True),
        Figure("told", 0.125, "MB"),
    ]
    report(iter(figures), tmp_path / "out.json")
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert words == [
        ["fast", "1", "s", "<=", "2", "ok"],
        ["slow", "1,234,567", "lines/s", ">=", "2,000,000", "MISSED"],
        ["told", "0.125", "MB"],
    ]
    assert [row["good"] for row in json.loads((tmp_path / "out.json").read_text())] == [1, 0, 1]


def test_every_example_is_a_workload() -> None:
    assert set(MODELS) < set(WORKLOADS)


def test_single_precision_products_are_refused_without_a_cube_for_them() -> None:
    with pytest.raises(UnsupportedError, match=r"the cube of 'ascend910a' .* precision fp16"):
        ge.compile(simple_transformer(17, (1, 4, 16), heads=2), target="ascend910a")
