"""The workloads, smaller: onnxruntime's numbers and no hazard, in single and in half precision."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest

import ge
from bench.workload_models import light_resnet50
from examples.models import resnet_small, simple_transformer
from ge.runtime.simulator import Mode, Simulator
from tests import onnx_oracle
from tests.compiled import error_of, random_inputs

LIMITS = {"origin": 1e-4, "fp16": 1e-2}
SMALL = (2, 16, 96)
MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "transformer": lambda: simple_transformer(17, SMALL, heads=4),
    "transformer_opset13": lambda: simple_transformer(13, SMALL, heads=4),
    "resnet_small": resnet_small,
    "light_resnet50": lambda: light_resnet50(side=64, narrow=8),
}


@pytest.mark.parametrize("precision", LIMITS)
@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_right_and_nothing_races(name: str, precision: str) -> None:
    model = MODELS[name]()
    program = ge.compile(model, precision=precision).program
    inputs = random_inputs(model)
    result = Simulator(program).run(inputs, mode=Mode.BOTH, check_hazards=True)
    assert not result.hazards, str(result.hazards[0])
    for output, want in zip(model.graph.output, onnx_oracle.run(model, inputs), strict=True):
        assert want.std() > 0.05 * abs(want).max(), "a result that tells nothing"
        assert error_of(result.outputs[output.name], want) <= LIMITS[precision]


@pytest.mark.parametrize("target", ["ascend910a", "tiny"])
def test_half_precision_runs_where_the_cube_has_no_other(target: str) -> None:
    model = simple_transformer(17, SMALL, heads=4)
    inputs = random_inputs(model)
    compiled = ge.compile(model, precision="fp16", target=target)
    outputs = compiled.run(inputs, check_hazards=True)
    (want,) = onnx_oracle.run(model, inputs)
    assert error_of(outputs["y"], want) <= LIMITS["fp16"]
