"""No switch makes a program slower."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ge.lowering.pipelines import Options
from ge.runtime.ablation import ablation
from ge.runtime.driver import begin
from ge.runtime.source import Source
from tests.invariants.cases import MODELS, PRECISIONS, TARGETS, model


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_no_stage_is_slower_than_the_one_before(name: str, target: str, precision: str) -> None:
    options = Options(target=target, precision=precision)
    stages = ablation(begin(Source(model(name)), options)).stages
    assert stages[0].name == "eager"
    for before, stage in pairwise(stages):
        assert stage.cycles <= before.cycles, f"{stage.name} after {before.name}"
    assert stages[-1].cycles < stages[0].cycles
