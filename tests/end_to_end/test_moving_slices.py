"""Loops that take rows from, and put them, where each trip says; types that settle in the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from ge.dialects.diagnostics import UnsupportedError
from tests.compiled import compiled
from tests.end_to_end.test_control_flow import BOOL, FLOAT, INT, TINY, body, followed, inner
from tests.models import Net

ROWS = 30
X = np.random.default_rng(4).standard_normal((ROWS, 4)).astype(np.float32)


def walk(
    *, begin: int = 0, ahead: int = 1, ends: int = 20, trips: int = 40, by_trip: bool = False
) -> onnx.ModelProto:
    """Takes `x[n : n + ahead]` and puts what it makes of it where it came from, up to `n == ends`.

    `n` is carried and counted in floats, as converters write it, or the number of the trip. What
    the loop is told when to stop by has one rank before, one behind and two in its first trip.
    """
    net = Net(17)
    one = inner(net)
    n = "i" if by_trip else "n"
    after = one("Cast", one("Add", one("Cast", n, to=FLOAT), np.float32(ahead)), to=INT)
    first, last = (one("Reshape", v, np.asarray([1])) for v in (n, after))
    last = one("Min", last, np.asarray([ROWS]))
    row = one("Slice", "x", first, last, np.asarray([0]), np.asarray([1]))
    shape = one("Shape", row)
    new = one("Expand", one("Tanh", one("ReduceSum", row)), shape)
    squeezed = (one("Squeeze", v) for v in (first, last))
    places = one("Reshape", one("Range", *squeezed, np.asarray(1)), np.asarray([-1, 1]))
    made = one("ScatterElements", "y", one("Expand", places, shape), new, axis=0)
    behind = one("Cast", one("Add", one("Cast", "n", to=FLOAT), np.float32(1)), to=INT)
    over = one("Greater", one("ReduceSum", made, keepdims=0), np.float32(1e6))
    stop, go_on = inner(one), inner(one)
    branches = {
        "then_branch": body(stop, {}, [stop("Identity", np.asarray(True))]),
        "else_branch": body(go_on, {}, [go_on("And", "off", np.asarray([True]))]),
    }
    off = one("If", over, **branches)
    on = one("And", one("Less", behind, np.asarray(ends)), one("Not", off))
    types: dict[str, Any] = {"i": (INT, ()), "on": (BOOL, ()), "n": (INT, ())}
    types |= {"y": (FLOAT, (ROWS, 4)), "off": (BOOL, ())}
    on = one("Cast", one("Add", one("Cast", on, to=INT), np.asarray([0])), to=BOOL)
    graph = body(one, types, [on, behind, made, off])
    begins = (np.asarray(trips), np.asarray(True), np.asarray(begin), "x", np.asarray(False))
    outs = net("Loop", *begins, body=graph, outputs=3)
    return net.model({"x": (ROWS, 4)}, outs[:2], 17, {outs[0]: INT})


@pytest.mark.parametrize(
    "how",
    [{}, {"begin": 4, "ahead": 3}, {"by_trip": True, "trips": 25, "ends": 50}],
    ids=["one row", "three rows", "trip number"],
)
def test_a_loop_takes_rows_from_where_it_counts(how: dict[str, Any]) -> None:
    model = walk(**how)
    program = compiled(model, TINY)
    followed(program, model, {"x": X})
    assert sum(inst.instr.mnemonic == "call" for inst in program.code) < 40


@pytest.mark.parametrize("how", [{"begin": -1}, {"by_trip": True}], ids=["before", "behind"])
def test_rows_that_are_known_not_to_be_there_are_none(how: dict[str, Any]) -> None:
    model = walk(**how)
    followed(compiled(model, TINY), model, {"x": X})


def test_rows_that_may_not_be_there_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="got Slice, Range, Loop") as e:
        compiled(walk(ends=ROWS + 1), TINY)
    assert "'starts' must be known when compiling" in e.value.detail
