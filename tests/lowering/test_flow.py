"""Loops that flow: what is left of one tile runs beside the next, and numbers stay right."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import ge
from examples.models import Net
from ge.runtime.simulator import Simulator

Arrays = dict[str, Any]


def _inputs(model: onnx.ModelProto) -> Arrays:
    rng = np.random.default_rng(0)
    shapes = {
        i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input
    }
    return {n: rng.standard_normal(s).astype(np.float16) for n, s in shapes.items()}


def _check(model: onnx.ModelProto, inputs: Arrays, want: Any, cores: int) -> None:
    compiled = ge.compile(model, cores=cores)
    result = Simulator(compiled.program).run(inputs, check_hazards=True)
    assert not result.hazards
    (out,) = result.outputs.values()
    np.testing.assert_allclose(out, want, rtol=0, atol=1e-3 * np.abs(want).max())


@pytest.mark.parametrize(
    ("shape", "cores"), [((300, 1100, 530), 1), ((700, 1024, 300), 2), ((300, 1030, 290), 1)]
)
def test_tiles_of_all_sizes_follow_each_other(shape: tuple[int, int, int], cores: int) -> None:
    rows, depth, columns = shape
    net, shapes = Net(), {"x": (rows, depth), "w": (depth, columns), "z": (rows, columns)}
    y = net("Mul", net("Sigmoid", net("MatMul", "x", "w")), "z")
    model = net.model(shapes, [y], 17, dict.fromkeys(shapes, TensorProto.FLOAT16))
    x = _inputs(model)
    want = x["z"] / (1 + np.exp(-(x["x"].astype(np.float64) @ x["w"])))
    _check(model, x, want, cores)


@pytest.mark.parametrize(("heads", "length", "causal"), [(3, 257, True), (2, 300, False)])
def test_blocks_of_queries_follow_each_other(heads: int, length: int, causal: bool) -> None:
    net, shapes = Net(), dict.fromkeys("qkv", (1, heads, length, 64))
    y = net("Attention", "q", "k", "v", is_causal=int(causal))
    model = net.model(shapes, [y], 23, dict.fromkeys(shapes, TensorProto.FLOAT16))
    x = _inputs(model)
    q, k, v = (x[n].astype(np.float64) for n in "qkv")
    scores = q @ k.swapaxes(-1, -2) / 8
    if causal:
        scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    _check(model, x, shares / shares.sum(-1, keepdims=True) @ v, cores=1)
