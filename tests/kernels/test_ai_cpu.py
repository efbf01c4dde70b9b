"""Models of which the AI CPU computes a part: numbers, reports, texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import ge
from ge.codegen.objects import write_object
from ge.dialects.module_text import make_context, read_module, write_module
from ge.frontend.onnx_import import import_onnx
from ge.lowering.pipelines import Level, Options, passes, simplification
from tests.compiled import check, random_inputs
from tests.models import Net
from tests.onnx_oracle import close, run

TINY = Options(target="tiny")


def determinants(net: Net) -> onnx.ModelProto:
    turned = net("Transpose", net("Relu", "x"), perm=[0, 2, 1])
    return net.model({"x": (5, 3, 3)}, [net("Exp", net("Det", turned)), net("Det", "x")], 17)


def doubles(net: Net) -> onnx.ModelProto:
    wide = net("Cast", "x", to=TensorProto.DOUBLE)
    weights = np.random.default_rng(0).standard_normal((3, 4))
    product = net("MatMul", net("Transpose", wide, perm=[1, 0]), net("Sigmoid", wide))
    parts = net("Concat", net("MatMul", product, weights), net("Softmax", weights[:2]), axis=0)
    mean = net("ReduceMean", net("Mul", parts, np.float64(1 / 3)), axes=[1], keepdims=0)
    types = {"x": TensorProto.FLOAT}
    types |= {parts: TensorProto.DOUBLE, mean: TensorProto.DOUBLE}
    narrow = net("Cast", mean, to=TensorProto.FLOAT)
    return net.model({"x": (5, 3)}, [parts, mean, narrow], 17, types)


def reversals(net: Net) -> onnx.ModelProto:
    along = net("ReverseSequence", "x", "n", time_axis=1, batch_axis=0)
    types = {"x": TensorProto.FLOAT, "n": TensorProto.INT64}
    return net.model({"x": (4, 9, 2), "n": (4,)}, [along], 17, types)


@pytest.mark.parametrize("make", [determinants, doubles, reversals])
@pytest.mark.parametrize("eager", [False, True])
def test_numbers_are_those_of_onnxruntime(make: Any, eager: bool) -> None:
    check(make(Net(3)), TINY.eager() if eager else TINY)


def test_doubles_are_not_narrowed() -> None:
    model = doubles(Net(3))
    given = random_inputs(model)
    out = ge.compile(model, target="tiny").run(given, check_hazards=True)
    for got, want in zip(out.values(), run(model, given), strict=True):
        close(got, want, 1e-14 if want.dtype == np.float64 else 1e-6)


def test_every_use_is_reported() -> None:
    compiled = ge.compile(determinants(Net(3)), target="tiny")
    assert compiled.report is not None
    uses = compiled.report.to_json()["ai_cpu"]
    assert [(use["operator"], use["bytes"]) for use in uses] == [("Det", 200), ("Det", 200)]
    assert all(use["nodes"] for use in uses)
    assert "on the AI CPU: Det " in str(compiled.report)


@pytest.mark.parametrize("make", [determinants, doubles])
def test_texts_of_every_level_give_the_same_object(make: Any, tmp_path: Path) -> None:
    options = Options(target="tiny", cores=2)
    module = import_onnx(make(Net(3)))
    ctx = make_context()
    for stage in simplification(options):
        stage.apply(ctx, module)
    want = write_object(ge.compile(make(Net(3)), target="tiny").program)
    for level in Level:
        path = tmp_path / f"{level.value}.mlir"
        write_module(module, path)
        again = ge.compile(path, target="tiny", cores=2)
        assert write_object(again.program) == want
        module = read_module(path, ctx)
        for stage in passes(level, options):
            stage.apply(ctx, module)
