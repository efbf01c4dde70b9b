"""Short-time Fourier transforms as exporters write them."""

from __future__ import annotations

import numpy as np
import pytest

from ge.lowering.pipelines import Options
from tests.compiled import check
from tests.models import Net

TINY = Options(target="tiny")


@pytest.mark.parametrize("shape", [(2, 120), (1, 120, 1)])
@pytest.mark.parametrize(("size", "step"), [(16, 4), (15, 7), (32, 30)])
@pytest.mark.parametrize("half", [0, 1])
def test_frames_of_a_signal(shape: tuple[int, ...], size: int, step: int, half: int) -> None:
    net = Net()
    window = np.hanning(size).astype(np.float32)
    given = (np.asarray(step), window, np.asarray(size))
    out = net("STFT", "x", *given, onesided=half)
    check(net.model({"x": shape}, [out], 17), TINY)
