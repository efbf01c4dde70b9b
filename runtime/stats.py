"""What a run took: the content of `--stats`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ge.dialects.npu.places import Unit
from ge.dialects.npu.program import Program
from ge.dialects.npu.target import Target
from ge.timing.cost import HBM, Tally
from ge.timing.engine import Clock, Meetings, Visit
from ge.timing.steps import QUEUES, queues


@dataclass(frozen=True)
class KernelTime:
    """One pass of the cores through a kernel; busy cycles are sums over the cores."""

    name: str
    source_ops: tuple[str, ...]
    start: int
    end: int
    unit_busy: dict[str, int]
    tallies: tuple[int, ...]
    """By `Tally`, summed over the cores."""

    @property
    def hbm_bytes(self) -> int:
        """What it asks of device memory."""
        return self.tallies[Tally.HBM_READ] + self.tallies[Tally.HBM_WRITE]

    @property
    def l2_bytes(self) -> int:
        """What its cores exchange with the second-level cache."""
        return self.tallies[Tally.L2]

    @property
    def cycles(self) -> int:
        """From the first instruction on a unit to the last visible result, over all cores."""
        return self.end - self.start


@dataclass(frozen=True)
class Stats:
    """Figures of a run; what the clock says is None in a run without it."""

    program: Program
    target: Target
    instructions: int
    cycles: int | None = None
    unit_busy: dict[str, int] | None = None
    """Busy cycles of each unit, summed over the cores."""
    kernels: tuple[KernelTime, ...] = ()
    tallies: tuple[int, ...] = (0,) * len(Tally)
    """By `Tally`, summed over the cores; what lies outside kernels is in it, too."""
    launches: int | None = None
    hazards: int | None = None

    @property
    def us(self) -> float | None:
        """Microseconds on the target."""
        return None if self.cycles is None else self.cycles / self.target.clock_mhz

    @property
    def hbm_read(self) -> int:
        """Bytes that device memory has delivered."""
        return self.tallies[Tally.HBM_READ]

    @property
    def hbm_write(self) -> int:
        """Bytes that device memory has to take."""
        return self.tallies[Tally.HBM_WRITE]

    @property
    def l2_bytes(self) -> int:
        """Bytes that the cores exchange with the second-level cache."""
        return self.tallies[Tally.L2]

    def bounds(self, kernel: KernelTime | None = None) -> dict[str, float]:
        """Cycles that a kernel, or the program, takes at least: by unit that computes, by memory.

        What a kernel writes may reach device memory while later ones run.
        """
        tallies = kernel.tallies if kernel else self.tallies
        read, written = tallies[Tally.HBM_READ], tallies[Tally.HBM_WRITE]
        limit = self.target.limits[HBM]
        sustained = (read + written) / self.target.bytes_per_cycle(HBM) - limit.credit_cycles
        peak = self.target.per_cycle(limit.peak_bytes_per_second or limit.bytes_per_second)
        return {
            str(Unit.M): tallies[Tally.MATRIX] / self.program.cores,
            str(Unit.V): tallies[Tally.VECTOR] / self.program.cores,
            HBM: max(sustained, (read if kernel else read + written) / peak),
        }

    def roofline(self, kernel: KernelTime | None = None) -> tuple[str, float]:
        """What bounds a kernel, or all, and the cycles it takes at least."""
        bounds = self.bounds(kernel)
        name = max(bounds, key=bounds.__getitem__)
        return name, bounds[name]

    @property
    def outside_kernels(self) -> int:
        """Cycles in which no kernel ran: the launch, and what lies between kernels."""
        ran = at = 0
        for kernel in sorted(self.kernels, key=lambda kernel: kernel.start):
            ran += max(0, kernel.end - max(at, kernel.start))
            at = max(at, kernel.end)
        return (self.cycles or 0) - ran

    def utilization(self, unit: str) -> float:
        """The share of the run in which a unit was busy, over all cores."""
        if not self.cycles or self.unit_busy is None:
            return 0.0
        return self.unit_busy[unit] / (self.cycles * self.program.cores)

    def to_json(self) -> dict[str, Any]:
        """The `--stats` document; `unit_busy` and `busy_cycles` are sums over the cores."""
        timed = self.unit_busy is not None
        return {
            "target": self.target.name,
            "cores": self.program.cores,
            "clock_mhz": self.target.clock_mhz,
            "cycles": self.cycles,
            "us": self.us,
            "instructions": self.instructions,
            "units": {
                unit: {"busy_cycles": busy, "utilization": round(self.utilization(unit), 6)}
                for unit, busy in (self.unit_busy or {}).items()
            },
            "kernels": [
                {
                    "name": kernel.name,
                    "source_ops": list(kernel.source_ops),
                    "cycles": kernel.cycles,
                    "start": kernel.start,
                    "unit_busy": kernel.unit_busy,
                    "hbm_bytes": kernel.hbm_bytes,
                    "l2_bytes": kernel.l2_bytes,
                    "roofline": self._roofline_json(kernel),
                }
                for kernel in self.kernels
            ],
            "hbm": {
                "read_bytes": self.hbm_read if timed else None,
                "write_bytes": self.hbm_write if timed else None,
            },
            "memory": _memory(self.program),
            "launches": self.launches,
            "hazards": self.hazards,
            "l2_bytes": self.l2_bytes if timed else None,
            "roofline": self._roofline_json() if timed else None,
        }

    def _roofline_json(self, kernel: KernelTime | None = None) -> dict[str, Any]:
        bound, cycles = self.roofline(kernel)
        return {"bound": bound, "cycles": round(cycles)}


def _memory(program: Program) -> dict[str, int]:
    return {
        "weights_bytes": program.weights_bytes,
        "arena_bytes": program.arena.bytes,
        "arena_lower_bound_bytes": program.arena.lower_bound,
        "arena_no_reuse_bytes": program.arena.no_reuse,
        "peak_bytes": program.bytes,
    }


def timed(
    program: Program,
    target: Target,
    instructions: int,
    clocks: Sequence[Clock],
    meetings: Meetings,
    hazards: int | None,
) -> Stats:
    """The figures of a run that the clocks followed."""
    visits = [v for clock in clocks for v in (clock.outside, *clock.visits)]
    return Stats(
        program=program,
        target=target,
        instructions=instructions,
        cycles=max(clock.end for clock in clocks),
        unit_busy=by_unit(target, [clock.busy for clock in clocks]),
        kernels=tuple(_kernels(program, target, clocks)),
        tallies=_summed(visits),
        launches=meetings.launches,
        hazards=hazards,
    )


def by_unit(target: Target, busy: Sequence[Sequence[int]]) -> dict[str, int]:
    """Busy cycles by unit, summed; a unit that shares another's queue has no line of its own."""
    numbers = set(queues(target).values())
    return {str(QUEUES[n]): sum(counts[n] for counts in busy) for n in sorted(numbers)}


def _kernels(program: Program, target: Target, clocks: Sequence[Clock]) -> list[KernelTime]:
    """The cores' passes put together: the first through a kernel, the second, ..."""
    passes: dict[tuple[int, int], list[Visit]] = {}
    for clock in clocks:
        seen: dict[int, int] = {}
        for visit in clock.visits:
            order = seen[visit.kernel] = seen.get(visit.kernel, 0) + 1
            passes.setdefault((visit.kernel, order), []).append(visit)
    times = [_together(program, target, kernel, v) for (kernel, _), v in passes.items()]
    return sorted(times, key=lambda kernel: kernel.start)


def _together(program: Program, target: Target, kernel: int, visits: Sequence[Visit]) -> KernelTime:
    working = [v for v in visits if v.start >= 0]
    busy = by_unit(target, [v.busy for v in visits])
    del busy[str(Unit.S)]
    return KernelTime(
        name=program.kernels[kernel].kind,
        source_ops=visits[0].sources,
        start=min(v.start for v in working) if working else min(v.entered for v in visits),
        end=max(v.end for v in working or visits),
        unit_busy=busy,
        tallies=_summed(visits),
    )


def _summed(visits: Sequence[Visit]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*(v.tallies for v in visits), strict=True)))
