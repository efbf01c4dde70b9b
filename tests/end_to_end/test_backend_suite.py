"""ONNX's own backend suite: one case of every operator; `make conformance` runs all."""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np
import onnx
import pytest

from bench.backend_cases import Case, is_core, is_headline
from bench.conformance import all_cases, run_case
from ge import onnx_backend


def _elements(case: Case) -> int:
    graph = case.model.graph
    shapes = (v.type.tensor_type.shape.dim for v in (*graph.input, *graph.output))
    return sum(prod(d.dim_value or 1 for d in shape) for shape in shapes)


@cache
def _smallest() -> list[str]:
    """The smallest headline case of every operator."""
    best: dict[str, Case] = {}
    for case in all_cases().values():
        if is_headline(case):
            operator = case.operators[0]
            if operator not in best or _elements(case) < _elements(best[operator]):
                best[operator] = case
    return sorted(case.name for case in best.values())


@pytest.mark.parametrize("name", _smallest())
def test_smallest_case(name: str) -> None:
    assert run_case(name).reason == ""


def test_the_selections_have_their_sizes() -> None:
    """The counts of onnx 1.23.2, which the targets are set for."""
    if onnx.__version__ != "1.23.2":
        pytest.skip("the suite of another version has other cases")
    found = all_cases().values()
    assert len(found) == 2033
    assert sum(map(is_core, found)) == 1756
    assert sum(map(is_headline, found)) == 1101


def test_a_node_runs_alone() -> None:
    x = np.array([[-1.0, 2.0]], np.float32)
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    (y,) = onnx_backend.run_node(node, [x])
    np.testing.assert_array_equal(y, [[0, 2]])
    assert onnx_backend.supports_device("CPU")
    assert not onnx_backend.supports_device("CUDA")
