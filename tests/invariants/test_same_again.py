"""The same model gives the same bytes and figures, whenever and wherever it is compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ge
from ge.codegen.objects import write_object
from ge.runtime.simulator import Mode, Simulator
from tests.invariants.cases import MODELS, PRECISIONS, TARGETS, Case, compiled, model
from tests.repository.files import ROOT

DIGESTS = """
import hashlib
import ge
from ge.codegen.objects import write_object
from tests.invariants.cases import MODELS, TARGETS, model
for name in MODELS:
    for target in TARGETS:
        program = ge.compile(model(name), target=target, precision="fp16").program
        print(name, target, hashlib.sha256(write_object(program)).hexdigest())
"""
plain = pytest.mark.parametrize(
    "case", [Case(m, t, p, ()) for m in MODELS for t in TARGETS for p in PRECISIONS], ids=str
)


@plain
def test_cycles_and_figures_are_the_same_again(case: Case) -> None:
    program = compiled(case).program
    first, second = (Simulator(program).run(mode=Mode.TIMING).stats.to_json() for _ in range(2))
    assert json.dumps(first) == json.dumps(second)


@plain
def test_a_second_compile_gives_the_same_bytes(case: Case) -> None:
    again = ge.compile(model(case.model), target=case.target, precision=case.precision)
    assert write_object(again.program) == write_object(compiled(case).program)


def test_objects_do_not_depend_on_the_order_of_hashes() -> None:
    one, other = (_digests(seed) for seed in ("1", "2"))
    assert one == other
    assert len(one.splitlines()) == len(MODELS) * len(TARGETS)


def _digests(seed: str) -> str:
    path = os.pathsep.join(map(str, (ROOT, Path(ROOT, "src"))))
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", DIGESTS], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout
