"""What the compiler emits is timed alike with and without skipping."""

import random
from typing import Any

import numpy as np
import onnx
import pytest

import ge
from ge.runtime.simulator import Simulator
from tests.models import Net, gelu, layer_norm, transformer

TARGETS = pytest.mark.parametrize("target", ["tiny", "ascend910b1"])


def agree(model: onnx.ModelProto, target: str, cores: int = 0) -> None:
    program = ge.compile(model, target=target, cores=cores).program
    skipped = Simulator(program).run(mode="timing").stats
    assert skipped == Simulator(program).run(mode="timing", skip=False).stats


@TARGETS
@pytest.mark.parametrize("seed", range(4))
def test_products_of_odd_sizes(seed: int, target: str) -> None:
    rng, net = random.Random(seed), Net(seed)
    rows, inner, columns = (rng.randint(1, 180) for _ in range(3))
    y = gelu(net, net("Add", net("MatMul", "x", net.normal(inner, columns)), net.normal(columns)))
    agree(net.model({"x": (rows, inner)}, [y], 17), target, rng.choice((0, 1, 2)))


@TARGETS
@pytest.mark.parametrize(
    ("kernel", "stride", "group"), [(3, 1, 1), (3, 2, 1), (1, 1, 1), (3, 1, 6)]
)
def test_convolutions(kernel: int, stride: int, group: int, target: str) -> None:
    net = Net(kernel)
    weights = net.normal(12, 6 // group, kernel, kernel)
    how: dict[str, Any] = {"pads": [kernel // 2] * 4, "strides": [stride] * 2, "group": group}
    y = net("Relu", net("Conv", "x", weights, net.normal(12), **how))
    agree(net.model({"x": (2, 6, 13, 17)}, [y], 17), target)


@TARGETS
def test_rows_and_reductions(target: str) -> None:
    net = Net(1)
    y = net("Softmax", layer_norm(net, "x", 77, whole=True), axis=-1)
    z = net("ReduceMean", net("Transpose", y, perm=[0, 2, 1]), axes=[1])
    agree(net.model({"x": (3, 37, 77)}, [z], 17), target)


@TARGETS
def test_pooling_and_moves(target: str) -> None:
    net = Net(2)
    y = net("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    joined = net("Concat", y, net("Mul", y, np.float32(2)), axis=1)
    z = net("GlobalAveragePool", net("Transpose", joined, perm=[0, 1, 3, 2]))
    agree(net.model({"x": (1, 5, 23, 19)}, [z], 17), target)


@TARGETS
def test_rows_that_are_looked_up(target: str) -> None:
    net = Net(3)
    y = net("Gather", net.normal(50, 33), "x", axis=0)
    agree(net.model({"x": (29,)}, [y], 17, {"x": onnx.TensorProto.INT64}), target)


@TARGETS
def test_a_transformer_block(target: str) -> None:
    agree(transformer(17), target)
