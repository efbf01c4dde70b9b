"""Runs after the first ones: recorded work gives the numbers of a program that is walked anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ge
from examples.models import Net
from ge.lowering.pipelines import Options
from ge.runtime.simulator import Mode, Simulator
from tests.compiled import compiled, random_inputs
from tests.kernels.random_models import FAMILIES, RandomNet
from tests.machine_programs import machine_program


def _runs(simulator: Simulator, inputs: dict[str, Any]) -> dict[str, Any]:
    return simulator.run(inputs, mode=Mode.FUNCTIONAL).outputs


@pytest.mark.parametrize("name", FAMILIES)
def test_recorded_runs_give_the_same_numbers(name: str) -> None:
    model = FAMILIES[name](RandomNet(1, 1))
    code = compiled(model, Options(target="tiny"))
    simulator = Simulator(code)
    for seed in range(4):
        inputs = random_inputs(model, seed)
        got, want = _runs(simulator, inputs), _runs(Simulator(code), inputs)
        for output, array in want.items():
            np.testing.assert_array_equal(got[output], array)


def test_outputs_of_one_run_are_not_those_of_the_next() -> None:
    model = FAMILIES[next(iter(FAMILIES))](RandomNet(1, 1))
    simulator = Simulator(compiled(model, Options(target="tiny")))
    found = [_runs(simulator, random_inputs(model, seed)) for seed in range(4)]
    for seed, outputs in enumerate(found):
        again = _runs(Simulator(simulator.program), random_inputs(model, seed))
        for name, array in again.items():
            np.testing.assert_array_equal(outputs[name], array)


def test_what_the_ai_cpu_computes_is_computed_again() -> None:
    net = Net(seed=1)
    y = net("Add", net("Det", net("Mul", "x", np.float32(2))), np.float32(1))
    code = ge.compile(net.model({"x": (3, 4, 4)}, [y], 17), target="tiny").program
    simulator = Simulator(code)
    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal((3, 4, 4)).astype(np.float32)
        (got,) = _runs(simulator, {"x": x}).values()
        np.testing.assert_allclose(got, np.linalg.det(2 * x) + 1, rtol=1e-4)


HEADER = """.input in0, "x", i32, 2
.output out0, "y", i32, 2"""
CHOICE = """
 la x0, in0
 la x1, out0
 lds x2, gm[x0], i32
 vfill ub[0], 1.0, size=[2], ds=[1], i32
 bz x2, .L0
 vfill ub[0], 5.0, size=[2], ds=[1], i32
.L0:
 set_flag v, mte3, 0
 wait_flag v, mte3, 0
 st.gm gm[x1], ub[0], size=[2], ds=[1], ss=[1], i32
"""


def test_a_program_that_branches_on_a_load_is_walked_every_time() -> None:
    simulator = Simulator(machine_program(CHOICE, header=HEADER))
    for x, y in ((0, 1), (0, 1), (0, 1), (3, 5), (0, 1)):
        out = _runs(simulator, {"x": np.array([x, 0], np.int32)})
        np.testing.assert_array_equal(out["y"], [y, y])
