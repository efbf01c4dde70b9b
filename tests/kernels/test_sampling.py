"""Sizes that ONNX works out from words: of images that keep their proportions, of patches."""

from __future__ import annotations

import numpy as np
import pytest

from ge.lowering.pipelines import Options
from tests.compiled import check
from tests.models import Net

TINY = Options(target="tiny")
IMAGE = (2, 3, 7, 9)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("sizes", [(14, 14), (5, 20), (3, 3)])
def test_proportions_are_kept(policy: str, mode: str, sizes: tuple[int, int]) -> None:
    net = Net()
    asked = ("", "", np.asarray(sizes, np.int64))
    out = net("Resize", "x", *asked, mode=mode, axes=[2, 3], keep_aspect_ratio_policy=policy)
    check(net.model({"x": IMAGE}, [out], 18), TINY)


@pytest.mark.parametrize("how", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (2, 3), (4, 2)])
def test_patches_of_a_transposed_convolution(how: str, kernel: int, stride: int) -> None:
    net = Net()
    weights = net.normal(3, 4, kernel, kernel)
    out = net("ConvTranspose", "x", weights, auto_pad=how, strides=[stride, stride])
    check(net.model({"x": IMAGE}, [out], 11), TINY)
