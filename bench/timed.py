"""Takes one time inside a process of its own and prints the seconds; `speed.py` calls it."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPEATS = 5


def assemble(source: str, out: str) -> float:
    """Text to an object on disk, all modules loaded before."""
    from ge.codegen.objects import write_object
    from ge.codegen.parse_asm import parse_asm
    from ge.dialects.weights_file import WeightsFolder

    path = Path(source)
    parse_asm(".target tiny, cores=1\n.function main\nmain: halt\n")
    started = time.perf_counter()
    text = path.read_text("utf-8")
    program = parse_asm(text, source, WeightsFolder(path.parent))
    Path(out).write_bytes(write_object(program))
    return time.perf_counter() - started


def onnxruntime(model: str) -> float:
    """One run of a model's file, as onnxruntime does it by default."""
    from onnxruntime import InferenceSession

    session = InferenceSession(model)
    inputs = {i.name: _random(i.shape) for i in session.get_inputs()}
    return _median(lambda: session.run(None, inputs))


def simulate(model: str) -> float:
    """One functional run of the program of a model's file."""
    import ge

    compiled = ge.compile(model)
    inputs = {tensor.name: _random(tensor.shape) for tensor in compiled.program.inputs}
    return _median(lambda: compiled.run(inputs))


def _random(shape: Any) -> Any:
    import numpy as np

    return np.random.default_rng(0).standard_normal(shape, np.float32)


def _median(run: Callable[[], object]) -> float:
    run()
    return statistics.median(_timed(run) for _ in range(REPEATS))


def _timed(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


if __name__ == "__main__":
    name, *words = sys.argv[1:]
    works: dict[str, Callable[..., float]] = {
        work.__name__: work for work in (assemble, onnxruntime, simulate)
    }
    print(works[name](*words))
