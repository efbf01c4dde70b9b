"""What each switch is worth: the stages from eager to native, each compiled and timed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

from ge.dialects.diagnostics import InputError
from ge.dialects.npu import target as targets
from ge.dialects.npu.places import Space
from ge.dialects.npu.program import Program
from ge.lowering.pipelines import Level, Options
from ge.runtime.driver import Compilation
from ge.runtime.simulator import Mode, Simulator
from ge.runtime.stats import Stats
from ge.runtime.variants import programs
from ge.timing.areas import needs

STAGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("eager", {}),
    ("+fusion", {"fuse": True}),
    ("+memory reuse", {"memory_reuse": True}),
    ("+pipeline", {"pipeline": True}),
    ("+native", {"native": True}),
)
"""Each stage turns on one switch more."""
DISPATCHES_US = (5.0, 10.0, 18.0)
"""How long a host may take to dispatch a kernel: ratios to eager depend on it."""


@dataclass(frozen=True)
class Stage:
    """A stage and the figures of its timed run."""

    name: str
    stats: Stats
    fits: bool = True
    """Whether the target's memory holds it; if not, it was timed as if that were larger."""

    @property
    def cycles(self) -> int:
        return self.stats.cycles or 0


@dataclass(frozen=True)
class Dispatch:
    """What eager takes when the host dispatches in `host_us`."""

    host_us: float
    eager_us: float


@dataclass(frozen=True)
class Ablation:
    """The table of stages; a ratio says how many times as fast a stage is."""

    stages: Sequence[Stage]
    dispatches: Sequence[Dispatch]

    def to_json(self) -> dict[str, Any]:
        """The key `ablation` of a report."""
        last = self.stages[-1].stats.us or 0.0
        return {
            "stages": list(self._rows()),
            "host_dispatch": [
                {
                    "host_dispatch_us": d.host_us,
                    "eager_us": d.eager_us,
                    "native_to_eager": _ratio(d.eager_us, last),
                }
                for d in self.dispatches
            ],
        }

    def _rows(self) -> Iterator[dict[str, Any]]:
        before = first = self.stages[0]
        for stage in self.stages:
            yield {
                "name": stage.name,
                "cycles": stage.cycles,
                "us": stage.stats.us,
                "launches": stage.stats.launches,
                "to_stage_before": _ratio(before.cycles, stage.cycles),
                "to_eager": _ratio(first.cycles, stage.cycles),
                "memory": stage.stats.to_json()["memory"],
                "fits": stage.fits,
            }
            before = stage

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        titles = ("stage", "cycles", "us", "launches", "to before", "to eager", "arena B", "all B")
        yield _line(titles)
        for row in self._rows():
            memory = row["memory"]
            ratios = (f"x{row['to_stage_before']:.2f}", f"x{row['to_eager']:.2f}")
            held = (f"{memory['arena_bytes']:,}", f"{memory['peak_bytes']:,}")
            time = (f"{row['cycles']:,}", f"{row['us']:,.1f}", f"{row['launches']}")
            yield _line((row["name"], *time, *ratios, *held))
        for stage in self.stages:
            if not stage.fits:
                yield f"{stage.name} does not fit the target's memory, timed as if that were larger"
        for before, stage in pairwise(self.stages):
            if stage.cycles > before.cycles:
                more = stage.cycles - before.cycles
                yield f"{stage.name} is {more:,} cycles slower than {before.name}"
        for row in self.to_json()["host_dispatch"]:
            yield (
                f"with {row['host_dispatch_us']:g} us for the host to dispatch a kernel: "
                f"eager {row['eager_us']:,.1f} us, native x{row['native_to_eager']:.2f}"
            )


def ablation(compilation: Compilation, framework: Compilation | None = None) -> Ablation:
    """Compile a model of graph operators stage by stage, and time each.

    `framework` has the operators that a framework launches, where those are not the model's: it is
    what the first stage compiles, with options of its own.
    """
    if compilation.level is not Level.GRAPH:
        raise InputError(
            f"an ablation must begin with a model of level 'graph', got '{compilation.level.value}'"
        )
    first, *rest = _options(compilation)
    if framework is None:
        compiled: Iterable[Program] = programs(compilation, [first, *rest])
    else:
        alone = framework.fork(framework.options.eager())
        compiled = chain([alone.program(fits=False)], programs(compilation, rest))
    stages: list[Stage] = []
    dispatches: list[Dispatch] = []
    for (name, _), program in zip(STAGES, compiled, strict=True):
        simulator, fits = _ample(program)
        stages.append(Stage(name, _timed(simulator), fits))
        if not dispatches:
            dispatches = _dispatches(simulator, stages[0].stats)
    return Ablation(stages, dispatches)


def _options(compilation: Compilation) -> list[Options]:
    """Those of each stage."""
    options, found = compilation.options.eager(), []
    for _, switch in STAGES:
        options = replace(options, **switch)
        found.append(options)
    return found


def _ample(program: Program) -> tuple[Simulator, bool]:
    """A simulator with as much memory as the program needs; whether the target has that."""
    target = targets.load(program.target)
    have, needed = target.bytes_of[Space.GM], needs(program)
    memory = {**target.bytes_of, Space.GM: max(have, needed)}
    return Simulator(program, replace(target, bytes_of=memory)), needed <= have


def _timed(simulator: Simulator) -> Stats:
    return simulator.run(mode=Mode.TIMING).stats


def _dispatches(simulator: Simulator, stats: Stats) -> list[Dispatch]:
    """The time by what a dispatch costs; one that is done before a launch ends costs nothing."""
    target = simulator.target
    known = {max(target.host_dispatch_us, target.launch_us): stats.us or 0.0}
    found = []
    for us in DISPATCHES_US:
        longest = max(us, target.launch_us)
        if longest not in known:
            changed = replace(target, host_dispatch_us=us)
            known[longest] = _timed(Simulator(simulator.program, changed)).us or 0.0
        found.append(Dispatch(us, known[longest]))
    return found


def _ratio(before: float, after: float) -> float:
    return before / after if after else 1.0


def _line(cells: Sequence[str]) -> str:
    first, *rest = cells
    return f"{first:<14}" + "".join(f"{cell:>14}" for cell in rest)
