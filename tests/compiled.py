"""Compiles models pass by pass and compares what the simulator computes with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from xdsl.dialects.builtin import ModuleOp

from ge.codegen.from_npu import program_of
from ge.dialects.module_text import make_context
from ge.dialects.npu.ops import ProgramOp
from ge.dialects.npu.program import Program
from ge.frontend.onnx_import import import_onnx
from ge.lowering.pipelines import Level, Options, passes, simplification
from ge.lowering.programs import programs_of
from ge.runtime.simulator import simulate
from tests.onnx_oracle import run

TOLERANCE = {np.dtype(np.float64): 1e-14, np.dtype(np.float32): 1e-4, np.dtype(np.float16): 1e-2}
"""The largest error, as a share of the largest number that is expected."""


def lower(module: ModuleOp, options: Options, *, simplify: bool = False) -> ProgramOp:
    """The module's program, its instructions emitted; the module is changed."""
    ctx = make_context()
    first = simplification(options) if simplify else []
    for p in [*first, *passes(Level.GRAPH, options), *passes(Level.FUSED, options)]:
        p.apply(ctx, module)
    (program,) = programs_of(module)
    return program


def compiled(model: onnx.ModelProto, options: Options, *, simplify: bool = False) -> Program:
    """The program of a model."""
    return program_of(lower(import_onnx(model), options, simplify=simplify))


def random_inputs(model: onnx.ModelProto, seed: int = 0) -> dict[str, Any]:
    """An array for each input, of the type that the model declares."""
    rng = np.random.default_rng(seed)
    weights = {i.name for i in model.graph.initializer}
    return {
        i.name: _random(i.type.tensor_type, rng) for i in model.graph.input if i.name not in weights
    }


def _random(type_: onnx.TypeProto.Tensor, rng: np.random.Generator) -> Any:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(type_.elem_type)
    shape = [d.dim_value for d in type_.shape.dim]
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2 if dtype.kind == "b" else 9, shape).astype(dtype)


def error_of(got: Any, want: Any) -> float:
    """The largest difference as a share of the largest number that is expected."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    known = np.isfinite(want) if want.dtype.kind == "f" else np.ones(want.shape, bool)
    wide = want[known].astype(np.float64)
    difference = np.abs(got[known].astype(np.float64) - wide).max(initial=0.0)
    np.testing.assert_array_equal(got[~known], want[~known])
    return float(difference / max(np.abs(wide).max(initial=0.0), 1e-30))


def check(
    model: onnx.ModelProto,
    options: Options,
    inputs: Mapping[str, Any] | None = None,
    *,
    simplify: bool = False,
) -> Program:
    """Compile and run a model: onnxruntime's numbers, and no hazard."""
    given = random_inputs(model) if inputs is None else inputs
    program = compiled(model, options, simplify=simplify)
    result = simulate(program, given, check_hazards=True, mode="functional")
    assert not result.hazards, str(result.hazards[0])
    for output, want in zip(model.graph.output, run(model, given), strict=True):
        limit = TOLERANCE.get(want.dtype, 0.0)
        error = error_of(result.outputs[output.name], want)
        assert error <= limit, f"output '{output.name}' is off by {error:.1e} of its largest number"
    return program
