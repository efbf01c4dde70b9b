"""Compiles an example model, runs it on the simulator, and compares it with onnxruntime.

`python examples/run.py [MODEL] [PRECISION]`, by default `simple_transformer fp16`.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import onnx
from models import MODELS

import ge
from ge.dialects.diagnostics import GeError
from ge.runtime.report import report

TOLERANCES = {"origin": 1e-4, "fp32": 1e-4, "fp16": 1e-2, "mixed": 1e-2, "bf16": 1e-1}
"""The largest error that passes, relative to the largest result."""


def main(name: str = "simple_transformer", precision: str = "fp16") -> int:
    """Run the example; 0 when its numbers are right."""
    if name not in MODELS:
        print(f"error: a model must be one of {', '.join(MODELS)}, got '{name}'", file=sys.stderr)
        return 3
    model = MODELS[name]()
    compiled = ge.compile(model, precision=precision)
    print(f"{name} at {precision}:\n{compiled.report}\n")
    print(f"{report(compiled.stats())}\n")
    rng = np.random.default_rng(0)
    inputs = {
        tensor.name: rng.standard_normal(tensor.shape).astype(tensor.dtype.numpy)
        for tensor in compiled.program.inputs
    }
    started = time.perf_counter()
    outputs = compiled.run(inputs)
    print(f"simulated in {time.perf_counter() - started:.1f} s")
    return _compare(model, inputs, outputs, TOLERANCES[precision])


def _compare(model: onnx.ModelProto, inputs: Any, outputs: Any, tolerance: float) -> int:
    try:
        import onnxruntime
    except ImportError:
        print("onnxruntime is not installed: the numbers are not compared")
        return 0
    session = onnxruntime.InferenceSession(model.SerializeToString())
    status = 0
    for output, want in zip(session.get_outputs(), session.run(None, inputs), strict=True):
        error = float(np.abs(outputs[output.name] - want).max() / np.abs(want).max())
        good = error <= tolerance
        word = "ok" if good else "WRONG"
        print(f"output '{output.name}': error {error:.1e}, at most {tolerance:.0e}: {word}")
        status = status if good else 6
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except GeError as e:
        print(e, file=sys.stderr)
        sys.exit(e.status)
