"""Branches and loops run on the device: what onnxruntime computes, and only what is taken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import ge
from examples.models import Net
from ge.codegen.objects import write_object
from ge.dialects.npu.program import Program
from ge.lowering.pipelines import Options
from ge.runtime.simulator import Result, simulate
from ge.tools import ge_as
from ge.tools.ge_compile import main
from tests.compiled import compiled, error_of
from tests.onnx_oracle import run

TINY = Options(target="tiny")


def body(net: Net, inputs: dict[str, tuple[int, Sequence[int]]], outputs: Sequence[str]) -> Any:
    """A graph for an attribute; its weights stay with the model."""
    ins = [helper.make_tensor_value_info(n, t, list(s)) for n, (t, s) in inputs.items()]
    outs = [onnx.ValueInfoProto(name=name) for name in outputs]
    return helper.make_graph(net.nodes, "body", ins, outs)


def inner(net: Net) -> Net:
    """What collects the nodes of a body; names and weights are those of the model."""
    other = Net()
    other.weights = net.weights
    other.rng = net.rng
    other.prefix = f"{net.prefix}b{len(net.nodes)}_"
    return other


def choice(side: int = 24) -> onnx.ModelProto:
    """A product for positive sums, another one with a softmax for others."""
    net = Net(3)
    y = net("Add", "x", "x")
    positive = net("Greater", net("ReduceSum", "x", keepdims=0), np.float32(0))
    then, other = inner(net), inner(net)
    a = then("Relu", then("MatMul", y, net.normal(side, side)))
    b = other("Softmax", other("MatMul", y, net.normal(side, side)), axis=-1)
    c = other("Sub", b, "x")
    branches = {"then_branch": body(then, {}, [a]), "else_branch": body(other, {}, [c])}
    return net.model({"x": (16, side)}, [net("Add", net("If", positive, **branches), y)], 17)


def followed(program: Program, model: onnx.ModelProto, inputs: dict[str, Any]) -> Result:
    """A run that gives what onnxruntime gives, without a hazard."""
    result = simulate(program, inputs, check_hazards=True)
    assert not result.hazards, str(result.hazards[0])
    for got, want in zip(result.outputs.values(), run(model, inputs), strict=True):
        assert error_of(got, want) < 1e-4
    return result


def kernels(result: Result) -> list[str]:
    """The kernels that ran, in order."""
    return [kernel.name for kernel in result.stats.kernels]


@pytest.mark.parametrize("options", [TINY, TINY.eager(), Options(cores=3)], ids=str)
def test_only_the_branch_that_is_taken_runs(options: Options) -> None:
    model = choice()
    program = compiled(model, options)
    x = np.random.default_rng(1).standard_normal((16, 24)).astype(np.float32)
    positive, negative = (followed(program, model, {"x": x + shift}) for shift in (1, -1))
    assert any("Softmax" in name for name in kernels(negative))
    assert not any("Softmax" in name for name in kernels(positive))
    assert positive.stats.instructions < negative.stats.instructions


def test_the_text_of_every_level_gives_the_same_object(tmp_path: Path) -> None:
    file, whole, temps = tmp_path / "m.onnx", tmp_path / "whole.o", tmp_path / "temps"
    onnx.save(choice(), file)
    tiny = ["--target", "tiny"]
    assert main([str(file), *tiny, "-o", str(whole), "--save-temps", str(temps)]) == 0
    for level in ("graph", "fused", "npu"):
        text = temps / f"m.{level}.mlir"
        assert main([str(text), *tiny, "-o", str(tmp_path / "again.o")]) == 0
        assert (tmp_path / "again.o").read_bytes() == whole.read_bytes(), level
    assert ge_as.main([str(temps / "m.s"), "-o", str(tmp_path / "again.o")]) == 0
    assert (tmp_path / "again.o").read_bytes() == whole.read_bytes()
    assert write_object(ge.load(whole).program) == whole.read_bytes()


@pytest.mark.parametrize("precision", ["fp16", "mixed"])
def test_branches_are_computed_in_the_precision_that_is_asked_for(precision: str) -> None:
    model = choice()
    x = np.random.default_rng(2).standard_normal((16, 24)).astype(np.float32)
    program = ge.compile(model, target="tiny", precision=precision)
    for shift in (1, -1):
        inputs = {"x": x + np.float32(shift)}
        (got,), (want,) = program.run(inputs).values(), run(model, inputs)
        assert error_of(got, want) < 1e-2
