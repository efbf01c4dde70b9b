"""Every kind of kernel on random shapes: onnxruntime's numbers and no hazards."""

from __future__ import annotations

from itertools import product

import pytest
from onnx import TensorProto

from ge.lowering.pipelines import Options
from tests.compiled import check
from tests.kernels import random_images as random_images  # registers its families
from tests.kernels import random_moves as random_moves  # registers its families
from tests.kernels.random_models import FAMILIES, RandomNet

SEEDS = 8
CASES = list(product(FAMILIES, range(SEEDS)))


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_random_shapes(name: str, seed: int) -> None:
    element = TensorProto.FLOAT16 if seed % 4 == 3 else TensorProto.FLOAT
    target = "ascend910b1" if seed % 2 else "tiny"
    check(FAMILIES[name](RandomNet(seed, element)), Options(target=target))
