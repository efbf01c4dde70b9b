"""Elements found and replaced by index, where rows are fetched and boxes put in their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import ge
from tests.models import Net
from tests.onnx_oracle import close, run

RNG = np.random.default_rng(5)
INT = TensorProto.INT64


def check(net: Net, inputs: dict[str, Any], output: str) -> int:
    """Compares a model with onnxruntime; how many kernels it has."""
    shapes = {name: array.shape for name, array in inputs.items()}
    types = {name: INT for name, array in inputs.items() if array.dtype == np.int64}
    floats = {name: TensorProto.FLOAT for name in inputs if name not in types}
    model = net.model(shapes, [output], 17, {**types, **floats})
    program = ge.compile(model, target="tiny")
    got = program.run(inputs, check_hazards=True)
    close(got[output], run(model, inputs)[0], 1e-6)
    return len(program.program.kernels)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("outer", [(), (3,)])
@pytest.mark.parametrize("by", ["Tile", "Expand"])
def test_indices_that_are_repeated_name_rows(outer: tuple[int, ...], by: str) -> None:
    net, n, m, width = Net(0), 200, 6, 48
    x, at = normal(*outer, n, width), RNG.integers(-n, n, (*outer, m, 1))
    how = (*(1,) * len(outer), 1, width) if by == "Tile" else (*outer, m, width)
    rows = net(by, "i", np.asarray(how, np.int64))
    out = net("GatherElements", "x", rows, axis=len(outer))
    assert check(net, {"x": x, "i": at}, out) <= 3


def test_of_a_long_axis_elements_are_fetched() -> None:
    net = Net(0)
    x, at = normal(2, 7500, 2), RNG.integers(-7500, 7500, (2, 3, 2))
    check(net, {"x": x, "i": at}, net("GatherElements", "x", "i", axis=1))


def test_known_rows_are_fetched_too() -> None:
    net = Net(0)
    at = np.repeat(RNG.integers(-300, 300, (5, 1)), 32, 1)
    check(net, {"x": normal(300, 32)}, net("GatherElements", "x", at, axis=0))


def grid(*axes: Any) -> Any:
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).astype(np.int64)


BOXES = {
    "inside": (grid([0], range(3), range(1, 4), range(2)), (1, 3, 5, 4)),
    "rows": (grid(range(2, 5)), (7, 9)),
    "all": (grid(range(4)), (4, 9)),
    "last": (grid(range(3), [4]), (3, 5, 6)),
    "from_the_end": (grid(range(-3, -1)), (7, 9)),
    "apart": (np.asarray([[5], [0], [6], [2]]), (9, 4)),
    "many": (RNG.permutation(60)[:40].reshape(-1, 1), (60, 256)),
    "twice": (np.asarray([[5], [0], [5], [2], [0]]), (9, 4)),
}


@pytest.mark.parametrize("case", BOXES)
def test_what_is_known_where_it_goes_is_put_there(case: str) -> None:
    net, (at, shape) = Net(0), BOXES[case]
    inputs = {"x": normal(*shape), "u": normal(*at.shape[:-1], *shape[at.shape[-1] :])}
    check(net, inputs, net("ScatterND", "x", at, "u"))


@pytest.mark.parametrize("distinct", [True, False])
def test_computed_rows_get_their_last_update(distinct: bool) -> None:
    net, n, m, width = Net(0), 30, 20, 512
    at = RNG.permutation(n)[:m] if distinct else RNG.integers(-n, n, m)
    inputs = {"x": normal(n, width), "i": at.reshape(-1, 1), "u": normal(m, width)}
    check(net, inputs, net("ScatterND", "x", "i", "u"))


@pytest.mark.parametrize("known", [True, False])
def test_scattered_elements_may_be_rows(known: bool) -> None:
    net, n, m, width = Net(0), 30, 20, 512
    at = RNG.permutation(n)[:m].reshape(1, m, 1)
    inputs = {"x": normal(1, n, width), "u": normal(1, m, width)}
    if not known:
        inputs["i"] = at
    rows = net("Tile", at if known else "i", np.asarray([1, 1, width], np.int64))
    check(net, inputs, net("ScatterElements", "x", rows, "u", axis=1))


def test_a_column_is_put_in_every_row() -> None:
    net = Net(0)
    at = np.full((4, 1, 6), 3)
    inputs = {"x": normal(4, 5, 6), "u": normal(4, 1, 6)}
    check(net, inputs, net("ScatterElements", "x", at, "u", axis=1))
