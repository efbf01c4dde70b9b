"""Small models as files: every path from a file to a program goes through them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from examples.models import Net, resnet_small, simple_transformer


def mlp(opset: int = 17) -> onnx.ModelProto:
    """Two layers whose weights are too large for a text, and a softmax."""
    net = Net(5)
    hidden = net(
        "Relu", net("Add", net("MatMul", "x", net.normal(24, 40, scale=0.2)), net.normal(40))
    )
    y = net("Softmax", net("MatMul", hidden, net.normal(40, 9, scale=0.2)), axis=-1)
    return net.model({"x": (7, 24)}, [y], opset)


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "mlp": mlp,
    "convolutions": lambda: resnet_small(side=8, width=4),
    "transformer": lambda: simple_transformer(17, (2, 6, 24), heads=2),
}


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of the models by name."""
    folder = tmp_path_factory.mktemp("models")
    for name, build in MODELS.items():
        onnx.save(build(), folder / f"{name}.onnx")
    return {name: folder / f"{name}.onnx" for name in MODELS}


@pytest.fixture
def x() -> np.ndarray:
    """An input of the model `mlp`."""
    return np.random.default_rng(1).standard_normal((7, 24)).astype(np.float32)
