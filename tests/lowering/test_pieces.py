"""Products that are summed in pieces: taken where that pays, and right in every remainder."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from xdsl.dialects.builtin import ModuleOp, StringAttr

from examples.models import Net
from ge.codegen.from_npu import program_of
from ge.dialects.fused.base import FusedOp
from ge.dialects.module_text import make_context
from ge.dialects.npu import target as targets
from ge.frontend.onnx_import import import_onnx
from ge.lowering.kernels.choose_tiling import tilings
from ge.lowering.kernels.description import Step
from ge.lowering.kernels.piece_tiling import most_alive, piece_tilings
from ge.lowering.kernels.table import describe
from ge.lowering.kernels.tiling import text_of
from ge.lowering.pipelines import Level, Options, passes
from ge.lowering.programs import programs_of
from ge.runtime.simulator import simulate

TARGET = targets.load("ascend910b1")
TYPES: dict[int, Any] = {TensorProto.FLOAT16: np.float16, TensorProto.FLOAT: np.float32}
Shape = tuple[int, int, int]


def _model(shape: Shape, element: int = TensorProto.FLOAT16, gated: bool = True) -> onnx.ModelProto:
    rows, depth, columns = shape
    net = Net(3)
    y = net("MatMul", "x", net("Transpose", "w", perm=[1, 0]))
    shapes = {"x": (rows, depth), "w": (columns, depth)}
    if gated:
        shapes["z"] = (rows, columns)
        y = net("Mul", net("Sigmoid", y), "z")
    return net.model(shapes, [y], 17, dict.fromkeys(shapes, element))


def _fused(model: onnx.ModelProto) -> tuple[ModuleOp, FusedOp]:
    """The model as kernels, and the only one."""
    module, ctx = import_onnx(model), make_context()
    for step in passes(Level.GRAPH, Options()):
        step.apply(ctx, module)
    (kernel,) = [op for op in module.walk() if isinstance(op, FusedOp)]
    return module, kernel


@pytest.mark.parametrize(
    ("shape", "pieces"),
    [
        ((2048, 4096, 4096), True),
        ((4096, 4096, 2048), True),
        ((2048, 512, 4096), False),
        ((64, 4096, 4096), False),
        ((1, 4096, 4096), False),
    ],
)
def test_large_sums_are_taken_in_pieces(shape: Shape, pieces: bool) -> None:
    _, kernel = _fused(_model(shape, gated=False))
    (part,) = describe(kernel)
    (best,) = islice(tilings(part.description, TARGET), 1)
    assert bool(best.tiling.within) is pieces


@pytest.mark.parametrize(
    ("shape", "element", "gated"),
    [
        ((300, 1100, 290), TensorProto.FLOAT16, True),
        ((256, 1024, 530), TensorProto.FLOAT16, False),
        ((140, 513, 129), TensorProto.FLOAT, True),
    ],
)
def test_pieces_add_up(shape: Shape, element: int, gated: bool) -> None:
    module, kernel = _fused(_model(shape, element, gated))
    (part,) = describe(kernel)
    rng, dtype = np.random.default_rng(0), TYPES[element]
    rows, depth, columns = shape
    inputs: dict[str, Any] = {"x": (rows, depth), "w": (columns, depth), "z": (rows, columns)}
    inputs = {n: rng.standard_normal(s).astype(dtype) for n, s in inputs.items()}
    want = inputs["x"].astype(np.float64) @ inputs["w"].T
    want = inputs["z"] / (1 + np.exp(-want)) if gated else want
    first, _ = piece_tilings(part.description, TARGET)
    kernel.properties["tiling"] = StringAttr(text_of(first.tiling))
    for step in passes(Level.FUSED, Options()):
        step.apply(make_context(), module)
    (program,) = programs_of(module)
    given = inputs if gated else {n: inputs[n] for n in "xw"}
    result = simulate(program_of(program), given, check_hazards=True)
    assert not result.hazards
    (out,) = result.outputs.values()
    np.testing.assert_allclose(out, want, rtol=2e-3, atol=1e-3 * np.abs(want).max())


def test_tiles_that_are_needed_at_once_are_counted() -> None:
    steps = [
        Step("vmul", "a", ("x", "x")),
        Step("vexp", "b", ("a",)),
        Step("vadd", "y", ("b", "a")),
    ]
    assert most_alive(steps, {"a": 8, "b": 4}) == 12
    assert most_alive(steps[:2], {"a": 8, "b": 4}) == 8
