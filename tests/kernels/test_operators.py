"""Every operator that has a kernel or is a view: its documented example, compiled and run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ge.codegen.from_npu import program_of
from ge.dialects import dtypes
from ge.dialects.diagnostics import UnsupportedError
from ge.dialects.graph import OPS as ALL
from ge.dialects.graph.base import GraphOp, dims
from ge.dialects.graph.module import main_of
from ge.frontend.onnx_export import export_onnx
from ge.lowering.anchors import ANCHORS
from ge.lowering.decompose_operators import RULES as DECOMPOSED
from ge.lowering.kernels.reducing_ops import REDUCING
from ge.lowering.kernels.vector_ops import VECTOR
from ge.lowering.pipelines import Options
from ge.lowering.views import VIEWS
from ge.runtime.simulator import simulate
from tests.compiled import TOLERANCE, error_of, lower
from tests.graph.test_ops import example_module
from tests.onnx_oracle import run

HOST = [cls for cls in ALL.values() if cls.HOST and not cls.BOUNDED]
OPS: list[type[GraphOp]] = sorted(
    {*ANCHORS, *DECOMPOSED, *REDUCING, *VECTOR, *VIEWS, *HOST}, key=lambda c: c.name
)
POSITIVE = {"graph.batch_norm", "graph.div", "graph.log", "graph.sqrt", "graph.reduce_log_sum"}
REFUSED: dict[str, str] = {}
"""Examples that the device does not compute, and what is said."""
COMPUTED = [c for c in OPS if c.name not in REFUSED]


def _random(type_: Any, rng: np.random.Generator, *, positive: bool) -> Any:
    dtype = dtypes.of_ir(type_.element_type)
    if not dtype.is_float:
        lowest = int(positive)
        return np.asarray(rng.integers(lowest, lowest + 2, dims(type_)), dtype.numpy)
    array = rng.standard_normal(dims(type_)) * 3
    return np.asarray(np.abs(array) + 0.1 if positive else array).astype(dtype.numpy)


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_device_cannot_do_is_said(name: str) -> None:
    module = example_module(next(c for c in OPS if c.name == name))
    with pytest.raises(UnsupportedError) as refusal:
        lower(module, Options(target="tiny"))
    assert REFUSED[name] in f"{refusal.value}"


@pytest.mark.parametrize("cls", COMPUTED, ids=[c.name for c in COMPUTED])
def test_example_computes_what_onnxruntime_computes(cls: type[GraphOp]) -> None:
    module = example_module(cls)
    proto = export_onnx(module)
    rng = np.random.default_rng(7)
    types = [a.type for a in main_of(module).body.block.args]
    given = {f"in{i}": _random(t, rng, positive=cls.name in POSITIVE) for i, t in enumerate(types)}
    program = program_of(lower(module, Options(target="tiny")))
    result = simulate(program, given, check_hazards=True, mode="functional")
    assert not result.hazards
    for name, want in zip([o.name for o in proto.graph.output], run(proto, given), strict=True):
        assert error_of(result.outputs[name], want) <= TOLERANCE.get(want.dtype, 0.0)
