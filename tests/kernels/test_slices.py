"""Slices with starts and ends anywhere, in either direction, some of them empty."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from examples.models import Net
from ge.dialects.graph.ops.layout import slices_of
from ge.lowering.pipelines import Options
from tests.compiled import check
from tests.onnx_oracle import run

FAR = 1 << 31


def test_a_slice_takes_what_onnxruntime_takes() -> None:
    x, net = np.arange(5.0, dtype=np.float32), Net()
    i = dict.fromkeys(("start", "end", "step"), (1,))
    names = [*i, "axis"]
    from onnx import TensorProto

    y = net("Slice", "x", "start", "end", np.array([0]), "step")
    model = net.model({"x": (5,), **i}, [y], 17, dict.fromkeys(i, TensorProto.INT64))
    places = (-FAR, -9, -6, -5, -2, 0, 3, 4, 5, 9)
    for start, end, step in product(places, places, (-FAR, -3, -1, 1, 2)):
        given = {n: np.array([v]) for n, v in zip(names, (start, end, step), strict=False)}
        (want,) = run(model, {"x": x, **given})
        (taken,) = slices_of((5,), (start,), (end,), (0,), (step,))
        np.testing.assert_array_equal(x[taken], want, err_msg=f"{start}:{end}:{step}")


@pytest.mark.parametrize(
    ("starts", "ends", "steps"),
    [
        ((-9, 0), (-FAR, 8), (-1, 1)),
        ((-20, -1), (-FAR, -FAR), (-2, -3)),
        ((3, 3), (3, -9), (1, -1)),
        ((3, 2), (4, 6), (-1, 1)),
    ],
)
def test_slices_on_the_device(
    starts: tuple[int, ...], ends: tuple[int, ...], steps: tuple[int, ...]
) -> None:
    x, net = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32), Net()
    parts = [np.array(v) for v in (starts, ends, (0, 1), steps)]
    y = net("Slice", net("Neg", "x"), *parts)
    check(net.model({"x": x.shape}, [y], 17), Options(target="tiny"), {"x": x})
