"""Measured and predicted times as a picture: the times, both axes logarithmic, and the errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ge.dialects.diagnostics import InputError, UnsupportedError

if TYPE_CHECKING:
    from bench.fidelity import Outcome

BAND = 10
"""Percent up to which an error lies between the dotted lines."""


def scatter(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write the plot as PNG; raises UnsupportedError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UnsupportedError(
            "a plot needs matplotlib: pip install 'ge-npu[plot]', or leave out --plot"
        ) from None
    figure = Figure(figsize=(8, 9), layout="constrained")
    times, errors = figure.subplots(2, sharex=True)
    groups = {
        "counted": [o for o in outcomes if o.counts],
        "shown only": [o for o in outcomes if not o.counts and o.predicted is not None],
    }
    for name, group in groups.items():
        measured = [o.measured for o in group]
        times.scatter(measured, [o.predicted or 0.0 for o in group], s=14, label=name)
        errors.scatter(measured, [o.error or 0.0 for o in group], s=14)
        _name(errors, group)
    drawn = [o.measured for group in groups.values() for o in group]
    if drawn:
        ends = [min(drawn), max(drawn)]
        times.plot(ends, ends, color="grey", linewidth=0.8)
    for percent, style in ((0, "-"), (BAND, ":"), (-BAND, ":")):
        errors.axhline(percent, linestyle=style, color="grey", linewidth=0.8)
    times.set(xscale="log", yscale="log", ylabel="clock us")
    errors.set(xlabel="measured us", ylabel="error %")
    times.legend()
    try:
        figure.savefig(path, dpi=130, format="png")
    except OSError as e:
        raise InputError(f"must be a file that can be written, got {e}", str(path)) from e


def _name(axes: Any, group: Sequence[Outcome]) -> None:
    for o in group:
        place = (o.measured, o.error or 0.0)
        axes.annotate(o.id, place, fontsize=6, xytext=(3, 3), textcoords="offset points")
