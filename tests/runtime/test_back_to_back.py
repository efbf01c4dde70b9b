"""Inferences on end: the same numbers, no hazards, and never longer than one after the other."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

import ge
from examples.models import Net
from ge.codegen.parse_asm import parse_asm
from ge.runtime.arrays import random_input
from ge.runtime.back_to_back import back_to_back, series
from ge.runtime.simulator import Simulator
from tests.runtime.test_simulator import DOUBLE


def _layers(count: int) -> onnx.ModelProto:
    net = Net(6)
    y = "x"
    for _ in range(count):
        y = net("Relu", net("Add", net("MatMul", y, net.normal(24, 24)), net.normal(24)))
        y = net("Softmax", y, axis=-1)
    return net.model({"x": (40, 24)}, [y], 17)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("native", [True, False])
def test_inferences_on_end_give_the_same_and_have_no_hazards(layers: int, native: bool) -> None:
    model = ge.compile(_layers(layers), target="tiny", native=native)
    inputs = {t.name: random_input(t, 3) for t in model.program.inputs}
    result = Simulator(back_to_back(model.program, 4)).run(inputs, check_hazards=True)
    assert not result.hazards, str(result.hazards[0])
    for name, want in model.run(inputs).items():
        np.testing.assert_array_equal(result.outputs[name], want)
        np.testing.assert_array_equal(result.outputs[f"{name}_again"], want)


def test_one_more_takes_less_than_the_first() -> None:
    model = ge.compile(_layers(2), target="tiny")
    first, two, many = (model.series(n) for n in (1, 2, 50))
    assert first.cycles == model.stats().cycles
    launch = model.stats().target.launch_us
    assert two.us - first.us <= first.us - launch
    assert many.cycles == two.cycles + 48 * many.cycles_each
    assert many.us_each < first.us - launch
    assert str(many) == f"50 on end: {many.us:.1f} us, {many.us_each:.1f} us for one more"


def test_many_runs_give_what_single_ones_give() -> None:
    model = ge.compile(_layers(1), target="tiny")
    tensors = model.program.inputs
    inputs = [{t.name: random_input(t, seed) for t in tensors} for seed in range(3)]
    for got, given in zip(model.run_many(inputs), inputs, strict=True):
        for name, want in model.run(given).items():
            np.testing.assert_array_equal(got[name], want)


def test_code_that_cannot_be_joined_is_launched_again() -> None:
    program = parse_asm(re.sub("( *)halt", r"\1barrier\n\1halt", DOUBLE))
    once = Simulator(program).run(mode="timing").stats.cycles
    assert series(program, 5).cycles == 5 * (once or 0)
