"""Programs beside themselves in single precision: kernel by kernel, the guilty one named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ge
from examples.models import Net
from ge.dialects.diagnostics import InputError


def _model(scale: float) -> onnx.ModelProto:
    net = Net(seed=3)
    y = net("MatMul", "x", net.normal(8, 8), name="first")
    y = net("Relu", y, name="second")
    y = net("Mul", net("Softmax", y, name="third"), np.float32(scale), name="fourth")
    y = net("MatMul", y, net.normal(8, 4), name="fifth")
    return net.model({"x": (4, 8)}, [y], 17)


X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)


@pytest.mark.parametrize("precision", ["fp16", "bf16", "mixed", "origin"])
def test_kernels_are_compared_one_by_one(precision: str) -> None:
    found = ge.compile(_model(1.0), target="tiny", precision=precision).compare({"x": X})
    assert found.guilty is None
    assert not found.unmatched
    nodes = [node for row in found.rows for node in row.nodes]
    assert nodes.index("first") < nodes.index("third") < nodes.index("fifth")
    assert all(row.cosine > 0.999 for row in found.rows)
    assert "none is off by more than" in str(found)


def test_the_kernel_that_overflows_is_named_with_its_range() -> None:
    found = ge.compile(_model(1e6), target="tiny", precision="fp16").compare({"x": X})
    assert found.guilty is not None
    assert "fourth" in found.guilty.nodes
    assert found.guilty.overflows
    assert found.guilty.high > 65504
    assert "OVERFLOW of [0, " in str(found)


def test_what_is_kept_wide_does_not_overflow() -> None:
    for keep in (["fourth", "fifth"], ["Mul", "MatMul"]):
        program = ge.compile(_model(1e6), target="tiny", precision="fp16", keep_fp32=keep)
        assert program.compare({"x": X}).guilty is None
    config: dict[str, Any] = {
        "precision_mode": "fp16",
        "keep_fp32": ["fourth", "fifth"],
        "target": "tiny",
    }
    engine = ge.GraphEngine(ge.OptimizeConfig(**config))
    assert np.isfinite(engine.Optimize(_model(1e6))(X)).all()
    with pytest.raises(InputError, match="got 'fiftht'; did you mean 'fifth'"):
        ge.compile(_model(1.0), target="tiny", precision="fp16", keep_fp32=["fiftht"])


def test_a_loaded_program_has_nothing_to_compare_with(tmp_path: Path) -> None:
    ge.compile(_model(1.0), target="tiny").save(tmp_path / "m.o")
    with pytest.raises(InputError, match="must be compiled here to be compared"):
        ge.load(tmp_path / "m.o").compare({"x": X})
