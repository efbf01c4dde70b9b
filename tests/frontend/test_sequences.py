"""Sequences and optional values that a model makes and takes apart itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from ge.dialects.diagnostics import UnsupportedError
from ge.frontend.onnx_import import import_onnx
from ge.lowering.pipelines import Options
from tests.compiled import check
from tests.end_to_end.test_control_flow import BOOL, FLOAT, INT, body, inner
from tests.models import Net

TINY = Options(target="tiny")
SHAPE = (5, 4)
LAST = np.asarray(-1)
NUMBERS = helper.make_tensor_type_proto(FLOAT, SHAPE)


def _split(net: Net) -> list[str]:
    parts = net("SplitToSequence", "x", axis=0, keepdims=0)
    uneven = net("SplitToSequence", "x", np.asarray([3, 2]))
    even = net("SplitToSequence", "x", np.asarray(2))
    rows = [net("SequenceAt", s, LAST) for s in (parts, uneven, even)]
    return [*rows, net("Cast", net("SequenceLength", even), to=FLOAT)]


def _changed(net: Net) -> list[str]:
    made = net("SequenceConstruct", "x", net("Neg", "x"))
    more = net("SequenceInsert", net("SequenceInsert", made, net("Exp", "x"), np.asarray(1)), "x")
    fewer = net("SequenceErase", net("SequenceErase", more), np.asarray(-3))
    wide = net("ConcatFromSequence", more, axis=-1)
    return [wide, net("ConcatFromSequence", fewer, axis=0, new_axis=1)]


def _collected(net: Net) -> list[str]:
    """A loop over a sequence, as torch writes one over what it has split."""
    one = inner(net)
    row = one("SequenceAt", "parts", "i")
    graph = body(one, {"i": (INT, ()), "on": (BOOL, ()), "h": (FLOAT, (1, 4))}, [])
    rest = [helper.make_node("Identity", ["on"], ["go"]), *graph.node]
    rest.append(helper.make_node("Add", ["h", row], ["h2"]))
    outs = [
        helper.make_tensor_value_info("go", BOOL, ()),
        helper.make_tensor_value_info("h2", FLOAT, (1, 4)),
    ]
    graph = helper.make_graph(rest, "b", list(graph.input), outs)
    net.nodes.append(helper.make_node("SplitToSequence", ["x"], ["parts"]))
    return [net("Loop", np.asarray(5), np.asarray(True), np.zeros((1, 4), np.float32), body=graph)]


def _optional(net: Net) -> list[str]:
    there = net("Optional", "x")
    known = net("Cast", net("OptionalHasElement", there), to=FLOAT)
    return [net("Mul", net("OptionalGetElement", there), known)]


@pytest.mark.parametrize("make", [_split, _changed, _collected, _optional])
def test_numbers_are_those_of_onnxruntime(make: Callable[[Net], list[str]]) -> None:
    net = Net()
    check(_model(net, make(net)), TINY, simplify=True)


def _model(net: Net, outs: list[str]) -> onnx.ModelProto:
    return net.model({"x": SHAPE}, outs, 18)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda net: net("SequenceConstruct", "x"), "must be a tensor: a sequence must not leave"),
        (lambda net: net("Abs", net("SequenceConstruct", "x")), "a sequence must not leave"),
        (lambda net: net("Optional", type=NUMBERS), "must be a tensor: an optional value must not"),
        (lambda net: net("SequenceAt", "x", LAST), "a sequence that the model makes itself"),
    ],
)
def test_what_no_program_has_is_said(make: Callable[[Net], Any], message: str) -> None:
    net = Net()
    with pytest.raises(UnsupportedError, match=message):
        import_onnx(_model(net, [make(net)]))
