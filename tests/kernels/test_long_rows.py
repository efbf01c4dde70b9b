"""Rows longer than the vector memory, and operators whose plain form grows with their square."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from ge.lowering.pipelines import Options
from tests.compiled import check
from tests.models import Net

TINY = Options(target="tiny")
LONG = 3001
"""The tiny machine holds 4,096 floats, in all tiles together; a prime, so that pieces differ."""

ROWS: dict[str, dict[str, Any]] = {
    **{f"Reduce{kind}": {"axes": [1]} for kind in ("Max", "Min", "Mean", "L1", "L2", "SumSquare")},
    "ReduceLogSumExp": {"axes": [1], "keepdims": 0},
    "Softmax": {"axis": 1},
    "LogSoftmax": {"axis": 1},
    "ArgMax": {"axis": 1},
    "ArgMin": {"axis": 1, "keepdims": 0, "select_last_index": 1},
}


@pytest.mark.parametrize("op", ROWS)
def test_a_long_row_is_reduced_in_pieces(op: str) -> None:
    net = Net()
    check(net.model({"x": (2, LONG)}, [net(op, "x", **ROWS[op])], 13), TINY)


def test_several_long_axes_are_reduced_one_after_the_other() -> None:
    net = Net()
    outs = [
        net("ReduceMean", "x", axes=[1, 2, 3], keepdims=0),
        net("ReduceMax", "x", keepdims=1),
        net("GlobalAveragePool", "x"),
        net("GlobalMaxPool", "x"),
    ]
    check(net.model({"x": (2, 3, 41, 47)}, outs, 13), TINY)


def test_ints_are_reduced_in_pieces() -> None:
    net = Net()
    out, kinds = net("ReduceMax", "x", axes=[1]), {"x": onnx.TensorProto.INT32}
    check(net.model({"x": (2, LONG)}, [out], 13, kinds), TINY)


@pytest.mark.parametrize("whole", [False, True])
def test_norms_of_large_images(whole: bool) -> None:
    net = Net()
    if whole:
        out = net("LayerNormalization", "x", net.normal(5, 21, 31), net.normal(5, 21, 31), axis=1)
    else:
        out = net("InstanceNormalization", "x", net.normal(5), net.normal(5))
    check(net.model({"x": (1, 5, 21, 31) if whole else (1, 5, 61, 43)}, [out], 17), TINY)


def test_half_floats_are_summed_wide() -> None:
    net = Net()
    out, kinds = net("ReduceSum", "x", np.array([1])), {"x": onnx.TensorProto.FLOAT16}
    model = net.model({"x": (1, LONG)}, [out], 13, kinds)
    check(model, TINY, {"x": np.full((1, LONG), 0.01, np.float16)})


@pytest.mark.parametrize(
    ("shape", "axis", "k", "largest"),
    [((1, 700), -1, 9, 1), ((3, 300), 1, 3, 0), ((2, 290, 3), 1, 2, 1), ((6, 40), 1, 1, 0)],
)
def test_the_best_of_long_rows(shape: tuple[int, ...], axis: int, k: int, largest: int) -> None:
    """Equal elements keep their order, also where pieces of a row are looked at one by one."""
    net = Net()
    outs = net("TopK", "x", np.array([k]), outputs=2, axis=axis, largest=largest)
    x = np.random.default_rng(0).integers(0, 50, shape).astype(np.float32)
    check(net.model({"x": shape}, outs, 13), Options(), {"x": x})


@pytest.mark.parametrize("how", [{}, {"exclusive": 1}, {"reverse": 1}])
def test_long_running_sums(how: dict[str, int]) -> None:
    net = Net()
    out = net("CumSum", "x", np.array(1), **how)
    check(net.model({"x": (2, 1100, 2)}, [out], 13), Options())
