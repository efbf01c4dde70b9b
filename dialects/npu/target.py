"""A machine: sizes, widths and costs, read from TOML. The only place such numbers live."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from ge.dialects.diagnostics import InputError, did_you_mean
from ge.dialects.npu.places import SPACES, Space

FOLDER = Path(__file__).parent / "targets"
DEFAULT = "ascend910b1"


@dataclass(frozen=True)
class Rate:
    """What one kind of instruction costs, in cycles (the formula stands in the target files)."""

    start: float = 0.0
    issue: float = 0.0
    row: float = 0.0
    row_miss: float | None = None
    bytes_per_cycle: float = 0.0
    item: float = 0.0
    idle: int = 0
    latency: int = 0
    latency_miss: int | None = None
    per_vector_unit: bool = False
    posted: bool = False
    unsupported: bool = False
    limits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limit:
    """A shared resource: its sustained rate, and the burst it lets pass at its peak rate."""

    bytes_per_second: float
    credit_cycles: int
    peak_bytes_per_second: float = 0.0
    """0: a burst is as fast as the paths that carry it."""


@dataclass(frozen=True)
class Target:
    """One machine."""

    name: str
    description: str
    calibrated: bool
    cores: int
    clock_mhz: int
    vector_units: int
    split: bool
    queue_depth: int
    shared_mte2: bool
    bytes_of: Mapping[Space, int]
    """Bytes of each memory of one core (`ub`: all its vector units) and of device memory."""
    l2_bytes: int
    launch_us: float
    host_dispatch_us: float
    issue: int
    call: int
    flag: int
    cross_core: int
    limits: Mapping[str, Limit]
    rates: Mapping[str, Rate]

    def rate(self, name: str, dtype: str) -> Rate:
        """The rate of an instruction for an element type; a row of its own for the type wins."""
        return self.rates.get(f"{name}.{dtype}") or self.rates[name]

    def bytes_per_cycle(self, limit: str) -> float:
        """What a shared resource delivers to the whole chip in a cycle."""
        return self.per_cycle(self.limits[limit].bytes_per_second)

    def per_cycle(self, per_second: float) -> float:
        """What so much a second is in a cycle."""
        return per_second / (self.clock_mhz * 1e6)


def names() -> list[str]:
    """The machines that come with the project."""
    return sorted(p.stem for p in FOLDER.glob("*.toml"))


@cache
def load(name: str = DEFAULT) -> Target:
    """The machine called `name`, or described by the TOML file `name`.

    Raises InputError that names the key at fault.
    """
    return _build(_tables(name), name)


def varied(name: str, changes: Mapping[str, Any]) -> Target:
    """The machine `name` with the tables of `changes` laid over its own, as a file would."""
    return _build(overlay(_tables(name), dict(changes)), f"{name}, varied")


@cache
def _tables(name: str) -> dict[str, Any]:
    return _read(_path(name), frozenset())


def _path(name: str) -> Path:
    if name.endswith(".toml"):
        return Path(name)
    if name not in names():
        known = ", ".join(names())
        raise InputError(
            f"unknown target '{name}'{did_you_mean(name, names())}; known: {known}, or a .toml file"
        )
    return FOLDER / f"{name}.toml"


def _read(path: Path, seen: frozenset[Path]) -> dict[str, Any]:
    """The file's tables, laid over those of the target it inherits from."""
    if path in seen:
        raise InputError("a target must not inherit from itself", str(path))
    try:
        own = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise InputError(f"must be a readable TOML file, got {e}", str(path)) from e
    base = own.pop("inherits", None)
    if base is None:
        return own
    if not isinstance(base, str):
        raise InputError(f"'inherits' must be the name of a target, got {base!r}", str(path))
    below = path.parent / base if base.endswith(".toml") else _path(base)
    return overlay(_read(below, seen | {path}), own)


