"""How fast the clock is; `python bench/timing_speed.py [--json OUT]` prints figures beside bars.

A time is that of preparing a compiled program and timing it, the best of a few: what one run has
worked out about a program is not kept for the next, but for the Python functions of instructions
and loops that look alike. It is processor time, so that others on the machine count for less. The
bars are for two cores of a present laptop.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from measure import ROOT, Figure, arguments, report
from onnx import TensorProto

import ge
from ge.dialects.npu.program import Program
from ge.runtime.simulator import Result, Simulator

sys.path.insert(0, str(ROOT / "examples"))
from models import Net

TRIES = 7
PROC = Path("/proc/self/status")
LENGTH, HIDDEN, WIDE = 128, 256, 1024
LLAMA = {"length": 2048, "hidden": 4096, "heads": 32, "shared": 8, "wide": 14336}


def main() -> None:
    """Take all figures."""
    report(_figures(), arguments("How fast the clock is, beside its bars."))


def _figures() -> Iterator[Figure]:
    for name, model, bar in (
        ("GEMMs of a 2-layer transformer", transformer_gemms(), 0.115),
        ("convolutions of a small ResNet", resnet_convolutions(), 0.0274),
        ("MLP 784-512-10", mlp(), 0.0079),
    ):
        yield _timed(name, program_of(model), bar)
    for cores in (1, 24):
        program = program_of(product(8192, 8192, 8192), cores)
        yield _timed(f"product of 8192 x 8192, {cores} cores", program, 0.01)
    yield _timed("Llama-3-8B decoder layer, 2048 tokens", program_of(decoder_layer(**LLAMA)), 1.0)
    yield Figure("peak memory, compiling included", _peak_mb(), "MB")
    yield _walking(program_of(product(4096, 4096, 4096)))


def _timed(name: str, program: Program, bar: float) -> Figure:
    return Figure(name, min(seconds(program)[0] for _ in range(TRIES)), "s", bar)


def _walking(program: Program) -> Figure:
    took, result = min((seconds(program, skip=False) for _ in range(3)), key=lambda pair: pair[0])
    rate = result.stats.instructions / took
    return Figure("without skipping", rate, "instr/s", 1e6, at_least=True)


def seconds(program: Program, **how: Any) -> tuple[float, Result]:
    """Seconds of preparing and timing a program, and what came of it."""
    gc.collect()  # What compiling left behind is not the clock's.
    started = time.process_time()
    result = Simulator(program).run(mode="timing", **how)
    return time.process_time() - started, result


def program_of(model: onnx.ModelProto, cores: int = 0) -> Program:
    """The program of a model; 0 cores are all."""
    return ge.compile(model, cores=cores).program


def _peak_mb() -> float:
    lines = dict(line.split(":", 1) for line in PROC.read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) / 1024


def transformer_gemms() -> onnx.ModelProto:
    """The products of two encoder layers, one after the other."""
    net = Net()
    x = "x"
    for _ in range(2):
        for rows, columns in ((HIDDEN, HIDDEN),) * 4 + ((HIDDEN, WIDE), (WIDE, HIDDEN)):
            x = net("MatMul", x, net.normal(rows, columns))
    return net.model({"x": (LENGTH, HIDDEN)}, [x], 17)


def resnet_convolutions(side: int = 64) -> onnx.ModelProto:
    """The convolutions of a stem and three blocks, one after the other."""
    net = Net()
    x, before = "x", 3
    for channels, kernel, stride in (
        (16, 3, 1), (16, 3, 1), (16, 3, 1),
        (32, 3, 2), (32, 3, 1), (32, 1, 1),
        (64, 3, 2), (64, 3, 1), (64, 1, 1),
    ):  # fmt: skip
        weights, pads = net.normal(channels, before, kernel, kernel), [kernel // 2] * 4
        x, before = net("Conv", x, weights, pads=pads, strides=[stride, stride]), channels
    return net.model({"x": (1, 3, side, side)}, [x], 17)


def mlp() -> onnx.ModelProto:
    """Two layers and the activation between them."""
    net = Net()
    hidden = net("Relu", net("Gemm", "x", net.normal(784, 512), net.normal(512)))
    y = net("Gemm", hidden, net.normal(512, 10), net.normal(10))
    return net.model({"x": (1, 784)}, [y], 17)


def product(rows: int, inner: int, columns: int) -> onnx.ModelProto:
    """One product of half floats."""
    return _half(
        Net(), {"a": (rows, inner), "b": (inner, columns)}, lambda net: net("MatMul", "a", "b")
    )


def decoder_layer(length: int, hidden: int, heads: int, shared: int, wide: int) -> onnx.ModelProto:
    """A decoder layer with grouped queries, weights as inputs so that they need no memory."""
    depth = hidden // heads
    inputs = {
        "x": (1, length, hidden), "norm1": (hidden,), "norm2": (hidden,),
        "wq": (hidden, hidden), "wk": (hidden, shared * depth), "wv": (hidden, shared * depth),
        "wo": (hidden, hidden), "gate": (hidden, wide), "up": (hidden, wide),
        "down": (wide, hidden),
        "mask": (length, length),
    }  # fmt: skip

    def layer(net: Net) -> str:
        x = _rms_norm(net, "x", "norm1")
        q = _split(net, net("MatMul", x, "wq"), (length, heads, depth), [0, 2, 1, 3])
        k = _split(net, net("MatMul", x, "wk"), (length, shared, depth), [0, 2, 3, 1])
        v = _split(net, net("MatMul", x, "wv"), (length, shared, depth), [0, 2, 1, 3])
        k, v = (
            _repeat(net, part, heads, shared, (depth, length)[:: 1 - 2 * i])
            for i, part in enumerate((k, v))
        )
        scores = net("Add", net("Mul", net("MatMul", q, k), np.float16(depth**-0.5)), "mask")
        mixed = net("MatMul", net("Softmax", scores, axis=-1), v)
        joined = net(
            "Reshape", net("Transpose", mixed, perm=[0, 2, 1, 3]), np.array([1, length, hidden])
        )
        x = net("Add", "x", net("MatMul", joined, "wo"))
        y = _rms_norm(net, x, "norm2")
        gate = net("MatMul", y, "gate")
        silu = net("Mul", gate, net("Sigmoid", gate))
        inner = net("Mul", silu, net("MatMul", y, "up"))
        return str(net("Add", x, net("MatMul", inner, "down")))

    return _half(Net(), inputs, layer)


def _rms_norm(net: Net, x: str, scale: str) -> str:
    square = net("ReduceMean", net("Mul", x, x), axes=[-1])
    root = net("Sqrt", net("Add", square, np.float16(1e-3)))
    return str(net("Mul", net("Div", x, root), scale))


def _split(net: Net, x: str, shape: Sequence[int], order: Sequence[int]) -> str:
    return str(net("Transpose", net("Reshape", x, np.array([1, *shape])), perm=order))


def _repeat(net: Net, x: str, heads: int, shared: int, shape: Sequence[int]) -> str:
    """Each shared head once for every query head that reads it."""
    wide = net(
        "Expand", net("Unsqueeze", x, np.array([2])), np.array([1, shared, heads // shared, *shape])
    )
    return str(net("Reshape", wide, np.array([1, heads, *shape])))


def _half(
    net: Net, inputs: dict[str, tuple[int, ...]], body: Callable[[Net], str]
) -> onnx.ModelProto:
    y = body(net)
    elements = dict.fromkeys(inputs, TensorProto.FLOAT16)
    return net.model(inputs, [y], 17, elements)


if __name__ == "__main__":
    sys.exit(main())
