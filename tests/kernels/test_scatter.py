"""Slices put in at places that another tensor names: onnxruntime's numbers, and one write each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from examples.models import Net
from ge.dialects.diagnostics import CheckFailed
from ge.lowering.pipelines import Options
from ge.runtime.simulator import simulate
from tests.compiled import check, compiled, random_inputs

TINY = Options(target="tiny")
INDEX = {"at": TensorProto.INT64}


def _model(net: Net, y: str, *shapes: tuple[int, ...]) -> onnx.ModelProto:
    names = ("x", "u", "at")
    return net.model(dict(zip(names, shapes, strict=True)), [y], 24, INDEX)


def _starts(net: Net) -> Any:
    y = net("TensorScatter", "x", "u", "at", axis=2)
    return _model(net, y, (3, 2, 9, 20), (3, 2, 4, 20), (3,)), [5, 0, 2]


def _round(net: Net) -> Any:
    y = net("TensorScatter", "x", "u", "at", axis=1, mode="circular")
    return _model(net, y, (2, 5, 20), (2, 3, 20), (2,)), [4, 1]


def _rows(net: Net) -> Any:
    y = net("ScatterND", "x", net("Reshape", "at", np.array([2, 2, 1])), "u")
    return _model(net, y, (9, 24), (2, 2, 24), (4,)), [7, -9, 3, 1]


def _tuples(net: Net) -> Any:
    y = net("ScatterND", "x", net("Reshape", "at", np.array([2, 2])), "u")
    return _model(net, y, (4, 5, 24), (2, 24), (4,)), [3, -1, 0, 2]


def _turned(net: Net) -> Any:
    x, u = (net("Transpose", v, perm=[1, 0, 2]) for v in ("x", "u"))
    y = net("ScatterND", x, net("Reshape", "at", np.array([3, 1])), u)
    y = net("Transpose", y, perm=[1, 0, 2])
    return _model(net, y, (4, 9, 20), (4, 3, 20), (3,)), [8, 2, -4]


def _spread(net: Net) -> Any:
    column = net("Reshape", "at", np.array([3, 1]))
    y = net("ScatterElements", "x", net("Expand", column, np.array([2, 3, 20])), "u", axis=-2)
    return _model(net, y, (2, 9, 20), (2, 3, 20), (3,)), [8, 2, -4]


def _repeated(net: Net) -> Any:
    x = net("Expand", "x", np.array([5, 20]))
    y = net("ScatterND", x, net("Reshape", "at", np.array([2, 1])), "u")
    return _model(net, y, (1, 20), (2, 20), (2,)), [4, 0]


MODELS: list[Callable[[Net], Any]] = [_starts, _rows, _tuples, _turned, _spread, _repeated]


@pytest.mark.parametrize("make", [*MODELS, _round])
def test_numbers_are_those_of_onnxruntime(make: Callable[[Net], Any]) -> None:
    model, at = make(Net())
    program = check(model, TINY, random_inputs(model) | {"at": np.array(at)}, simplify=True)
    if make in MODELS:
        # What stays is copied, unless a kernel made it; what is put in is written.
        kernels = [k for k in program.kernels if k.kind in ("ScatterND", "TensorScatter")]
        assert len(kernels) == (1 if make is _repeated else 2)


def test_a_place_that_is_not_there_is_said_with_its_node() -> None:
    model, _ = _rows(Net())
    (put,) = (node for node in model.graph.node if node.op_type == "ScatterND")
    put.name = "put rows"
    program = compiled(model, TINY, simplify=True)
    with pytest.raises(CheckFailed, match=r"k\d+\+\d+\) of 'put rows': error: .* must lie in one"):
        simulate(program, random_inputs(model) | {"at": np.array([7, 0, 3000, 1])})


def test_what_nobody_reads_again_is_changed_where_it_lies() -> None:
    net = Net()
    x = net("Relu", "x")
    for _ in range(2):
        x = net("TensorScatter", x, "u", "at", axis=1)
    y = net("MatMul", x, net.normal(20, 8))
    model = _model(net, y, (1, 9, 20), (1, 2, 20), (1,))
    program = check(model, TINY, random_inputs(model) | {"at": np.array([3])}, simplify=True)
    assert [k.kind for k in program.kernels].count("TensorScatter") == 1
    assert program.arena.bytes == 1024


def test_what_is_read_again_is_copied() -> None:
    net = Net()
    x = net("Relu", "x")
    y = net("TensorScatter", x, "u", "at", axis=1)
    y = net("Add", net("MatMul", y, net.normal(20, 8)), net("MatMul", x, net.normal(20, 8)))
    model = _model(net, y, (1, 9, 20), (1, 2, 20), (1,))
    check(model, TINY, random_inputs(model) | {"at": np.array([3])}, simplify=True)


@pytest.mark.parametrize("reads_both", [False, True])
def test_what_a_loop_carries_is_changed_where_it_lies(reads_both: bool) -> None:
    net, body = Net(), Net()
    body.prefix = "body_"
    row = body("Gather", "u", body("Reshape", "i", np.array([1])), axis=0)
    at = body("Reshape", "i", np.array([1]))
    y = body("TensorScatter", "carried", body("Reshape", row, np.array([1, 1, 20])), at, axis=1)
    y = body("Add", y, "carried") if reads_both else y
    kinds = {"i": TensorProto.INT64, "go": TensorProto.BOOL}
    go = body("Identity", "go")
    graph = body.model({"i": (), "go": (), "carried": (1, 24, 20)}, [go, y], 24, kinds).graph
    last = net("Loop", np.array(20), "", net("Relu", "x"), body=graph)
    program = check(net.model({"x": (1, 24, 20), "u": (20, 20)}, [last], 24), TINY, simplify=True)
    copies = [k.kind for k in program.kernels].count("TensorScatter") - 1
    assert copies == reads_both
