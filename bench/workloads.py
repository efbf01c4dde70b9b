"""What compiled models cost and how exact they are; `python bench/workloads.py [--json OUT]`.

Every workload is compared with onnxruntime in single precision, hazards looked for; fp16 is held
against the same results.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import onnx
import onnxruntime

import ge
from bench.measure import arguments, write_json
from bench.workload_models import WORKLOADS, Unavailable
from ge.lowering.pipelines import Options
from ge.runtime.ablation import Ablation, ablation
from ge.runtime.driver import begin
from ge.runtime.simulator import Mode, Simulator
from ge.runtime.source import Source

TARGET = "ascend910b1"
LIMITS = {"origin": 1e-4, "fp16": 1e-2}
"""The largest error as a share of the largest number that is expected."""
ABLATED = ("simple_transformer", "fp16")


class Row(NamedTuple):
    """One workload at one precision."""

    model: str
    precision: str
    error: float
    limit: float
    hazards: int
    cycles: int
    us: float
    hbm_bytes: int
    kernels: int
    largest: float
    """The largest number that onnxruntime gives, and the spread of all of them."""
    spread: float

    @property
    def good(self) -> bool:
        return self.error <= self.limit and not self.hazards

    def __str__(self) -> str:
        time = f"{self.cycles:>12,}{self.us:>10,.1f}{self.hbm_bytes:>14,}{self.kernels:>8}"
        word = "ok" if self.good else "WRONG"
        error = f"{self.error:>10.1e}{self.hazards:>8}"
        return f"{self.model:<28}{self.precision:<10}{error}{time}  {word}"


def main() -> None:
    """Take all figures."""
    out = arguments("Errors, cycles and memory traffic of the workloads.")
    titles = f"{'error':>10}{'hazards':>8}{'cycles':>12}{'us':>10}{'HBM bytes':>14}{'kernels':>8}"
    print(f"{'workload':<28}{'precision':<10}{titles}")
    rows, missing = [], []
    for name, build in WORKLOADS.items():
        try:
            model = build()
        except Unavailable as e:
            missing.append(f"{name}: {e}")
            print(f"{name:<28}left out: {e}", flush=True)
            continue
        for row in _rows(name, model):
            rows.append({**row._asdict(), "good": row.good})
            print(row, flush=True)
    table = _ablation()
    print(f"\n{ABLATED[0]} at {ABLATED[1]} on {TARGET}:\n{table}")
    write_json({"workloads": rows, "left_out": missing, "ablation": table.to_json()}, out)


def _rows(name: str, model: onnx.ModelProto) -> Iterator[Row]:
    wanted: dict[str, Any] = {}
    for precision, limit in LIMITS.items():
        program = ge.compile(model, target=TARGET, precision=precision).program
        rng = np.random.default_rng(0)
        inputs = {
            t.name: rng.standard_normal(t.shape).astype(t.dtype.numpy) for t in program.inputs
        }
        wanted = wanted or reference(model, inputs)
        result = Simulator(program).run(inputs, mode=Mode.BOTH, check_hazards=True)
        stats = result.stats
        yield Row(
            model=name,
            precision=precision,
            error=max(error_of(result.outputs[n], want) for n, want in wanted.items()),
            limit=limit,
            hazards=len(result.hazards),
            cycles=stats.cycles or 0,
            us=stats.us or 0.0,
            hbm_bytes=stats.hbm_read + stats.hbm_write,
            kernels=len(stats.kernels),
            largest=max(float(np.abs(want).max()) for want in wanted.values()),
            spread=max(float(want.std()) for want in wanted.values()),
        )


def reference(model: onnx.ModelProto, inputs: dict[str, Any]) -> dict[str, Any]:
    """What onnxruntime gives, its own optimisations off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def error_of(got: Any, want: Any) -> float:
    """The largest difference as a share of the largest number."""
    assert got.shape == want.shape
    return float(np.abs(got.astype(np.float64) - want).max() / np.abs(want).max())


def _ablation() -> Ablation:
    name, precision = ABLATED
    source = Source(WORKLOADS[name]())
    return ablation(begin(source, Options(target=TARGET, precision=precision)))


if __name__ == "__main__":
    main()
