"""How close generated code is to what the machine allows; exit status 0 when all bars hold.

`python -m bench.quality [--only NAME,...] [--json OUT]`: half floats on `ascend910b1` unless said,
by the timing engine; the compiler chooses every tile. A launch is counted as it was where the bar
was measured: 10.7 us of products and additions, 9.6 us of convolutions and attention.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ge
from bench import quality_models as models
from bench.kernels import quantised_product
from bench.measure import Figure, report
from examples.llama3.model import GEOMETRIES, caches, decoder
from examples.models import resnet_small, simple_transformer
from ge.dialects.npu.isa.cube import CUBE
from ge.runtime.simulator import Simulator
from ge.runtime.stats import Stats

LAUNCH, LAUNCH_PTO = 10.7, 9.6
"""Microseconds of a launch, by the source of a bar."""
EAGER: dict[str, Any] = dict.fromkeys(
    ("fuse_ops", "memory_reuse", "pipeline_schedule", "native"), False
)


def timed(model: Any, target: str = "ascend910b1", **how: Any) -> Stats:
    """The figures of a timed run of a model that was compiled as a user would."""
    return Simulator(ge.compile(model, target=target, **how).program).run(mode="timing").stats


def microseconds(stats: Stats, launch: float) -> float:
    """The time, with a launch as the source of a bar counts it."""
    return (stats.us or 0.0) - stats.target.launch_us + launch


def cube_use(stats: Stats, multiply_adds: float, before: float = 0.0) -> float:
    """Useful multiply-adds beside what the matrix units could do meanwhile, in percent.

    `before` are cycles of kernels that are there for something else.
    """
    peak = CUBE**3 * stats.target.cores
    return 100 * multiply_adds / peak / ((stats.cycles or 1) - before)


def hbm_share(stats: Stats) -> float:
    """Bytes charged at the sustained rate beside the time, in percent."""
    rate = stats.target.bytes_per_cycle("hbm")
    return 100 * (stats.hbm_read + stats.hbm_write) / rate / (stats.cycles or 1)


def to_bounds(stats: Stats) -> float:
    """The time as a multiple of the sum of its kernels' bounds.

    A kernel takes its roofline, or at least one load's latency and one meeting of the cores.
    """
    target = stats.target
    latency = target.rate("gm_l1", "").latency_miss or target.rate("gm_l1", "").latency
    least = sum(max(stats.roofline(k)[1], latency + target.cross_core) for k in stats.kernels)
    return kernel_cycles(stats) / least


def kernel_cycles(stats: Stats) -> float:
    """All cycles but those of a launch."""
    return (stats.cycles or 0) - stats.target.launch_us * stats.target.clock_mhz


def _ratio(before: Stats, after: Stats) -> float:
    return (before.us or 0.0) / (after.us or 1.0)


def _products() -> Iterator[Figure]:
    alone = microseconds(timed(models.product(8192, 8192, 8192)), LAUNCH)
    yield Figure("matmul 8192^3", alone, "us", 3700)
    use = cube_use(timed(models.product(4096, 4096, 4096)), 4096**3)
    yield Figure("matmul 4096^3, cube use", use, "%", 78, at_least=True)
    gelu = microseconds(timed(models.product(8192, 8192, 8192, gelu=True)), LAUNCH)
    yield Figure("matmul + GELU to matmul", gelu / alone, "x", 1.02)


def _quantised() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "product.mlir"
        path.write_text(quantised_product((8192, 8192, 1024)), "utf-8")
        stats, serial = (timed(path, pipeline_schedule=on) for on in (True, False))
    name = "int8 matmul, scaled"
    yield Figure(name, stats.us or 0.0, "us")
    yield Figure(f"{name}, to no pipeline", _ratio(stats, serial), "x", 0.6)


def _attention() -> Iterator[Figure]:
    for length, bar in ((1024, 23.4), (4096, 80), (16384, 820)):
        stats = timed(models.attention(length), "ascend910b2")
        yield Figure(f"attention, {length} tokens", microseconds(stats, LAUNCH_PTO), "us", bar)


def _convolutions() -> Iterator[Figure]:
    for name, shape, bar in (
        ("cv1", (4, 128, 8, 48, 1536), 28.5),
        ("cv3", (4, 384, 12, 96, 4608), 465),
        ("cv5", (4, 640, 15, 128, 7680), 2090),
    ):
        stats = timed(models.convolution(*shape))
        yield Figure(f"convolution {name}", microseconds(stats, LAUNCH_PTO), "us", bar)


def _addition() -> Iterator[Figure]:
    stats = timed(models.addition(8192, 8192))
    least = (stats.hbm_read + stats.hbm_write) / stats.target.bytes_per_cycle("hbm")
    yield Figure("add 8192^2 to its HBM time", kernel_cycles(stats) / least, "x", 1.05)


def _llama() -> Iterator[Figure]:
    length, llama = 2048, GEOMETRIES["8b"]
    model = decoder(llama, length, layers=1)
    stats = timed(model)
    # What stands before the first layer, the table of words above all, is no part of one.
    first = next(k.start for k in stats.kernels if k.name.startswith("RMSNormalization"))
    before = first - stats.target.launch_us * stats.target.clock_mhz
    use = cube_use(stats, replace(llama, layers=1).multiply_adds(1, length, 0, 0), before)
    yield Figure("Llama-3-8B layer, 2048 tokens, cube use", use, "%", 78, at_least=True)
    yield from _to_eager("Llama-3-8B layer, 2048 tokens", model, stats)


def _decode() -> Iterator[Figure]:
    model = decoder(GEOMETRIES["8b"], 1, 2047)
    stats = timed(model, in_place=caches(model))
    yield Figure("Llama-3-8B decode step", stats.us or 0.0, "us")
    yield Figure("Llama-3-8B decode step, of HBM", hbm_share(stats), "%", 92, at_least=True)
    yield from _to_eager("Llama-3-8B decode step", model, stats)


def _to_eager(name: str, model: Any, native: Stats) -> Iterator[Figure]:
    eager = ge.compile(model, **EAGER).program
    simulator = Simulator(eager)
    for host in (5.0, 10.0, 18.0):
        target = replace(simulator.target, host_dispatch_us=host)
        stats = Simulator(eager, target).run(mode="timing").stats
        yield Figure(f"{name}, to eager at {host:g} us", _ratio(stats, native), "x")


def _transformer() -> Iterator[Figure]:
    model = simple_transformer()
    how: dict[str, Any] = {"precision": "fp16"}
    first = timed(model, **how, **EAGER)
    fused = timed(model, **how, **(EAGER | {"fuse_ops": True}))
    yield Figure("transformer, fusion to eager", _ratio(first, fused), "x", 1.37, at_least=True)
    stats = timed(model, **how)
    memory = stats.to_json()["memory"]
    share = memory["arena_bytes"] / memory["arena_no_reuse_bytes"]
    yield Figure("transformer, arena to no reuse", share, "x", 0.73)
    serial = timed(model, **how, pipeline_schedule=False)
    busy = stats.unit_busy or {}
    most = (busy["m"] + busy["v"]) / max(busy["m"], busy["v"])
    gained = kernel_cycles(serial) / kernel_cycles(stats)
    yield Figure("transformer, pipeline to no pipeline", gained, "x")
    yield Figure("transformer, (M + V) / max(M, V)", most, "x")
    yield Figure("transformer, reached of that", 100 * gained / most, "%", 95, at_least=True)
    yield Figure("transformer, native", stats.us or 0.0, "us")


def _networks() -> Iterator[Figure]:
    for name, model in (("resnet50, batch 8", models.resnet50()), ("encoder", models.encoder())):
        stats = timed(model)
        yield Figure(f"{name}", stats.us or 0.0, "us")
        yield Figure(f"{name}, to its kernels' bounds", to_bounds(stats), "x", 2)
    small = timed(resnet_small(), precision="origin")
    yield Figure("resnet_small, kernels", len(small.kernels), "", 12)
    two = timed(models.encoder(layers=2, hidden=256, batch=1, heads=4))
    yield Figure("2-layer transformer, kernels", len(two.kernels), "", 14)


GROUPS: dict[str, Callable[[], Iterator[Figure]]] = {
    "products": _products,
    "quantised": _quantised,
    "attention": _attention,
    "convolutions": _convolutions,
    "addition": _addition,
    "llama": _llama,
    "decode": _decode,
    "transformer": _transformer,
    "networks": _networks,
}


def main() -> int:
    """Print all figures; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description="How close generated code is to its bounds.")
    parser.add_argument("--only", metavar="NAME,...", help=f"some of: {', '.join(GROUPS)}")
    parser.add_argument("--json", metavar="OUT", type=Path, help="write the figures to OUT")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else list(GROUPS)
    if unknown := [n for n in names if n not in GROUPS]:
        parser.error(f"a group must be one of {', '.join(GROUPS)}, got '{unknown[0]}'")
    missed = []

    def figures() -> Iterator[Figure]:
        for name in names:
            for figure in GROUPS[name]():
                if not figure.good:
                    missed.append(figure)
                yield figure

    report(figures(), given.json)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
