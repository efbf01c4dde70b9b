"""A scatter plot of measured and predicted times, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ge.dialects.diagnostics import InputError, UnsupportedError

if TYPE_CHECKING:
    from bench.fidelity import Outcome


def scatter(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write the plot as PNG; raises UnsupportedError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UnsupportedError(
            "a plot needs matplotlib: pip install 'ge-npu[plot]', or leave out --plot"
        ) from None
    figure = Figure(figsize=(7, 7), layout="constrained")
    axes = figure.subplots()
    groups = {
        "counted": [o for o in outcomes if o.counts],
        "not counted yet": [o for o in outcomes if not o.counts and o.predicted is not None],
    }
    drawn = [o for group in groups.values() for o in group]
    for name, group in groups.items():
        measured = [o.measured for o in group]
        axes.scatter(measured, [o.predicted or 0.0 for o in group], s=18, label=name)
    for o in drawn:
        axes.annotate(
            o.id,
            (o.measured, o.predicted or 0.0),
            fontsize=6,
            xytext=(3, 3),
            textcoords="offset points",
        )
    if drawn:
        ends = [min(o.measured for o in drawn), max(o.measured for o in drawn)]
        for factor, style in ((1.0, "-"), (1.1, ":"), (1 / 1.1, ":")):
            axes.plot(ends, [end * factor for end in ends], style, color="grey", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="measured us", ylabel="clock us")
    axes.legend()
    try:
        figure.savefig(path, dpi=150, format="png")
    except OSError as e:
        raise InputError(f"must be a file that can be written, got {e}", str(path)) from e
