"""What a compile did: fusions and why near ones did not fire, passes and how long they took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr

from ge.codegen.from_npu import program_of
from ge.dialects.npu.ops import RoutineOp
from ge.lowering.fold_batch_norm import FOLDED
from ge.lowering.fuse_kernels import HITS, MISSES
from ge.lowering.fused_to_npu import TILINGS
from ge.lowering.programs import programs_of
from ge.runtime.driver import Compilation, PassTime
from ge.runtime.host_calls import HostCall, host_calls

SHOWN_MISSES = 5
FOLDING_RULE = "Conv2DBatchNorm"
"""The fusion to which a folded batch norm counts."""


@dataclass(frozen=True)
class CompileReport:
    """The part of `--report` that is known without a run."""

    level: str
    """The level of the model that was given."""
    hits: Mapping[str, int]
    """How often each fusion fired; empty without fusion."""
    misses: Sequence[str]
    """Where a fusion nearly fired, and why it did not."""
    passes: Sequence[PassTime]
    ai_cpu: Sequence[HostCall] = ()
    """What the AI CPU computes."""
    tilings: Mapping[str, str] = field(default_factory=dict)
    """The tilings of all kernels by key, where tuning was asked for."""

    @property
    def seconds(self) -> float:
        """Of all passes, the reading of the model included."""
        return sum(row.seconds for row in self.passes)

    def to_json(self) -> dict[str, Any]:
        """What `--report` adds to the figures of a run."""
        return {
            "fusion": {"hits": dict(self.hits), "misses": list(self.misses)},
            "passes": [row._asdict() for row in self.passes],
            "compile_seconds": self.seconds,
            "ai_cpu": [call.to_json() for call in self.ai_cpu],
            "tilings": dict(self.tilings),
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        slowest = max(self.passes, key=lambda row: row.seconds)
        yield (
            f"compiled from level '{self.level}' in {self.seconds:.2f} s, "
            f"longest: {slowest.name} {slowest.seconds:.2f} s"
        )
        fired = [f"{name} {count}" for name, count in self.hits.items() if count]
        yield f"fusions: {', '.join(fired) or 'none'}"
        yield from (f"not fused: {miss}" for miss in self.misses[:SHOWN_MISSES])
        if len(self.misses) > SHOWN_MISSES:
            yield f"not fused: {len(self.misses) - SHOWN_MISSES} more, see --report"
        if self.ai_cpu:
            yield f"on the AI CPU: {', '.join(map(str, self.ai_cpu))}"


def report_of(compilation: Compilation, level: str) -> CompileReport:
    """The report of a compile that is done; `level` is that of the model it began with."""
    hits = _hits(compilation.module)
    misses, times = _misses(compilation.module), tuple(compilation.times)
    module = compilation.module
    return CompileReport(level, hits, misses, times, _ai_cpu(module), dict(_tilings(module)))


def _ai_cpu(module: ModuleOp) -> list[HostCall]:
    """What the AI CPU computes in a program whose instructions are emitted."""
    asking = (p for p in programs_of(module) if any(isinstance(o, RoutineOp) for o in p.body.ops))
    return [call for program in asking for call in host_calls(program_of(program))]


def _hits(module: ModuleOp) -> dict[str, int]:
    counts = module.attributes.get(HITS)
    hits = {
        name: value.value.data
        for name, value in (counts.data if isinstance(counts, DictionaryAttr) else {}).items()
        if isinstance(value, IntegerAttr)
    }
    folded = module.attributes.get(FOLDED)
    if isinstance(folded, IntegerAttr):
        hits[FOLDING_RULE] = hits.get(FOLDING_RULE, 0) + folded.value.data
    return hits


def _tilings(module: ModuleOp) -> Iterator[tuple[str, str]]:
    lines = module.attributes.get(TILINGS)
    for line in lines.data if isinstance(lines, ArrayAttr) else ():
        if isinstance(line, StringAttr):
            key, _, tiling = line.data.partition(": ")
            yield key, tiling


def _misses(module: ModuleOp) -> tuple[str, ...]:
    misses = module.attributes.get(MISSES)
    found = misses.data if isinstance(misses, ArrayAttr) else ()
    return tuple(m.data for m in found if isinstance(m, StringAttr))
