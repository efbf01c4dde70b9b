"""The table that a terminal shows after a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ge.runtime.stats import KernelTime, Stats
from ge.timing.cost import HBM

NAME_WIDTH = 24
SOURCE_WIDTH = 40
LEFT = {"kernel", "bound by", "roofline", "from"}
"""Columns of words; the others are numbers."""


def report(stats: Stats, top: int = 30) -> str:
    """Totals, units and the `top` longest kernels in the order they start."""
    lines = [_head(stats)]
    if stats.cycles is not None:
        lines += [_units(stats), _roofline(stats), "", *_kernels(stats, top)]
    if stats.hazards is not None:
        lines.append(f"hazards: {stats.hazards}")
    return "\n".join(lines)


def _head(stats: Stats) -> str:
    program = stats.program
    target = stats.target.name + " (not calibrated)" * (not stats.target.calibrated)
    head = f"{target}, {program.cores} cores, {stats.instructions:,} instructions"
    memory = stats.to_json()["memory"]
    held = (
        f"memory: weights {memory['weights_bytes']:,} B, arena {memory['arena_bytes']:,} B, "
        f"in all {memory['peak_bytes']:,} B"
    )
    if stats.cycles is None:
        return f"{head}\n{held}"
    moved = f"hbm: {stats.hbm_read:,} B read, {stats.hbm_write:,} B written"
    launches = f"{stats.launches} launch{'es' * (stats.launches != 1)}"
    time = f"{stats.cycles:,} cycles = {stats.us:,.1f} us, {launches}"
    return f"{head}\n{time}\n{moved}; l2: {stats.l2_bytes:,} B\n{held}"


def _units(stats: Stats) -> str:
    busy = (f"{unit} {stats.utilization(unit):.0%}" for unit in stats.unit_busy or {})
    return f"busy: {', '.join(busy)}"


def _roofline(stats: Stats) -> str:
    """The bounds of the whole program, and how far it is from them."""
    cycles = stats.cycles or 1
    bounds = stats.bounds().items()
    said = (f"{name} {round(bound):,} ({bound / cycles:.0%})" for name, bound in bounds)
    inside = sum(stats.roofline(kernel)[1] for kernel in stats.kernels)
    apart = f"kernel by kernel {round(inside):,} ({inside / cycles:.0%})"
    return f"least cycles: {', '.join(said)}, {apart}"


def _kernels(stats: Stats, top: int) -> Iterable[str]:
    longest = sorted(stats.kernels, key=lambda kernel: -kernel.cycles)[:top]
    shown = sorted(longest, key=lambda kernel: kernel.start)
    outside = stats.outside_kernels
    rest = {"kernel": "(launch, between)", "cycles": f"{outside:,}"}
    rest["share"] = _share(stats, outside)
    yield from _table([*(_row(stats, kernel) for kernel in shown), rest])
    if len(stats.kernels) > top:
        yield f"... and {len(stats.kernels) - top} shorter kernels"


def _row(stats: Stats, kernel: KernelTime) -> dict[str, str]:
    cycles = kernel.cycles or 1
    bound, share = _bound(stats, kernel)
    roof, least = stats.roofline(kernel)
    units = {u: busy / (cycles * stats.program.cores) for u, busy in kernel.unit_busy.items()}
    return {
        "kernel": kernel.name[:NAME_WIDTH],
        "cycles": f"{kernel.cycles:,}",
        "share": _share(stats, kernel.cycles),
        "bound by": f"{bound} {share:.0%}",
        **{unit: f"{busy:.0%}" for unit, busy in units.items()},
        "hbm bytes": f"{kernel.hbm_bytes:,}",
        "l2 bytes": f"{kernel.l2_bytes:,}",
        "roofline": f"{roof} {round(least):,}",
        "x": f"{kernel.cycles / least:.2f}" if least >= 1 else "",
        "from": ", ".join(kernel.source_ops)[:SOURCE_WIDTH],
    }


def _share(stats: Stats, cycles: int) -> str:
    return f"{cycles / (stats.cycles or 1):.1%}"


def _bound(stats: Stats, kernel: KernelTime) -> tuple[str, float]:
    """The unit, or the device memory, that was busy for the largest share of a kernel."""
    cycles = kernel.cycles or 1
    shares = {u: busy / (cycles * stats.program.cores) for u, busy in kernel.unit_busy.items()}
    # Waiting for the memory counts as busy, so that the memory wins where it is the cause. Bytes
    # ahead of its sustained rate, or still in the cache, make it no more than busy all the time.
    shares[HBM] = min(1.0, kernel.hbm_bytes / stats.target.bytes_per_cycle(HBM) / cycles)
    bound = max(reversed(shares), key=lambda name: shares[name])
    return bound, shares[bound]


def _table(rows: Sequence[dict[str, str]]) -> Iterable[str]:
    titles = list(rows[0])
    cells = [titles, *([row.get(title, "") for title in titles] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (
            cell.ljust(width) if title in LEFT else cell.rjust(width)
            for cell, width, title in zip(line, widths, titles, strict=True)
        )
        yield "  ".join(padded).rstrip()
