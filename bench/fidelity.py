"""Measured kernels beside what the clock says of the kernels that the compiler emits for them.

`python bench/fidelity.py [--csv FILE] [--json OUT] [--plot OUT.png] [--no-skip] [--check-skip]`:
a row a measured kernel; the compiler's own kernel for its shape, forced to the structure that was
measured, assembled, loaded and timed. Rows whose kernel the compiler does not emit are listed with
the reason. The exit status is 0 if the errors are within the bars.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.kernels import (
    FOLDER,
    NotEmitted,
    Prepared,
    Row,
    Table,
    check_columns,
    prepare,
    structures,
)
from ge.dialects.diagnostics import GeError, InputError
from ge.dialects.npu import target as targets
from ge.dialects.npu.target import Target
from ge.runtime.simulator import Simulator
from ge.runtime.stats import Stats

CALIBRATION = FOLDER / "calibration.csv"

BUSY = {
    "mac_us": ("m",),
    "vec_us": ("v",),
    "mte1_us": ("mte1",),
    "mte2_us": ("mte2", "mte2v"),
    "scalar_us": ("s",),
}
"""Columns of busy times, and the units of each: the vector cores' loads count as `mte2` there."""


@dataclass(frozen=True)
class Outcome:
    """One row: measured and predicted microseconds, or why there is no prediction."""

    id: str
    kernel: str
    measured: float
    predicted: float | None
    reason: str = ""
    busy: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """By unit: microseconds measured and predicted, on average over the cores."""

    @property
    def error(self) -> float | None:
        """Relative, in percent."""
        return None if self.predicted is None else 100 * (self.predicted / self.measured - 1)

    @property
    def counts(self) -> bool:
        """Whether the bars look at it."""
        return self.predicted is not None and not self.reason


@dataclass(frozen=True)
class Bar:
    """What has to hold of the errors of some rows, in percent."""

    what: str
    found: float
    most: float

    @property
    def holds(self) -> bool:
        return self.found <= self.most

    def __str__(self) -> str:
        verdict = "holds" if self.holds else f"missed by {self.found - self.most:.1f}"
        return f"{self.what}: {self.found:.1f} %, at most {self.most:g} % allowed, {verdict}"


def machine_of(prepared: Prepared, table: Table, changes: Mapping[str, Any]) -> Target:
    """The target of a row, varied as its structure and `changes` say."""
    kernel = prepared.kernel
    varied = targets.overlay(dict(changes), table["machine"][kernel.machine])
    machine = targets.varied(prepared.chip, varied)
    if not kernel.conflict:
        return machine
    factor = table["conflict"]["same_address"]
    rate, limit = machine.rates["gm_l1"], machine.limits["l2_read"]
    slower = {
        "rate": {
            "gm_l1": {
                "row": rate.row * factor,
                "row_miss": (rate.row_miss or 0.0) * factor,
                "bytes_per_cycle": rate.bytes_per_cycle / factor,
            }
        },
        "limit": {"l2_read": {"bytes_per_second": limit.bytes_per_second / factor}},
    }
    return targets.varied(prepared.chip, targets.overlay(varied, slower))


def timed(
    prepared: Prepared, table: Table, changes: Mapping[str, Any] | None = None, skip: bool = True
) -> Stats:
    """The figures of a row's program."""
    machine = machine_of(prepared, table, changes or {})
    return Simulator(prepared.program, machine).run(mode="timing", skip=skip).stats


def microseconds(prepared: Prepared, stats: Stats, table: Table) -> float:
    """The time of a row as its source counts it."""
    assert stats.us is not None
    return stats.us - stats.target.launch_us + float(table["launch_us"][prepared.launch])


def outcome(
    row: Row, table: Table, changes: Mapping[str, Any] | None = None, skip: bool = True
) -> Outcome:
    """What the clock says of a row."""
    measured = _measured(row, "total_us")
    if measured is None:
        return Outcome(row["id"], row["kernel"], math.nan, None, "total_us must be a time")
    try:
        prepared = prepare(row, table)
        stats = timed(prepared, table, changes, skip)
    except (NotEmitted, GeError) as e:
        return Outcome(row["id"], row["kernel"], measured, None, str(e).partition("\n")[0])
    return judged(prepared, stats, table)


def judged(prepared: Prepared, stats: Stats, table: Table) -> Outcome:
    """A row's figures beside the measured ones."""
    row = prepared.row
    cycles = stats.unit_busy or {}
    share = stats.program.cores * stats.target.clock_mhz
    busy = {
        units[0]: (us, sum(cycles.get(unit, 0) for unit in units) / share)
        for column, units in BUSY.items()
        if (us := _measured(row, column)) is not None
    }
    us = microseconds(prepared, stats, table)
    apart = f"does not count: {prepared.kernel.apart}" if prepared.kernel.apart else ""
    return Outcome(row["id"], row["kernel"], float(row["total_us"]), us, apart, busy)


