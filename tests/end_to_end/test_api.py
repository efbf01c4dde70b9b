"""The Python interface: compile, run, save, load, and the engine in the vendor's spelling."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ge
from ge.dialects.diagnostics import InputError, UnsupportedError
from tests import onnx_oracle


@pytest.fixture
def mlp(models: dict[str, Path]) -> Path:
    return models["mlp"]


@pytest.fixture
def want(mlp: Path, x: Any) -> Any:
    return onnx_oracle.run(onnx.load(mlp), {"x": x})[0]


def test_a_compiled_model_runs_and_says_what_it_takes(mlp: Path, x: Any, want: Any) -> None:
    program = ge.compile(mlp, target="tiny", cores=1)
    out = program.run({"x": x}, check_hazards=True)
    assert list(out) == [onnx.load(mlp).graph.output[0].name]
    onnx_oracle.close(next(iter(out.values())), want, 1e-5)
    onnx_oracle.close(program(x), want, 1e-5)
    figures = program.stats().to_json()
    assert (figures["target"], figures["cores"], figures["launches"]) == ("tiny", 1, 1)
    assert ".target tiny, cores=1" in program.assembly
    assert program.report
    assert program.report.seconds > 0


@pytest.mark.parametrize(
    ("precision", "tolerance"), [("fp32", 1e-5), ("fp16", 1e-2), ("bf16", 5e-2), ("mixed", 1e-2)]
)
@pytest.mark.parametrize("name", ["mlp", "convolutions", "transformer"])
def test_precisions_keep_the_declared_types(
    models: dict[str, Path], name: str, precision: str, tolerance: float
) -> None:
    model = onnx.load(models[name])
    program = ge.compile(model, target="tiny", precision=precision)
    x = np.random.default_rng(4).standard_normal(program.program.inputs[0].shape)
    inputs = {"x": x.astype(np.float32)}
    (got,) = program.run(inputs, check_hazards=True).values()
    onnx_oracle.close(got, onnx_oracle.run(model, inputs)[0], tolerance)


def test_saved_programs_load_again(mlp: Path, x: Any, tmp_path: Path) -> None:
    program = ge.compile(mlp, target="tiny")
    program.save(tmp_path / "m.o")
    loaded = ge.load(tmp_path / "m.o")
    assert loaded.assembly.count("\n") == program.assembly.count("\n")
    np.testing.assert_array_equal(loaded(x), program(x))
    with pytest.raises(InputError, match=r"must be saved as \.o or \.s"):
        program.save(tmp_path / "m.elf")
    with pytest.raises(InputError, match="must be a readable file"):
        ge.load(tmp_path / "no.o")


def test_mistakes_are_named(mlp: Path, x: Any) -> None:
    program = ge.compile(mlp, target="tiny")
    with pytest.raises(InputError, match=r"inputs must be x, got 2 arrays"):
        program(x, x)
    with pytest.raises(InputError, match=r"unknown input 'y'"):
        program.run({"y": x})
    with pytest.raises(InputError, match="did you mean 'fp16'"):
        ge.compile(mlp, precision="f16")
    with pytest.raises(UnsupportedError, match="got dict"):
        ge.compile({})  # type: ignore[arg-type]


def test_the_engine_loads_optimises_and_runs(mlp: Path, x: Any, want: Any) -> None:
    engine = ge.GraphEngine(ge.OptimizeConfig(target="tiny"))
    with pytest.raises(InputError, match="LoadModel must come first"):
        engine.OptimizeGraph()
    engine.LoadModel(str(mlp))
    optimized = engine.OptimizeGraph()
    assert optimized is engine.OptimizeGraph()
    onnx_oracle.close(optimized(x), want, 1e-5)
    onnx_oracle.close(engine.Optimize(mlp)(x), want, 1e-5)
    with pytest.raises(UnsupportedError, match="PyTorch"):
        engine.Optimize(object())


@pytest.mark.parametrize("precision", ["origin", "fp16"])
def test_saved_models_run_elsewhere(
    models: dict[str, Path], tmp_path: Path, precision: str
) -> None:
    config = ge.OptimizeConfig(target="tiny", precision_mode=precision)
    engine = ge.GraphEngine(config)
    engine.LoadModel(models["convolutions"])
    engine.SaveOptimizedModel(tmp_path / "m.onnx")
    optimized = onnx.load(tmp_path / "m.onnx")
    # Batch norms have gone into the convolutions.
    assert "BatchNormalization" not in {node.op_type for node in optimized.graph.node}
    x = np.random.default_rng(4).standard_normal((1, 3, 8, 8)).astype(np.float32)
    want = onnx_oracle.run(onnx.load(models["convolutions"]), {"x": x})[0]
    tolerance = 1e-5 if precision == "origin" else 1e-2
    onnx_oracle.close(onnx_oracle.run(optimized, {"x": x})[0], want, tolerance)


def test_saved_kernels_and_programs_are_the_same_program(mlp: Path, tmp_path: Path) -> None:
    engine = ge.GraphEngine(ge.OptimizeConfig(target="tiny"))
    engine.LoadModel(mlp)
    for name in ("m.mlir", "m.o", "a.s"):
        engine.SaveOptimizedModel(tmp_path / name)
    ge.compile(tmp_path / "m.mlir", target="tiny").save(tmp_path / "again.o")
    assert (tmp_path / "again.o").read_bytes() == (tmp_path / "m.o").read_bytes()
    with pytest.raises(InputError, match="must be saved as"):
        engine.SaveOptimizedModel(tmp_path / "m.txt")
    engine.LoadModel(tmp_path / "m.mlir")
    with pytest.raises(UnsupportedError, match="only a model of level 'graph'"):
        engine.SaveOptimizedModel(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fuse_op": True}, "unknown option 'fuse_op' of OptimizeConfig; did you mean 'fuse_ops'"),
        ({"fuse_ops": "yes"}, "'fuse_ops' must be of type bool, got 'yes'"),
        ({"precision_mode": "fp61"}, "got 'fp61'; did you mean 'fp16'"),
        ({"target": "tinny"}, "did you mean 'tiny'"),
        ({"target": "tiny", "cores": 3}, "cores must be 1 to 2 of target 'tiny', got 3"),
    ],
)
def test_wrong_configurations_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ge.OptimizeConfig(**given)


def test_options_show_where_a_signature_is_asked_for() -> None:
    assert {*inspect.signature(ge.OptimizeConfig).parameters} == {
        field.name for field in fields(ge.OptimizeConfig)
    }
