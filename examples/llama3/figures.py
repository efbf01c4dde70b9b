"""The figures of the study on one target: generating, reading the prompt, and memory."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from examples.llama3.eager import eager
from examples.llama3.hot import hottest
from examples.llama3.model import HALF, Geometry, caches, decoder
from ge.dialects.npu import target as targets
from ge.dialects.npu.isa.cube import CUBE
from ge.dialects.npu.places import Space
from ge.dialects.npu.target import Target
from ge.lowering.pipelines import Options
from ge.runtime.ablation import Ablation, ablation
from ge.runtime.driver import begin, unsimplified
from ge.runtime.garbage import few_collections
from ge.runtime.simulator import Simulator
from ge.runtime.source import Source
from ge.runtime.stats import Stats
from ge.runtime.variants import programs

US = 1e6
MEMORY_LAYERS = 2
"""Layers follow each other, so that two hold as much at once as all of them."""
PARTS = ("generate", "prefill", "memory")
PRODUCTS = "MatMul"
"""How the names begin of kernels that are products, perhaps with work behind them."""


@dataclass(frozen=True)
class Study:
    """A geometry on a target."""

    geometry: Geometry
    target: str
    prompt: int
    tokens: int
    batch: int
    capture: bool = False
    """Whether the model is taken from transformers by torch, not written out here."""

    @cached_property
    def machine(self) -> Target:
        """The target."""
        return targets.load(self.target)

    @property
    def options(self) -> Options:
        """Everything on."""
        return Options(target=self.target, narrow=self.capture)

    def model(self, length: int, past: int = 0, **what: Any) -> Source:
        """The model without weights; what it makes of a cache is written over that."""
        if not self.capture:
            written = decoder(self.geometry, length, past, **what)
            return Source(written, in_place=caches(written))
        from examples.llama3.capture import captured

        found = captured(self.geometry, length, past, **what)
        assert found.model is not None
        return Source(found.model, in_place=found.in_place)

    def part(self, name: str) -> dict[str, Any]:
        """One part of the figures, with the seconds that it took."""
        started = time.perf_counter()
        with few_collections():
            found: dict[str, Any] = getattr(self, name)()
        return {name: found | {"seconds": time.perf_counter() - started}}

    def figures(self) -> dict[str, Any]:
        """All parts, of what the target can hold."""
        found = self.about()
        for name in () if "does_not_fit" in found else PARTS:
            found |= self.part(name)
        return found

    def about(self) -> dict[str, Any]:
        """What the target is; and where it cannot hold the model, how long a layer would take."""
        g = self.geometry
        found: dict[str, Any] = {"target": self.machine.name, "calibrated": self.machine.calibrated}
        need = g.weights_bytes + g.cache_bytes(1, self.prompt)
        have = self.machine.bytes_of[Space.GM]
        if need <= have:
            return found
        layer, one = (self._one_token(layers) for layers in (2, 1))
        return found | {
            "does_not_fit": {"needs_bytes": need, "available_bytes": have},
            "decode_layer_us": (layer.us or 0.0) - (one.us or 0.0),
        }

    def generate(self) -> dict[str, Any]:
        """One token behind a prompt, batch 1, as often as there are tokens."""
        g, past = self.geometry, self.prompt - 1
        stages = self._stages(self.model(1, past), eager(g, 1, past))
        unread = 0 if g.tied else HALF * g.words * g.hidden  # Of the embedding, single rows.
        read = g.weights_bytes - unread + g.cache_bytes(1, self.prompt)
        limit = self._limit_us(g.multiply_adds(1, 1, past, 1), read)
        return self._table(stages, self.tokens, 1, limit)

    def prefill(self) -> dict[str, Any]:
        """The prompt at once, batch 1."""
        g = self.geometry
        stages = self._stages(self.model(self.prompt), eager(g, self.prompt))
        work = g.multiply_adds(1, self.prompt, 0, 1)
        read = g.weights_bytes + g.cache_bytes(1, self.prompt)
        use = work / (CUBE**3 * self.machine.cores) / stages.stages[-1].cycles
        limit = self._limit_us(work, read)
        native = stages.stages[-1].stats.kernels
        products = sum(k.cycles for k in native if k.name.startswith(PRODUCTS))
        found = {"cube_use": use, "products_us": products / self.machine.clock_mhz}
        return self._table(stages, 1, self.prompt, limit) | found

    def memory(self) -> dict[str, Any]:
        """What several prompts at once hold; and how much faster the pipeline makes them."""
        g, batch, layers = self.geometry, self.batch, self.geometry.layers
        model = self.model(self.prompt, layers=MEMORY_LAYERS, batch=batch)
        both = [replace(self.options, pipeline=on) for on in (False, True)]
        compiled = programs(begin(model, self.options), both)
        serial, stats = (_timed(Simulator(program)) for program in compiled)
        arena = stats.to_json()["memory"]
        cache = g.cache_bytes(batch, self.prompt)
        needed = sum(stats.roofline(kernel)[1] for kernel in stats.kernels) / self.machine.clock_mhz
        return {
            "batch": batch,
            "weights_bytes": g.weights_bytes,
            "cache_bytes": cache,
            "activations_bytes": arena["arena_bytes"],
            "activations_bound_bytes": arena["arena_lower_bound_bytes"],
            "activations_no_reuse_bytes": arena["arena_no_reuse_bytes"] * layers // MEMORY_LAYERS,
            "total_bytes": g.weights_bytes + cache + arena["arena_bytes"],
            "available_bytes": self.machine.bytes_of[Space.GM],
            "layer_us": {
                "serial": (serial.us or 0.0) / MEMORY_LAYERS,
                "pipeline": (stats.us or 0.0) / MEMORY_LAYERS,
                "bound": needed / MEMORY_LAYERS,
            },
        }

    def trace(self) -> dict[str, Any]:
        """Every instruction of one layer of a decode step, for Perfetto."""
        program = begin(self._layers(1), self.options).program()
        found = Simulator(program).run(mode="timing", trace=True).trace
        assert found is not None
        return found

    def _layers(self, layers: int) -> Source:
        return self.model(1, self.prompt - 1, layers=layers)

    def _one_token(self, layers: int) -> Stats:
        return _timed(Simulator(begin(self._layers(layers), self.options).program()))

    def _stages(self, model: Source, framework: Any) -> Ablation:
        whole = replace(self.options, whole=True)
        return ablation(begin(model, self.options), unsimplified(Source(framework), whole))

    def _limit_us(self, multiply_adds: int, read_bytes: int) -> float:
        """The larger of operations at the peak and bytes at the sustained bandwidth."""
        cube = multiply_adds / (CUBE**3 * self.machine.cores)
        memory = read_bytes / self.machine.bytes_per_cycle("hbm")
        return max(cube, memory) / self.machine.clock_mhz

    def _table(self, found: Ablation, times: int, tokens: int, limit_us: float) -> dict[str, Any]:
        """Stages of a run of so many tokens, done so many times."""
        document = found.to_json()
        stages = [
            {
                "name": row["name"],
                "us": row["us"] * times,
                "tokens_per_second": tokens * US / row["us"],
                "to_eager": row["to_eager"],
                "reduction": 1 - 1 / row["to_eager"],
                "of_limit": limit_us / row["us"],
                "launches": row["launches"],
                "memory": row["memory"],
                "fits": row["fits"],
                "hottest": hottest(stage.stats),
            }
            for row, stage in zip(document["stages"], found.stages, strict=True)
        ]
        return {
            "stages": stages,
            "limit_us": limit_us * times,
            "limit_to_eager": stages[0]["us"] / (limit_us * times),
            "host_dispatch": document["host_dispatch"],
        }


def _timed(simulator: Simulator) -> Stats:
    return simulator.run(mode="timing").stats
