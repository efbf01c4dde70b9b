"""Loops inside each other: as many as there are registers that count them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ge
from ge.dialects.diagnostics import UnsupportedError
from ge.lowering.emit_main import LOOPS_MOST
from tests.end_to_end.test_control_flow import BOOL, FLOAT, INT, body, inner
from tests.models import Net
from tests.onnx_oracle import close, run


def nested(depth: int) -> onnx.ModelProto:
    """`x` grows by one for each of `n ** depth` trips."""

    def value(name: str, dtype: int, *shape: int) -> Any:
        return helper.make_tensor_value_info(name, dtype, shape)

    def body(level: int) -> onnx.GraphProto:
        step = helper.make_node("Add", [f"x{level}", "one"], [f"y{level}"])
        ins = [value(f"i{level}", TensorProto.INT64), value(f"c{level}", TensorProto.BOOL)]
        outs = [value(f"d{level}", TensorProto.BOOL), value(f"y{level}", TensorProto.FLOAT, 4)]
        nodes = [loop(level - 1, f"x{level}", f"y{level}") if level else step]
        nodes.append(helper.make_node("Identity", [f"c{level}"], [f"d{level}"]))
        x = value(f"x{level}", TensorProto.FLOAT, 4)
        return helper.make_graph(nodes, f"body{level}", [*ins, x], outs)

    def loop(level: int, x: str, y: str) -> onnx.NodeProto:
        return helper.make_node("Loop", ["n", "", x], [y], body=body(level))

    ins = [value("x", TensorProto.FLOAT, 4), value("n", TensorProto.INT64)]
    one = onnx.numpy_helper.from_array(np.ones(4, np.float32), "one")
    outs = [value("y", TensorProto.FLOAT, 4)]
    graph = helper.make_graph([loop(depth - 1, "x", "y")], "nested", ins, outs, [one])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_loops_run_as_deep_as_they_can_be_counted() -> None:
    x = np.zeros(4, np.float32)
    program = ge.compile(nested(LOOPS_MOST), target="tiny")
    np.testing.assert_array_equal(program(x, np.asarray(2)), x + 2.0**LOOPS_MOST)


def test_deeper_ones_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="at most 7 loops may lie inside each other"):
        ge.compile(nested(LOOPS_MOST + 1), target="tiny")


@pytest.mark.parametrize("ends", [True, False])
def test_what_trips_do_not_change_is_no_part_of_them(ends: bool) -> None:
    """A loop as converters write it: weights and shapes are handed on, a buffer is made anew."""
    net = Net(1)
    one = inner(net)
    turned = one("Transpose", "w", perm=[1, 0])
    h = one("Tanh", one("Reshape", one("MatMul", "h", turned), "s"))
    again = one("Identity", one("Identity", "s"))
    on = one("Less", one("ReduceSum", h, keepdims=0), np.float32(1.5)) if ends else "on"
    wider = one("Concat", h, h, axis=0)
    types = {
        "i": (INT, ()),
        "on": (BOOL, ()),
        "w": (FLOAT, (8, 8)),
        "h": (FLOAT, (4, 8)),
        "s": (INT, (2,)),
        "last": (FLOAT, (1,)),
    }
    graph = body(one, types, [on, "w", h, again, wider])
    w, shape, last = net.normal(8, 8), np.asarray([4, 8]), np.zeros(1, np.float32)
    begins = (np.asarray(40), np.asarray(True), w, "x", shape, last)
    outs = net("Loop", *begins, body=graph, outputs=4)
    model = net.model({"x": (4, 8)}, outs[:3], 17, {outs[2]: INT})
    x = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)
    outputs = ge.compile(model, target="tiny").run({"x": x}, check_hazards=True)
    for got, want in zip(outputs.values(), run(model, {"x": x}), strict=True):
        close(got, want, 1e-4)
