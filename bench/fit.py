"""Fits the clock's open parameters to the measured kernels; seeded, so that it can be repeated.

`python bench/fit.py [--left-out] [--write]`: searches the parameters of fit.toml
within their ranges, reports the errors, with `--left-out` also of rows and families that the
search did not see, and with `--write` puts the numbers into the target, configs.toml and fit.json.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.fidelity import CALIBRATION, judged, read_rows, timed
from bench.kernels import FOLDER, NotEmitted, Prepared, prepare, structures
from ge.dialects.diagnostics import GeError
from ge.dialects.npu import target as targets
from ge.runtime.stats import Stats

RESULT = FOLDER / "fit.json"
BENCH = "bench."
"""What begins the keys of configs.toml."""
SQUARE_FROM = 10.0
"""Percent at which an error weighs twice its size."""

Values = tuple[float, ...]
Errors = Mapping[str, float]


@dataclass(frozen=True)
class Parameter:
    """One number that is searched: where it stands, and between which bounds."""

    name: str
    keys: tuple[str, ...]
    low: float
    high: float
    digits: int
    why: str

    def rounded(self, value: float) -> float:
        """The value inside the range, with as many digits as are written down."""
        value = float(f"{min(max(value, self.low), self.high):.{self.digits}g}")
        return round(value) if self.whole else value

    @cached_property
    def whole(self) -> bool:
        """Whether it counts whole cycles."""
        return any("latency" in key for key in self.keys)


def tables() -> dict[str, Any]:
    """The content of fit.toml."""
    return tomllib.loads((FOLDER / "fit.toml").read_text("utf-8"))


def parameters() -> list[Parameter]:
    """What is searched."""
    found = []
    for row in tables()["searched"]:
        low, high = row["range"]
        found.append(
            Parameter(row["name"], tuple(row["keys"]), low, high, row["digits"], row["why"])
        )
    return found


def look_up(key: str) -> Any:
    """The number that a key names, as the files say it now."""
    if key.startswith(BENCH):
        at: Any = structures()
        key = key.removeprefix(BENCH)
    else:
        at = tomllib.loads((targets.FOLDER / f"{targets.DEFAULT}.toml").read_text("utf-8"))
    for word in key.split("."):
        at = at[word]
    return at


class Search:
    """The rows as programs, and their errors under parameters tried so far."""

    def __init__(self, rows: Sequence[Mapping[str, str]], searched: Sequence[Parameter]) -> None:
        self.searched = searched
        self.rows: dict[str, Prepared] = {}
        self.not_counted: dict[str, str] = {}
        for row in rows:
            try:
                prepared = prepare(row, structures())
            except (NotEmitted, GeError) as e:
                self.not_counted[row["id"]] = str(e).partition("\n")[0]
                continue
            if prepared.kernel.apart:
                self.not_counted[row["id"]] = prepared.kernel.apart
            else:
                self.rows[row["id"]] = prepared
        self._used = {name: _used(p) for name, p in self.rows.items()}
        self._stats: dict[tuple[str, Values], Stats] = {}
        self.tried: dict[Values, Errors] = {}

    def errors(self, values: Values) -> Errors:
        """By row: the error in percent."""
        if values not in self.tried:
            changes, table = self._tables(values)
            self.tried[values] = {n: self._error(n, values, changes, table) for n in self.rows}
        return self.tried[values]

    def _error(
        self, name: str, values: Values, changes: dict[str, Any], table: dict[str, Any]
    ) -> float:
        matter = tuple(
            v for v, p in zip(values, self.searched, strict=True) if self._matters(name, p)
        )
        prepared = self.rows[name]
        if (name, matter) not in self._stats:
            self._stats[name, matter] = timed(prepared, table, changes)
        error = judged(prepared, self._stats[name, matter], table).error
        assert error is not None
        return error

    def _matters(self, name: str, parameter: Parameter) -> bool:
        """Whether a row's cycles depend on a parameter; launching is added afterwards."""
        if "bench.conflict.same_address" in parameter.keys:
            return self.rows[name].kernel.conflict
        return any(key.rpartition(".")[0] in self._used[name] for key in parameter.keys)

    def _tables(self, values: Values) -> tuple[dict[str, Any], dict[str, Any]]:
        """What to lay over the target, and the table of structures."""
        changes: dict[str, Any] = {}
        table = structures()
        for parameter, value in zip(self.searched, values, strict=True):
            for key in parameter.keys:
                nested: Any = round(value) if parameter.whole else value
                for word in reversed(key.removeprefix(BENCH).split(".")):
                    nested = {word: nested}
                if key.startswith(BENCH):
                    table = targets.overlay(table, nested)
                elif not key.startswith("host."):
                    changes = targets.overlay(changes, nested)
        return changes, table


def _used(prepared: Prepared) -> set[str]:
    """The tables of the target that a program's cycles depend on."""
    machine = targets.load(prepared.chip)
    used: set[str] = set()
    for inst in prepared.program.code:
        if inst.instr.rate:
            used.add(f"rate.{inst.instr.rate}")
            used.update(f"limit.{name}" for name in machine.rates[inst.instr.rate].limits)
    return used


def loss(errors: Errors, left_out: Iterable[str] = ()) -> float:
    """What the search makes small: the mean error, large errors more than by their size."""
    seen = [abs(e) for name, e in errors.items() if name not in left_out]
    return mean(e + e * e / SQUARE_FROM for e in seen)


