"""onnxruntime as the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime


def run(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> list[Any]:
    """The outputs of a model, graph optimisations off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(inputs)))


def close(got: Any, want: Any, tolerance: float = 2e-6) -> None:
    """One type, one shape, and equal: integers exactly, floats to the tolerance of the largest."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
        return
    half = want.dtype.itemsize == 2
    finite = np.abs(want[np.isfinite(want)])
    atol = (2e-3 if half else tolerance) * float(finite.max(initial=1e-30))
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=0, atol=atol)
