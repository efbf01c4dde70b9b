"""`--stats` has exactly the fields that scripts rely on."""

from __future__ import annotations

from typing import Any

import pytest

from ge.dialects.npu.places import Unit
from ge.runtime.simulator import Simulator
from tests.compiled import random_inputs
from tests.invariants.cases import MODELS, Case, compiled, model

TOP = (
    "target",
    "cores",
    "clock_mhz",
    "cycles",
    "us",
    "instructions",
    "units",
    "kernels",
    "hbm",
    "memory",
    "launches",
    "hazards",
    "l2_bytes",
    "roofline",
)
KERNEL = (
    *("name", "source_ops", "cycles", "start", "unit_busy"),
    *("hbm_bytes", "l2_bytes", "roofline"),
)
MEMORY = (
    "weights_bytes",
    "arena_bytes",
    "arena_lower_bound_bytes",
    "arena_no_reuse_bytes",
    "peak_bytes",
)


@pytest.fixture(params=MODELS)
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param, "tiny", "origin", ())


def _document(case: Case, **how: Any) -> dict[str, Any]:
    program = compiled(case).program
    return Simulator(program).run(random_inputs(model(case.model)), **how).stats.to_json()


def test_it_has_all_fields_in_order(case: Case) -> None:
    found = _document(case, check_hazards=True)
    assert tuple(found) == TOP
    assert tuple(found["hbm"]) == ("read_bytes", "write_bytes")
    assert tuple(found["memory"]) == MEMORY
    assert set(found["units"]) == {str(unit) for unit in Unit}
    assert all(tuple(u) == ("busy_cycles", "utilization") for u in found["units"].values())
    assert all(tuple(kernel) == KERNEL for kernel in found["kernels"])
    assert found["hazards"] == 0


def test_what_was_not_measured_is_null(case: Case) -> None:
    timed = _document(case, mode="timing")
    assert timed["hazards"] is None
    untimed = _document(case, mode="functional")
    assert tuple(untimed) == TOP
    assert untimed["cycles"] is untimed["us"] is untimed["hbm"]["read_bytes"] is None


def test_its_sums_agree(case: Case) -> None:
    found = _document(case)
    assert found["us"] == found["cycles"] / found["clock_mhz"]
    for unit, figures in found["units"].items():
        share = figures["busy_cycles"] / found["cycles"] / found["cores"]
        assert figures["utilization"] == pytest.approx(share, abs=1e-6)
        in_kernels = sum(kernel["unit_busy"].get(unit, 0) for kernel in found["kernels"])
        assert in_kernels <= figures["busy_cycles"]
    memory = found["memory"]
    assert memory["arena_lower_bound_bytes"] <= memory["arena_bytes"]
    assert memory["arena_bytes"] <= memory["arena_no_reuse_bytes"]
    assert memory["weights_bytes"] + memory["arena_bytes"] < memory["peak_bytes"]
