"""Runs commands and takes their time and memory; tables and JSON of what was measured."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]


class Usage(NamedTuple):
    """What a process took, and what it printed."""

    seconds: float
    processor_seconds: float
    peak_mb: float
    output: str


def run(*words: str | Path) -> Usage:
    """Run Python with `words` in a process of its own; raises if it fails."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src")))}
    command = [sys.executable, *map(str, words)]
    started = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    processor = usage.ru_utime + usage.ru_stime
    return Usage(seconds, processor, usage.ru_maxrss / 1024, output)


def module(name: str, *words: str | Path) -> Usage:
    """Run a module as a script."""
    return run("-m", name, *words)


def tool(name: str, *words: str | Path) -> Usage:
    """Run one of the tools."""
    where = f"ge.tools.{name.replace('-', '_')}"
    return run("-c", f"import sys; from {where} import main; sys.exit(main())", *words)


def write_models(folder: Path) -> None:
    """Write the example models."""
    module("examples.models", folder)


class Figure(NamedTuple):
    """Something measured, and the bar that it should be below or above, if there is one."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    at_least: bool = False

    @property
    def good(self) -> bool:
        if self.bar is None:
            return True
        return self.value >= self.bar if self.at_least else self.value <= self.bar

    def __str__(self) -> str:
        line = f"{self.name:<44}{shown(self.value):>12} {self.unit:<8}"
        if self.bar is None:
            return line.rstrip()
        sign, word = ">=" if self.at_least else "<=", "ok" if self.good else "MISSED"
        return f"{line}{sign} {shown(self.bar):<10}{word}"


def shown(value: float) -> str:
    """Three significant digits, thousands grouped."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def arguments(about: str, argv: Sequence[str] | None = None) -> Path | None:
    """The only option: a file for the figures."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--json", metavar="OUT", type=Path, help="write the figures to OUT")
    found: Path | None = parser.parse_args(argv).json
    return found


def report(figures: Iterator[Figure], out: Path | None) -> None:
    """Print figures as they come, and write them all when a file is named."""
    rows: list[dict[str, Any]] = []
    for figure in figures:
        print(figure, flush=True)
        rows.append({**figure._asdict(), "good": figure.good})
    write_json(rows, out)


def write_json(document: Any, out: Path | None) -> None:
    """Write a document where a file is named."""
    if out is not None:
        out.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