def overlay(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """One tree of tables laid over another."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            value = overlay(old, value)
        merged[key] = value
    return merged


_CHIP = {
    "cores": int,
    "clock_mhz": int,
    "vector_units": int,
    "split": bool,
    "queue_depth": int,
    "shared_mte2": bool,
}
_MEMORY = {**dict.fromkeys(SPACES, int), "l2": int}
_HOST = {"launch_us": float, "host_dispatch_us": float}
_SYNC = {"issue": int, "call": int, "flag": int, "cross_core": int}
_TOP = {
    "name": str,
    "description": str,
    "calibrated": bool,
    "chip": dict,
    "memory": dict,
    "host": dict,
    "sync": dict,
    "limit": dict,
    "rate": dict,
}
_KINDS: dict[str, type] = {"bool": bool, "tuple[str, ...]": tuple, "int": int, "int | None": int}
_RATE = {f.name: _KINDS.get(str(f.type), float) for f in fields(Rate)}
_LIMIT = {f.name: _KINDS.get(str(f.type), float) for f in fields(Limit)}


def _needed(row: type[Rate | Limit]) -> list[str]:
    return [f.name for f in fields(row) if f.default is MISSING]


def _table(
    where: str, table: Any, known: Mapping[str, type], needed: Iterable[str] | None = None
) -> dict[str, Any]:
    """The values of one TOML table: names known, none missing, types right, none negative.

    All that are known are needed if nothing else is said.
    """
    if not isinstance(table, dict):
        raise InputError("must be a table", where)
    for key in table:
        if key not in known:
            raise InputError(f"unknown key '{key}'{did_you_mean(key, known)}", where)
    if missing := [k for k in (known if needed is None else needed) if k not in table]:
        raise InputError(f"key '{missing[0]}' is missing", where)
    return {key: _value(f"{where}.{key}", value, known[key]) for key, value in table.items()}


def _value(where: str, value: Any, kind: type) -> Any:
    if kind is tuple and isinstance(value, list):
        return tuple(value)
    if kind in (float, int) and isinstance(value, int | float) and not isinstance(value, bool):
        if value < 0 or (kind is int and value != int(value)):
            raise InputError(
                f"must be a{' whole' if kind is int else ''} number of 0 or more, got {value}",
                where,
            )
        return kind(value)
    if kind in (str, bool, dict) and isinstance(value, kind):
        return value
    raise InputError(f"must be of type {kind.__name__}, got {value!r}", where)


def _build(tables: dict[str, Any], origin: str) -> Target:
    top = _table(origin, tables, _TOP)
    chip = _table(f"{origin}: chip", top["chip"], _CHIP)
    memory = _table(f"{origin}: memory", top["memory"], _MEMORY)
    for key in ("cores", "clock_mhz", "vector_units", "queue_depth"):
        if not chip[key]:
            raise InputError(f"must be at least 1, got {chip[key]}", f"{origin}: chip.{key}")
    for key, size in memory.items():
        if not size or size % 32:
            raise InputError(
                f"must be a positive multiple of 32 bytes, got {size}", f"{origin}: memory.{key}"
            )
    limits = {
        key: Limit(**_table(f"{origin}: limit.{key}", table, _LIMIT, _needed(Limit)))
        for key, table in top["limit"].items()
    }
    rates = {
        key: Rate(**_table(f"{origin}: rate.{key}", table, _RATE, _needed(Rate)))
        for key, table in top["rate"].items()
    }
    for key, rate in rates.items():
        if unknown := set(rate.limits) - set(limits):
            raise InputError(f"unknown limit '{min(unknown)}'", f"{origin}: rate.{key}.limits")
    bytes_of = {space: memory[word] for word, space in SPACES.items()}
    bytes_of[Space.UB] *= chip["vector_units"]
    return Target(
        name=top["name"],
        description=top["description"],
        calibrated=top["calibrated"],
        bytes_of=bytes_of,
        l2_bytes=memory["l2"],
        limits=limits,
        rates=rates,
        **chip,
        **_table(f"{origin}: host", top["host"], _HOST),
        **_table(f"{origin}: sync", top["sync"], _SYNC),
    )
