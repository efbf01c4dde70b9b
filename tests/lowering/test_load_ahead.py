"""Tiles of weights that are on the chip before the cores meet."""

from __future__ import annotations

from typing import Any

import pytest

from examples.models import Net, resnet_small
from ge.lowering.pipelines import Options
from ge.runtime.simulator import simulate
from tests.compiled import check, compiled, random_inputs


def _chain(net: Net) -> str:
    """Three products, each of what the one before made; the last has fewer rows than cores."""
    y = net("MatMul", net("MatMul", "x", net.normal(24, 40)), net.normal(40, 72))
    return str(net("MatMul", net("ReduceMean", y, [0], keepdims=1), net.normal(72, 24)))


def _functions(program: Any) -> list[str]:
    return [label for label in program.labels if label.endswith("_ahead")]


@pytest.mark.parametrize("target", ["tiny", "ascend910b1"])
def test_weights_are_loaded_before_the_cores_meet(target: str) -> None:
    net = Net(2)
    model = net.model({"x": (300, 24)}, [_chain(net)], 18)
    program = check(model, Options(target=target))
    code = [inst.instr.mnemonic for inst in program.code[program.labels["main"] :]]
    assert _functions(program)
    first = code.index("sync.arrive")
    assert "call" in code[first : code.index("sync.wait")]


@pytest.mark.parametrize(
    "options",
    [Options(target="tiny", pipeline=False), Options(target="tiny", native=False)],
    ids=["no pipeline", "no native"],
)
def test_nothing_is_loaded_ahead_without_a_switch(options: Options) -> None:
    net = Net(2)
    model = net.model({"x": (300, 24)}, [_chain(net)], 18)
    assert not _functions(check(model, options))


def test_cores_without_work_hand_over_too() -> None:
    model = resnet_small()
    program = compiled(model, Options(precision="fp16"), simplify=True)
    assert _functions(program)
    result = simulate(program, random_inputs(model), check_hazards=True, mode="functional")
    assert not result.hazards, str(result.hazards[0])
