"""Tilings that the clock chooses, and those that are kept in a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ge
from examples.models import Net
from ge.dialects.diagnostics import DoesNotFit, InputError
from ge.lowering.kernels.tiling import parse_tiling, text_of
from ge.lowering.tune_kernel import kept
from ge.tools.ge_compile import main

TINY: dict[str, Any] = {"target": "tiny"}


def _product(rows: int = 40) -> onnx.ModelProto:
    net = Net(1)
    y = net("Relu", net("Add", net("MatMul", "x", net.normal(24, 56)), net.normal(56)))
    return net.model({"x": (rows, 24)}, [y], 17)


def _us(model: onnx.ModelProto, **how: Any) -> float:
    return ge.compile(model, **TINY, **how).stats().us or 0.0


@pytest.mark.parametrize(
    "text",
    [
        "block m=4 n=16; inner n=8; copies a_l1=1; nest acc k=16 k=8; load a acc_k16",
        "block q=7; sequential 128; chunk 0 q=3; chunk 1 q=3",
        "block m=4 n=16; within m=2 n=8; sequential 8; chunk 1 m=1",
        "block m=4; stage 1; pin x0 block; order block mte3 fix",
        "",
    ],
)
def test_a_tiling_is_the_same_when_it_is_read_again(text: str) -> None:
    tiling = parse_tiling(text)
    assert text_of(tiling) == text
    assert parse_tiling(text_of(tiling)) == tiling


def test_a_tuned_kernel_is_never_slower_and_needs_no_search_again() -> None:
    model = _product()
    plain, tuned = _us(model), ge.compile(model, **TINY, tune=True)
    assert (tuned.stats().us or 0.0) <= plain
    assert tuned.report is not None
    (key,) = tuned.report.tilings
    assert re.fullmatch(r"MatMulRelu m=40 n=56 k=24 f32 [0-9a-f]{12}", key)
    again = ge.compile(model, **TINY, tilings=tuned.report.tilings)
    assert again.assembly == tuned.assembly


def test_numbers_do_not_depend_on_tuning() -> None:
    model, x = _product(), np.random.default_rng(2).standard_normal((40, 24)).astype(np.float32)
    plain, tuned = (ge.compile(model, **TINY, tune=tune).run({"x": x}) for tune in (False, True))
    for name, value in plain.items():
        np.testing.assert_allclose(tuned[name], value, rtol=1e-5, atol=1e-5)


def test_a_kept_tiling_is_for_one_kernel_on_one_machine() -> None:
    tuned = ge.compile(_product(), **TINY, tune=True)
    assert tuned.report is not None
    bad = dict.fromkeys(tuned.report.tilings, "block m=1 n=1")
    assert _us(_product(41), tilings=bad) == _us(_product(41))
    assert _us(_product(), tilings=bad) > _us(_product())
    other = ge.compile(_product(), target="ascend910b1")
    assert ge.compile(_product(), target="ascend910b1", tilings=bad).assembly == other.assembly


def test_what_is_wrong_with_a_kept_tiling_is_said() -> None:
    with pytest.raises(InputError, match="m:3: error: a kept tiling must be 'KERNEL: TILING'"):
        kept(["# by hand", "", "nonsense"], "m")
    with pytest.raises(InputError, match="tilings:1: error: a clause of a tiling must be known"):
        kept(["k: blok m=1"])
    tuned = ge.compile(_product(), **TINY, tune=True)
    assert tuned.report is not None
    bad = dict.fromkeys(tuned.report.tilings, "block zz=1")
    with pytest.raises(InputError, match="must name a parallel dimension of the kernel"):
        ge.compile(_product(), **TINY, tilings=bad)
    whole = dict.fromkeys(tuned.report.tilings, "block m=40 n=56")
    with pytest.raises(DoesNotFit, match=r"too many; buffers: .* only where that says 'chosen'"):
        ge.compile(_product(), **TINY, tilings=whole)


def test_the_tool_keeps_what_it_finds(tmp_path: Path) -> None:
    model, kept = tmp_path / "m.onnx", tmp_path / "m.tilings"
    onnx.save(_product(), model)
    arguments = [str(model), "--target", "tiny", "--tilings", str(kept)]
    assert main([*arguments, "-o", str(tmp_path / "no.o")]) == InputError.status
    assert main([*arguments, "--tune", "-o", str(tmp_path / "a.o")]) == 0
    text = "# by hand\n" + kept.read_text()
    kept.write_text(text)
    assert text.count("\n") == 2
    assert main([*arguments, "-o", str(tmp_path / "b.o")]) == 0
    assert (tmp_path / "a.o").read_bytes() == (tmp_path / "b.o").read_bytes()
    assert main([*arguments, "--tune", "-o", str(tmp_path / "c.o")]) == 0
    assert kept.read_text() == text
