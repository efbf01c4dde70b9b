"""The figures of the study: stages of generating, of reading the prompt, and memory."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

from examples.llama3.model import HALF, Geometry, decoder
from ge.dialects.npu import target as targets
from ge.dialects.npu.isa.cube import CUBE
from ge.dialects.npu.places import Space
from ge.lowering.pipelines import Options
from ge.runtime.ablation import Ablation, ablation
from ge.runtime.driver import begin
from ge.runtime.garbage import few_collections
from ge.runtime.simulator import Simulator
from ge.runtime.source import Source
from ge.runtime.stats import Stats

US = 1e6


class Study:
    """A geometry on a target."""

    def __init__(
        self, geometry: Geometry, target: str, prompt: int, tokens: int, batch: int
    ) -> None:
        self.geometry = geometry
        self.target = targets.load(target)
        self.options = Options(target=target)
        self.prompt = prompt
        self.tokens = tokens
        self.batch = batch

    def figures(self) -> dict[str, Any]:
        """All tables as one document. Raises GeError for what the target cannot do."""
        g = self.geometry
        found: dict[str, Any] = {
            "model": g.name,
            "target": self.target.name,
            "calibrated": self.target.calibrated,
            "date": datetime.date.today().isoformat(),
            "prompt": self.prompt,
            "tokens": self.tokens,
            "weights_bytes": g.weights_bytes,
        }
        need = g.weights_bytes + g.cache_bytes(1, self.prompt)
        have = self.target.bytes_of[Space.GM]
        if need > have:
            layer = self._timed(decoder(g, 1, self.prompt - 1, layers=1), self.options)
            return found | {
                "does_not_fit": {"needs_bytes": need, "available_bytes": have},
                "decode_layer_us": layer.us,
            }
        decode = self._stages(decoder(g, 1, self.prompt - 1))
        prefill = self._stages(decoder(g, self.prompt))
        step = g.multiply_adds(1, 1, self.prompt - 1, 1)
        unread = 0 if g.tied else HALF * g.words * g.hidden  # Of the embedding, single rows.
        read = g.weights_bytes - unread + g.cache_bytes(1, self.prompt)
        whole = g.multiply_adds(1, self.prompt, 0, 1)
        return found | {
            "generate": self._table(decode, self.tokens, self._limit_us(step, read)),
            "prefill": self._table(prefill, 1, self._limit_us(whole, read)),
            "prefill_cube_use": self._cube_use(prefill, whole),
            "memory": self._memory(),
        }

    def _stages(self, model: Any) -> Ablation:
        with few_collections():
            return ablation(begin(Source(model, {}, {}), self.options))

    def _timed(self, model: Any, options: Options) -> Stats:
        with few_collections():
            program = begin(Source(model, {}, {}), options).program()
            return Simulator(program).run(mode="timing").stats

    def _limit_us(self, multiply_adds: int, read_bytes: int) -> float:
        """The larger of operations at the peak and bytes at the sustained bandwidth."""
        cube = multiply_adds / (CUBE**3 * self.target.cores)
        memory = read_bytes / self.target.bytes_per_cycle("hbm")
        return max(cube, memory) / self.target.clock_mhz

    def _cube_use(self, stages: Ablation, multiply_adds: int) -> float:
        cycles = stages.stages[-1].cycles
        return multiply_adds / (CUBE**3 * self.target.cores) / cycles

    def _table(self, found: Ablation, times: int, limit_us: float) -> dict[str, Any]:
        document = found.to_json()
        stages = [
            {
                "name": row["name"],
                "us": row["us"] * times,
                "per_second": times * US / (row["us"] * times),
                "to_eager": row["to_eager"],
                "of_limit": limit_us / row["us"],
                "launches": row["launches"],
            }
            for row in document["stages"]
        ]
        return {
            "stages": stages,
            "limit_us": limit_us * times,
            "host_dispatch": document["host_dispatch"],
        }

    def _memory(self) -> dict[str, Any]:
        g, batch = self.geometry, self.batch
        # Layers follow each other, so that two hold as much at once as all of them.
        model = decoder(g, self.prompt, layers=2, batch=batch)
        stats = self._timed(model, self.options)
        serial = self._timed(model, replace(self.options, pipeline=False))
        arena = stats.to_json()["memory"]
        cache = g.cache_bytes(batch, self.prompt)
        all_layers = g.layers // 2
        return {
            "batch": batch,
            "weights_bytes": g.weights_bytes,
            "cache_bytes": cache,
            "activations_bytes": arena["arena_bytes"],
            "activations_bound_bytes": arena["arena_lower_bound_bytes"],
            "activations_no_reuse_bytes": arena["arena_no_reuse_bytes"] * all_layers,
            "total_bytes": g.weights_bytes + cache + arena["arena_bytes"],
            "available_bytes": self.target.bytes_of[Space.GM],
            "pipeline_to_none": (serial.us or 0.0) / (stats.us or 1.0),
        }
