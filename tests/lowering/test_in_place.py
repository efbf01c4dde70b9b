"""Results that lie where an operand lay: which, and that numbers and hazards stay as they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from examples.models import Net
from ge.lowering.pipelines import Options
from tests.compiled import check, compiled

TINY = Options(target="tiny", fuse=False)
ROWS, COLUMNS = 60, 70
BYTES = -(-ROWS * COLUMNS * 4 // 512) * 512


def _product(net: Net) -> str:
    return str(net("MatMul", "x", net.normal(COLUMNS, COLUMNS, scale=0.1)))


def _chain(net: Net) -> str:
    y = net("Tanh", net("Relu", net("Sigmoid", _product(net))))
    return str(net("MatMul", y, net.normal(COLUMNS, COLUMNS)))


def _read_twice(net: Net) -> str:
    y = _product(net)
    return str(net("MatMul", net("Add", net("Tanh", y), y), net.normal(COLUMNS, COLUMNS)))


def _turned(net: Net) -> str:
    y = net("Add", _product(net), net.normal(COLUMNS))
    turned = net("Transpose", net("Relu", net("Transpose", y, perm=[1, 0])), perm=[1, 0])
    return str(net("MatMul", turned, net.normal(COLUMNS, COLUMNS)))


def _norm(net: Net) -> str:
    y = net("LayerNormalization", _product(net), net.normal(COLUMNS), net.normal(COLUMNS))
    return str(net("MatMul", net("Softmax", y, axis=-1), net.normal(COLUMNS, COLUMNS)))


@pytest.mark.parametrize(
    ("body", "tensors"), [(_chain, 1), (_read_twice, 2), (_turned, None), (_norm, 1)]
)
def test_what_dies_gives_up_its_place(body: Callable[[Net], str], tensors: int | None) -> None:
    net = Net(1)
    model = net.model({"x": (ROWS, COLUMNS)}, [body(net)], 17)
    program = check(model, TINY)
    if tensors is not None:
        assert program.arena.bytes == program.arena.lower_bound == tensors * BYTES


@pytest.mark.parametrize("target", ["tiny", "ascend910b1"])
@pytest.mark.parametrize("shape", [(1,), (1, 3), (2, 1), (40, 1), (1, 70)])
def test_what_all_cores_load_is_not_written_by_one(shape: tuple[int, ...], target: str) -> None:
    net = Net(1)
    y = net("Mul", net("Neg", "x"), net.normal(1))
    for operator in ("Sigmoid", "Tanh", "Relu", "Tanh"):
        y = net(operator, y)
    model = net.model({"x": shape}, [net("Add", y, net.normal(*shape))], 17)
    check(model, Options(target=target, fuse=False))


def test_places_are_taken_over_behind_a_branch_too() -> None:
    net = Net(1)
    condition = net("Greater", net("ReduceSum", "x", keepdims=0), np.float32(0))
    names = "then_branch", "else_branch"
    branches = {name: _branch(net, name) for name in names}
    y = net("If", condition, **branches)
    for operator in ("Relu", "Tanh", "Sigmoid"):
        y = net(operator, y)
    y = net("MatMul", y, net.normal(COLUMNS, COLUMNS))
    program = check(net.model({"x": (ROWS, COLUMNS)}, [y], 17), TINY)
    assert program.arena.bytes < 2 * BYTES


def _branch(net: Net, name: str) -> onnx.GraphProto:
    """A product of the input; its weights stay with the model."""
    inner = Net(2)
    inner.weights, inner.prefix = net.weights, name
    out = inner("MatMul", "x", net.normal(COLUMNS, COLUMNS, scale=0.1))
    return onnx.helper.make_graph(inner.nodes, name, [], [onnx.ValueInfoProto(name=out)])


def test_nothing_is_in_place_where_everything_has_a_place_of_its_own() -> None:
    net = Net(1)
    model = net.model({"x": (ROWS, COLUMNS)}, [_chain(net)], 17)
    apart = compiled(model, Options(target="tiny", fuse=False, memory_reuse=False))
    assert apart.arena.bytes == apart.arena.no_reuse == 4 * BYTES
