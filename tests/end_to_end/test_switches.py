"""Each switch does what it says, and nothing to the numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ge
from ge.lowering.pipelines import Options
from ge.runtime.ablation import STAGES, ablation
from ge.runtime.compiled import CompiledModel
from ge.runtime.driver import begin
from ge.runtime.source import Source
from tests import onnx_oracle

OFF: dict[str, Any] = dict.fromkeys(
    ("fuse_ops", "memory_reuse", "pipeline_schedule", "native"), False
)


def compiled(models: dict[str, Path], **switches: Any) -> CompiledModel:
    return ge.compile(models["transformer"], target="tiny", **switches)


@pytest.mark.parametrize("switches", [{}, *({name: False} for name in OFF), OFF], ids=str)
def test_numbers_stay_right_and_hazards_away(
    models: dict[str, Path], switches: dict[str, Any]
) -> None:
    model = onnx.load(models["transformer"])
    x = np.random.default_rng(2).standard_normal((2, 6, 24)).astype(np.float32)
    got = compiled(models, **switches).run({"x": x}, check_hazards=True)
    onnx_oracle.close(got["y"], onnx_oracle.run(model, {"x": x})[0], 1e-4)


def test_without_fusion_there_is_a_kernel_for_each_operator(models: dict[str, Path]) -> None:
    fused, apart = compiled(models), compiled(models, fuse_ops=False)
    assert fused.report
    assert fused.report.hits["Attention"] == 1
    assert apart.report
    assert not any(apart.report.hits.values())
    assert all(len(k.source_ops) <= 1 or k.name == "Gelu" for k in apart.stats().kernels)
    assert len(fused.stats().kernels) < len(apart.stats().kernels)


def test_without_reuse_each_intermediate_has_its_place(models: dict[str, Path]) -> None:
    reused, apart = compiled(models).program, compiled(models, memory_reuse=False).program
    assert reused.arena.lower_bound <= reused.arena.bytes < reused.arena.no_reuse
    assert apart.arena.bytes == apart.arena.no_reuse == reused.arena.no_reuse


def test_without_native_each_kernel_is_a_launch(models: dict[str, Path]) -> None:
    native, apart = compiled(models).stats(), compiled(models, native=False).stats()
    assert native.launches == 1
    assert apart.launches == len(apart.kernels)
    assert apart.us is not None
    assert native.us is not None
    # The host dispatches one kernel after the other.
    assert apart.us >= apart.launches * apart.target.host_dispatch_us
    assert native.us < apart.us


def test_without_pipeline_matrix_and_vector_work_takes_turns(models: dict[str, Path]) -> None:
    together, apart = compiled(models), compiled(models, pipeline_schedule=False)
    assert together.program.code != apart.program.code
    assert (together.stats().cycles or 0) <= (apart.stats().cycles or 0)


def test_the_ablation_turns_them_on_one_by_one(models: dict[str, Path]) -> None:
    table = ablation(begin(Source(models["transformer"]), Options(target="tiny")))
    first, last = table.stages[0].stats, table.stages[-1].stats
    assert first.cycles == compiled(models, **OFF).stats().cycles
    assert last.cycles == compiled(models).stats().cycles
    document = table.to_json()
    assert [row["name"] for row in document["stages"]] == [name for name, _ in STAGES]
    assert document["stages"][-1]["to_eager"] == (first.cycles or 0) / (last.cycles or 1)
    # The slower the host dispatches, the more eager loses.
    times = [row["eager_us"] for row in document["host_dispatch"]]
    assert [row["host_dispatch_us"] for row in document["host_dispatch"]] == [5, 10, 18]
    assert times == sorted(times)
    assert times[-1] == first.us
    assert str(table).splitlines()[1].startswith("eager ")