STEPS = (1 / 4, 1 / 8, 1 / 16, 1 / 32)
"""Parts of its range by which a parameter is moved, one size after the other."""


def descend(search: Search, order: Sequence[int], left_out: frozenset[str] = frozenset()) -> Values:
    """The best values on the way from the middle of all ranges, one parameter at a time.

    A parameter that no row depends on stays in the middle.
    """
    best = tuple(p.rounded((p.low + p.high) / 2) for p in search.searched)
    lowest = loss(search.errors(best), left_out)
    for step in STEPS:
        moved = True
        while moved:
            moved = False
            for place in order:
                for sign in (1, -1):
                    p = search.searched[place]
                    number = p.rounded(best[place] + sign * step * (p.high - p.low))
                    values = (*best[:place], number, *best[place + 1 :])
                    found = loss(search.errors(values), left_out)
                    if found < lowest:
                        best, lowest, moved = values, found, True
                        break
    return best


def left_out(
    search: Search, order: Sequence[int], groups: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """By row: its error under parameters that were fitted without its group."""
    found = {}
    for group, members in groups.items():
        values = descend(search, order, frozenset(members))
        for name in members:
            found[name] = search.errors(values)[name]
        print(
            f"  without {group}: " + ", ".join(f"{n} {found[n]:.1f} %" for n in members), flush=True
        )
    return found


def summary(errors: Iterable[float]) -> dict[str, float]:
    """Median, mean, largest, and the share within 10 %."""
    sizes = sorted(map(abs, errors))
    return {
        "median": round(median(sizes), 2),
        "mean": round(mean(sizes), 2),
        "largest": round(sizes[-1], 2),
        "within_10": round(100 * sum(e <= 10 for e in sizes) / len(sizes), 1),
    }


# Writing


def write(searched: Sequence[Parameter], values: Values) -> None:
    """Put the values into the files that their keys name."""
    for parameter, value in zip(searched, values, strict=True):
        for key in parameter.keys:
            inside = key.startswith(BENCH)
            path = FOLDER / "configs.toml" if inside else targets.FOLDER / f"{targets.DEFAULT}.toml"
            path.write_text(
                replaced(path.read_text("utf-8"), key.removeprefix(BENCH), _number(value)), "utf-8"
            )


def _number(value: float) -> str:
    if value >= 1e9:
        return re.sub(r"e\+?0*", "e", f"{value:e}".replace("000e", "e")).replace("0e", "e")
    return f"{value:g}"


def replaced(text: str, key: str, number: str) -> str:
    """TOML text with another number at `table.key`; what stands around it stays."""
    table, _, name = key.rpartition(".")
    lines, here = text.split("\n"), False
    shown = rf'"?{re.escape(name)}"?'
    for place, line in enumerate(lines):
        if line.startswith("["):
            here = line.startswith(f"[{table}]")
        elif here and (found := re.match(rf"({shown}\s*=\s*)(\S+)(\s*)(.*)", line)):
            room = len(found[2]) + len(found[3])
            lines[place] = f"{found[1]}{number:<{room}}{found[4]}".rstrip()
            return "\n".join(lines)
    raise KeyError(key)


def main() -> int:
    """Fit, and report; the exit status is 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--left-out", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", help="comma-separated ids")
    options = parser.parse_args()
    rows = read_rows(CALIBRATION)
    if options.only:
        rows = [r for r in rows if r["id"] in options.only.split(",")]
    searched, seed = parameters(), tables()["seed"]
    order = list(range(len(searched)))
    random.Random(seed).shuffle(order)
    search = Search(rows, searched)
    best = descend(search, order)
    errors = search.errors(best)
    document: dict[str, Any] = {
        "seed": seed,
        "parameters": {p.name: v for p, v in zip(searched, best, strict=True)},
        "rows": {n: round(e, 2) for n, e in errors.items()},
        "fitted": summary(errors.values()),
        "not_counted": search.not_counted,
    }
    print(f"{len(search.tried)} tried, loss {loss(errors):.3f}; {document['fitted']}", flush=True)
    for p, v in zip(searched, best, strict=True):
        edge = ", at its bound" if v in (p.low, p.high) else ""
        print(f"  {p.name:14} {v:<10g} of {p.low:g} to {p.high:g}{edge}")
    if options.left_out:
        for what, key in (("row", _row), ("family", _family)):
            alone = left_out(search, order, grouped(search.rows.values(), key))
            document[f"{what}_left_out"] = {n: round(e, 2) for n, e in alone.items()}
            document[f"each_{what}_left_out"] = found = summary(alone.values())
            print(f"each {what} left out: {found}", flush=True)
    if options.write:
        write(searched, best)
        RESULT.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return 0


def _row(prepared: Prepared) -> str:
    return prepared.row["id"]


def _family(prepared: Prepared) -> str:
    word = re.split(r"[ (]", prepared.row["kernel"])[0]
    return f"{word} of {prepared.launch}"


def grouped(rows: Iterable[Prepared], key: Callable[[Prepared], str]) -> dict[str, list[str]]:
    """The rows' ids by group."""
    groups: dict[str, list[str]] = {}
    for prepared in rows:
        groups.setdefault(key(prepared), []).append(prepared.row["id"])
    return groups


if __name__ == "__main__":
    sys.exit(main())
