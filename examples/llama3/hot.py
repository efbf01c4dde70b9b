"""Where the time of a run goes: its most expensive kernels."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ge.runtime.stats import KernelTime, Stats

SHOWN = 10


def hottest(stats: Stats) -> list[dict[str, Any]]:
    """The kernels that take most, equal ones of all layers together."""
    groups: dict[Hashable, list[KernelTime]] = {}
    for kernel in stats.kernels:
        groups.setdefault((kernel.name, kernel.tallies[:-1]), []).append(kernel)
    largest = sorted(groups.values(), key=lambda kernels: -sum(k.cycles for k in kernels))
    return [_row(stats, kernels) for kernels in largest[:SHOWN]]


def _row(stats: Stats, kernels: list[KernelTime]) -> dict[str, Any]:
    cycles = sum(kernel.cycles for kernel in kernels)
    busy = {unit: sum(k.unit_busy[unit] for k in kernels) for unit in kernels[0].unit_busy}
    unit = max(busy, key=busy.__getitem__)
    bound, _ = stats.roofline(kernels[0])
    least = sum(stats.roofline(kernel)[1] for kernel in kernels)
    return {
        "kernel": kernels[0].name,
        "first": next(iter(kernels[0].source_ops), ""),
        "times": len(kernels),
        "us": cycles / stats.target.clock_mhz,
        "share": cycles / (stats.cycles or 1),
        "unit": unit,
        "unit_use": busy[unit] / (cycles * stats.program.cores) if cycles else 0.0,
        "bound": bound,
        "of_bound": least / cycles if cycles else 1.0,
    }