def _measured(row: Row, column: str) -> float | None:
    try:
        us = float(row.get(column) or "")
    except ValueError:
        return None
    return us if math.isfinite(us) and us > 0 else None


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a table of measured kernels; raises InputError."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            check_columns(list(reader.fieldnames or ()), str(path))
            return [{k: v or "" for k, v in row.items() if k} for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise InputError(f"must be a readable table, got {e}", str(path)) from e


# Errors and bars


def share_above(errors: Sequence[float], most: float) -> float:
    """How many of the errors are larger, in percent."""
    return 100 * sum(e > most for e in errors) / len(errors)


def bars(outcomes: Sequence[Outcome]) -> list[Bar]:
    """What has to hold: rows that the clock was fitted to must be closer than others."""
    known = {row["id"] for row in read_rows(CALIBRATION)}
    found = []
    fitted = [abs(o.error) for o in outcomes if o.counts and o.id in known and o.error is not None]
    others = [
        abs(o.error) for o in outcomes if o.counts and o.id not in known and o.error is not None
    ]
    if fitted:
        found += [
            Bar("median of the fitted rows", median(fitted), 3),
            Bar("fitted rows off by more than 10 %", share_above(fitted, 10), 10),
            Bar("largest of the fitted rows", max(fitted), 12),
        ]
        found += _busy_bars([o for o in outcomes if o.counts and o.id in known])
    if others:
        found += [
            Bar("median of the other rows", median(others), 6),
            Bar("other rows off by more than 15 %", share_above(others, 15), 20),
        ]
    return found


def _busy_bars(outcomes: Sequence[Outcome]) -> list[Bar]:
    found = []
    matrix, vector = busy_errors(outcomes, "m"), busy_errors(outcomes, "v")
    if matrix:
        found.append(Bar("largest of busy times, m", max(matrix), 7))
    if vector:
        found.append(Bar("median of busy times, v", median(vector), 10))
    return found


def busy_errors(outcomes: Sequence[Outcome], unit: str) -> list[float]:
    """How far the busy times of a unit are off, in percent."""
    pairs = [o.busy[unit] for o in outcomes if unit in o.busy]
    return [abs(100 * (predicted / measured - 1)) for measured, predicted in pairs]


# Output


def report(outcomes: Sequence[Outcome]) -> str:
    """The table, the errors in all, and whether the bars hold."""
    units = [names[0] for names in BUSY.values()]
    titles = "".join(f"{unit:>8}" for unit in units)
    lines = [f"{'id':8}{'kernel':26}{'measured us':>12}{'clock us':>12}{'error %':>9}{titles}"]
    for o in outcomes:
        head = f"{o.id:8}{o.kernel[:25]:26}{o.measured:12.2f}"
        if o.predicted is None:
            lines.append(f"{head}  {o.reason}")
            continue
        shown = "".join(f"{_busy_error(o, unit):>8}" for unit in units)
        lines.append(f"{head}{o.predicted:12.2f}{o.error:9.1f}{shown}  {o.reason}".rstrip())
    errors = sorted(abs(o.error) for o in outcomes if o.counts and o.error is not None)
    if errors:
        lines.append(
            f"{len(errors)} of {len(outcomes)} rows count: median {median(errors):.1f} %, mean "
            f"{sum(errors) / len(errors):.1f} %, {100 - share_above(errors, 10):.0f} % within "
            f"10 %, largest {errors[-1]:.1f} %; units: error of the busy time in %"
        )
    return "\n".join([*lines, *map(str, bars(outcomes))])


def _busy_error(o: Outcome, unit: str) -> str:
    if unit not in o.busy:
        return ""
    measured, predicted = o.busy[unit]
    return f"{100 * (predicted / measured - 1):.0f}"


def document(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """All figures as JSON."""
    return {
        "rows": [_row_document(o) for o in outcomes],
        "bars": [{**vars(bar), "holds": bar.holds} for bar in bars(outcomes)],
    }


def _row_document(o: Outcome) -> dict[str, Any]:
    measured = o.measured if math.isfinite(o.measured) else None
    return {**vars(o), "measured": measured, "error": o.error, "counts": o.counts}


def main() -> int:
    """Print the table; the exit status says whether the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path, default=CALIBRATION)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="a scatter plot, .png")
    parser.add_argument("--only", help="comma-separated ids")
    parser.add_argument("--no-skip", action="store_true", help="run every instruction")
    parser.add_argument(
        "--check-skip", action="store_true", help="time rows both ways and compare all figures"
    )
    options = parser.parse_args()
    try:
        rows = read_rows(options.csv)
        if options.only:
            rows = [r for r in rows if r["id"] in options.only.split(",")]
        if options.check_skip:
            return _check_skip(rows)
        outcomes = [outcome(row, structures(), skip=not options.no_skip) for row in rows]
        print(report(outcomes))
        if options.json:
            options.json.write_text(json.dumps(document(outcomes), indent=1), "utf-8")
        if options.plot:
            from bench.plot import scatter

            scatter(outcomes, options.plot)
    except GeError as e:
        print(e, file=sys.stderr)
        return e.status
    found = bars(outcomes)
    return 0 if found and all(bar.holds for bar in found) else 1


def _check_skip(rows: Sequence[Row]) -> int:
    """Whether adding up what repeats gives the same figures as running it, row by row."""
    same = True
    for row in rows:
        try:
            prepared = prepare(row, structures())
        except (NotEmitted, GeError) as e:
            print(f"{row['id']:8}{str(e).partition(chr(10))[0]}")
            continue
        skipped = timed(prepared, structures())
        whole = timed(prepared, structures(), skip=False)
        same = same and skipped == whole
        verdict = "same" if skipped == whole else f"{whole.cycles:,} without skipping"
        print(
            f"{row['id']:8}{skipped.instructions:14,} instructions {skipped.cycles:16,} {verdict}"
        )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
