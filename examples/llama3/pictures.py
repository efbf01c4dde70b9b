"""The stages as PNG pictures: bars, and the limit as a line."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ge.dialects.diagnostics import InputError, UnsupportedError

PARTS = {"generate": "generating", "prefill": "reading the prompt"}


def pictures(figures: dict[str, Any], folder: Path) -> list[Path]:
    """Write one picture a target; the files."""
    if find_spec("matplotlib") is None:
        raise UnsupportedError(
            "'matplotlib' must be installed for pictures: pip install 'ge-npu[plot]'"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise InputError(f"must be a folder to write to: {e.strerror}", str(folder)) from e
    targets = [t for t in figures["targets"] if "generate" in t]
    return [_picture(figures, target, folder) for target in targets]


def _picture(figures: dict[str, Any], target: dict[str, Any], folder: Path) -> Path:
    from matplotlib.figure import Figure

    made = Figure(figsize=(9, 3), dpi=110, layout="constrained")
    for axes, (key, what) in zip(made.subplots(1, len(PARTS)), PARTS.items(), strict=True):
        stages = target[key]["stages"][::-1]
        bars = axes.barh(
            [s["name"] for s in stages], [s["us"] / 1000 for s in stages], color="#4a7ebb"
        )
        axes.bar_label(bars, [f"{s['us'] / 1000:,.0f}" for s in stages], padding=3)
        axes.axvline(target[key]["limit_us"] / 1000, color="#c33")
        axes.margins(x=0.15)
        axes.set(xlabel="ms, simulated; the line is the limit", title=what)
    made.suptitle(f"{figures['model']} on {target['target']}, {figures['date']}")
    path = folder / f"llama3-{target['target']}.png"
    made.savefig(path)
    return path
