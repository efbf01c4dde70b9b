"""Every operator can be computed in every precision, and its signature stays."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context

import ge
from ge.dialects.graph.base import GraphOp
from ge.dialects.graph.module import main_of
from ge.dialects.module_text import print_module
from ge.lowering.set_precision import MODES, SetPrecisionPass
from tests.graph.test_ops import example_module, ops
from tests.models import Net
from tests.onnx_oracle import run


@ops
@pytest.mark.parametrize("mode", MODES)
def test_a_graph_is_retyped_once_and_for_all(cls: type[GraphOp], mode: str) -> None:
    module = example_module(cls)
    signature = main_of(module).function_type
    SetPrecisionPass(mode).apply(Context(), module)
    module.verify()
    assert main_of(module).function_type == signature
    text = print_module(module)
    SetPrecisionPass(mode).apply(Context(), module)
    assert print_module(module) == text


@pytest.mark.parametrize("variance", [1e8, 1e12])
def test_a_variance_beyond_half_floats_keeps_its_norm(variance: float) -> None:
    """What a norm multiplies by may be small where neither it nor its weights are."""
    net = Net()
    conv = net("Conv", "x", net.normal(6, 4, 3, 3), pads=[1, 1, 1, 1])
    ones = np.ones(6, np.float32)
    scale = ones * np.float32(np.sqrt(variance) * 1e-3)
    parameters = (scale, net.normal(6), net.normal(6), ones * np.float32(variance))
    out = net("BatchNormalization", conv, *parameters)
    model = net.model({"x": (1, 4, 9, 9)}, [net("Sigmoid", out)], 17)
    x = np.random.default_rng(0).standard_normal((1, 4, 9, 9)).astype(np.float32) * 50
    got = ge.compile(model, precision="fp16").run({"x": x}, check_hazards=True)
    (want,) = run(model, {"x": x})
    np.testing.assert_allclose(next(iter(got.values())), want, atol=1e-2)


@pytest.mark.parametrize("reduction", ["ReduceMean", "ReduceSumSquare", "ReduceL2"])
def test_squares_of_large_numbers_are_summed_in_single_precision(reduction: str) -> None:
    net = Net(1)
    squared = reduction in ("ReduceSumSquare", "ReduceL2")
    summed = "x" if squared else net("Mul", "x", "x")
    total = net(reduction, summed, axes=[-1], keepdims=1)
    root = total if reduction == "ReduceL2" else net("Sqrt", total)
    model = net.model({"x": (3, 4)}, [net("Div", "x", root)], 17)
    x = np.array([[300, -400, 500, 1], [1, 2, 3, 4], [0.5, 400, 0, -1]], np.float32)
    got = ge.compile(model, target="tiny", precision="mixed").run({"x": x})
    np.testing.assert_allclose(next(iter(got.values())), run(model, {"x": x})[0], atol=2e-3)
