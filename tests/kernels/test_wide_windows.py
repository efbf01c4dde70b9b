"""Windows whose taps lie far apart, and transposed convolutions of every kind of step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ge.lowering.pipelines import Options
from tests.compiled import check
from tests.models import Net

FAR: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "along a line": ((1, 16, 36), (16, 16, 5), {"dilations": [1024], "pads": [2048, 2048]}),
    "along the last dim": (
        (2, 16, 3, 40),
        (8, 16, 1, 5),
        {"dilations": [1, 300], "pads": [0, 600, 0, 600]},
    ),
    "in groups": (
        (2, 32, 40),
        (8, 16, 5),
        {"dilations": [300], "pads": [600, 590], "group": 2},
    ),
}
TURNED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "as wide as its step": ((1, 4, 4, 4), (4, 6, 4, 4), {"strides": [4, 4]}),
    "a long step": ((1, 8, 20), (8, 1, 64), {"strides": [32]}),
    "narrower than its step": ((2, 4, 5), (4, 3, 2), {"strides": [3]}),
    "uneven ends": (
        (2, 4, 5, 7),
        (4, 6, 3, 4),
        {"strides": [3, 2], "pads": [2, 1, 0, 3], "output_padding": [2, 1]},
    ),
    "in groups": (
        (2, 4, 5, 7),
        (4, 3, 2, 4),
        {"strides": [3, 5], "group": 2, "output_padding": [0, 4]},
    ),
    "each channel alone": (
        (1, 4, 9, 9),
        (4, 1, 4, 4),
        {"strides": [2, 2], "group": 4, "pads": [1] * 4},
    ),
    "a volume": (
        (1, 4, 3, 5, 4),
        (4, 2, 3, 3, 3),
        {"strides": [2, 2, 2], "pads": [1] * 6},
    ),
    "dilated": ((1, 4, 6, 6), (4, 3, 3, 3), {"strides": [2, 2], "dilations": [2, 2]}),
}


@pytest.mark.parametrize("kind", FAR)
def test_taps_far_apart(kind: str) -> None:
    x, w, how = FAR[kind]
    net = Net()
    out = net("Conv", "x", net.normal(*w), net.normal(w[0]), **how)
    check(net.model({"x": x}, [net("Relu", out)], 13), Options())


@pytest.mark.parametrize("kind", TURNED)
@pytest.mark.parametrize("bias", [False, True])
def test_transposed_convolutions(kind: str, bias: bool) -> None:
    x, w, how = TURNED[kind]
    net = Net()
    more = [net.normal(w[1] * how.get("group", 1))] if bias else []
    out = net("ConvTranspose", "x", net.normal(*w), *more, **how)
    check(net.model({"x": x}, [net("Sigmoid", out)], 13), Options())


def test_a_transposed_convolution_whose_weights_are_computed() -> None:
    net = Net()
    w = net("Exp", net("Slice", "x", np.array([0]), np.array([2]), np.array([3])))
    out = net("ConvTranspose", "x", net("Reshape", w, np.array([3, 2, 4, 2])), strides=[2, 2])
    check(net.model({"x": (1, 3, 8, 5)}, [out], 13), Options())
