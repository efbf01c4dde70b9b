"""How fast the tools are; `python bench/speed.py [--json OUT]` prints figures beside their bars.

Nothing is asserted: the bars are for two cores of a present laptop.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.measure import Figure, Usage, arguments, module, report, tool, write_models

MODELS = ("simple_transformer", "resnet_small")
LINES = 1_000_000
COUNTS = (100, 1_000, 2_000, 5_000, 10_000)
"""What the first takes is what a compile takes for itself, without its operators."""
TRIES = 3
"""Of short runs the fastest counts: others may use the machine too."""


def main() -> None:
    """Take all figures."""
    out = arguments("How fast the tools are, beside their bars.")
    with tempfile.TemporaryDirectory() as folder:
        report(_figures(Path(folder)), out)


def _figures(folder: Path) -> Iterator[Figure]:
    write_models(folder)
    yield from _compiling(folder)
    yield Figure("ge-opt --help", _best(lambda: tool("ge-opt", "--help")).seconds, "s", 0.4)
    yield from _assembling(folder)
    yield from _simulating(folder / f"{MODELS[0]}.onnx")
    yield from _growing(folder)


def _compiling(folder: Path) -> Iterator[Figure]:
    """The whole of `ge-compile`, from the start of its process to the end."""
    for name in MODELS:
        words = (folder / f"{name}.onnx", "-o", folder / f"{name}.o")
        used = _best(lambda words=words: tool("ge-compile", *words))  # type: ignore[misc]
        yield Figure(f"ge-compile {name}", used.seconds, "s", 5)
        yield Figure(f"ge-compile {name}, processor", used.processor_seconds, "s")
        yield Figure(f"ge-compile {name}, peak memory", used.peak_mb, "MB", 400)


def _best(once: Callable[[], Usage]) -> Usage:
    return min((once() for _ in range(TRIES)), key=lambda used: used.seconds)


def _assembling(folder: Path) -> Iterator[Figure]:
    """A long text, whose weights are those of the transformer."""
    small, text = folder / "small.s", folder / "big.s"
    tool("ge-compile", folder / f"{MODELS[0]}.onnx", "--emit", "asm", "-o", small)
    lines = int(module("bench.big_assembly", small, text, str(LINES)).output)
    words = ("assemble", text, folder / "big.o")
    inside = min(float(module("bench.timed", *words).output) for _ in range(TRIES))
    yield Figure("ge-as, start-up excluded", lines / inside, "lines/s", 200_000, at_least=True)
    whole = tool("ge-as", text, "-o", folder / "big.o")
    yield Figure("ge-as, whole process", lines / whole.seconds, "lines/s")
    yield Figure("ge-as, whole process, peak memory", whole.peak_mb, "MB")


def _simulating(model: Path) -> Iterator[Figure]:
    """The simulator's numbers against onnxruntime, each in a process of its own."""
    theirs = float(module("bench.timed", "onnxruntime", model).output)
    ours = float(module("bench.timed", "simulate", model).output)
    yield Figure("functional run, times onnxruntime's", ours / theirs, "", 15)


def _growing(folder: Path) -> Iterator[Figure]:
    """Compile time of an operator: it must not grow with their number."""
    first, *counts = COUNTS
    rest = _processor_seconds(folder, first)
    each: dict[int, float] = {}
    for count in counts:
        each[count] = (_processor_seconds(folder, count) - rest) / (count - first)
        yield Figure(f"ge-compile, {count:,} operators, each", each[count] * 1e3, "ms")
    yield Figure("  slowest to fastest", max(each.values()) / min(each.values()), "", 1.5)


def _processor_seconds(folder: Path, count: int) -> float:
    model = folder / f"chain{count}.onnx"
    module("bench.chains", model, str(count))
    words = (model, "-o", folder / "chain.o")
    return min(tool("ge-compile", *words).processor_seconds for _ in range(TRIES))


if __name__ == "__main__":
    main()
