"""Convolutions of bytes: zero points, biases and groups, in integers whatever the rest is in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import ge
from ge.lowering.pipelines import Options
from tests.compiled import check
from tests.models import Net
from tests.onnx_oracle import run

TINY = Options(target="tiny")
RNG = np.random.default_rng(3)
GROUPS = pytest.mark.parametrize(("inputs", "outputs", "groups"), [(4, 6, 1), (4, 8, 2), (4, 8, 4)])


def _bytes(*shape: int, dtype: Any = np.uint8) -> Any:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape).astype(dtype)


@GROUPS
@pytest.mark.parametrize("zeros", [(0, 0), (165, 0), (0, 159), (165, 159)])
def test_sums_are_exact(inputs: int, outputs: int, groups: int, zeros: tuple[int, int]) -> None:
    net = Net()
    weights, points = _bytes(outputs, inputs // groups, 3, 3), [np.uint8(z) for z in zeros]
    window: dict[str, Any] = {"group": groups, "pads": [1, 0, 1, 1], "strides": [1, 2]}
    y = net("ConvInteger", "x", weights, *points, **window)
    kinds = {"x": TensorProto.UINT8, y: TensorProto.INT32}
    model = net.model({"x": (1, inputs, 6, 7)}, [y], 10, kinds)
    check(model, TINY, {"x": _bytes(1, inputs, 6, 7)}, simplify=True)


@GROUPS
@pytest.mark.parametrize("precision", ["origin", "fp16"])
def test_scaled_sums_are_within_one(inputs: int, outputs: int, groups: int, precision: str) -> None:
    net = Net()
    weights = _bytes(outputs, inputs // groups, 3, 3, dtype=np.int8)
    scales = RNG.uniform(0.01, 0.02, outputs).astype(np.float32)
    bias = RNG.integers(-9000, 9000, outputs).astype(np.int32)
    zero, none = np.uint8(100), np.zeros(outputs, np.int8)
    y = net("QLinearConv", "x", np.float32(0.5), zero, weights, scales, none,
            np.float32(3), zero, bias, group=groups, pads=[1] * 4)  # fmt: skip
    kinds = {"x": TensorProto.UINT8, y: TensorProto.UINT8}
    model = net.model({"x": (1, inputs, 6, 7)}, [y], 10, kinds)
    # Beyond 128 onnxruntime's sums of pairs are cut off on some machines.
    x = _bytes(1, inputs, 6, 7) // 2
    got = ge.compile(model, target="tiny", precision=precision)(x)
    (want,) = run(model, {"x": x})
    assert np.abs(got.astype(int) - want).max() <= 1
    assert len(np.unique(want)) > 20


@pytest.mark.parametrize("op", ["QLinearMatMul", "MatMulInteger"])
def test_halves_do_not_have_to_hold_sums(op: str) -> None:
    """The largest of them are near 400,000."""
    net = Net()
    x, w = _bytes(4, 30), _bytes(30, 5)
    small, zero = np.float32(0.01), np.uint8(2)
    if op == "QLinearMatMul":
        scales = small, zero, w, small, zero, np.float32(0.3), zero
        y = net("Cast", net(op, "x", *scales), to=TensorProto.FLOAT)
    else:
        total = net("Cast", net(op, "x", w, zero, zero), to=TensorProto.FLOAT)
        y = net("Relu", net("Mul", total, np.float32(1e-4)))
    model = net.model({"x": x.shape}, [y], 21, {"x": TensorProto.UINT8})
    got = ge.compile(model, target="tiny", precision="fp16")(x)
    (want,) = run(model, {"x": x})
    np.testing.assert_allclose(got, want, rtol=2e-3, atol=1)
