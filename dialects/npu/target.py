"""A machine: sizes, widths and costs, read from TOML. The only place such numbers live."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from ge.dialects.diagnostics import InputError, did_you_mean
from ge.dialects.npu.isa import INSTRS
from ge.dialects.npu.places import SPACES, Space

FOLDER = Path(__file__).parent / "targets"
DEFAULT = "ascend910b1"
DIGEST_CHARS = 12
_PINNED = re.compile(rf"(.+\.toml)@([0-9a-f]{{{DIGEST_CHARS}}})", re.DOTALL).fullmatch
CACHE_KEPT = 0.75
"""The part of the second-level cache that is not taken by what passes through."""


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

    @property
    def cache_room(self) -> int:
        """Bytes that a tensor may count on in the second-level cache while others pass through."""
        return int(self.l2_bytes * CACHE_KEPT)

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


def load(name: str = DEFAULT) -> Target:
    """The machine called `name`, or described by the TOML file `name`.

    Raises InputError that names the key at fault.
    """
    return _load(pinned(name))


def is_file(name: str) -> bool:
    """Whether a machine's name is that of a file."""
    return name.endswith(".toml") or _PINNED(name) is not None


def pinned(name: str) -> str:
    """The name; that of a file with a digest of what it says, so that it is of one machine only."""
    return f"{name}@{_digest(_read(Path(name), frozenset()))}" if name.endswith(".toml") else name


def varied(name: str, changes: Mapping[str, Any]) -> Target:
    """The machine `name` with the tables of `changes` laid over its own, as a file would."""
    return _build(overlay(_tables(pinned(name)), dict(changes)), f"{name}, varied")


@cache
def _load(name: str) -> Target:
    return _build(_tables(name), name.rpartition("@")[0] or name)


@cache
def _tables(name: str) -> dict[str, Any]:
    if (file := _PINNED(name)) is None:
        return _read(_path(name), frozenset())
    tables = _read(Path(file[1]), frozenset())
    if _digest(tables) != file[2]:
        what = "must say what it said when the program was compiled for it; compile it again"
        raise InputError(what, file[1])
    return tables


def _digest(tables: Mapping[str, Any]) -> str:
    return sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()[:DIGEST_CHARS]


def _path(name: str) -> Path:
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

_WORDS: dict[type, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a string",
    dict: "a table",
    tuple: "a list of strings",
}
BLOCK = 32
"""Bytes that every memory is a multiple of."""
_BOUNDS: dict[str, tuple[float, float, str]] = {
    "cores": (1, 4096, ""),
    "clock_mhz": (1, 100_000, " MHz"),
    "vector_units": (1, 64, ""),
    "queue_depth": (1, 65_536, ""),
    **dict.fromkeys(SPACES, (BLOCK, 1 << 30, " bytes")),
    "gm": (BLOCK, 1 << 48, " bytes"),
    "l2": (BLOCK, 1 << 40, " bytes"),
    "launch_us": (0, 1e6, " microseconds"),
    "host_dispatch_us": (0, 1e6, " microseconds"),
    "bytes_per_second": (1e9, 1e16, " bytes a second"),
    "peak_bytes_per_second": (1e9, 1e16, " bytes a second"),
    "bytes_per_cycle": (0, 1e6, " bytes"),
}
"""What a number can be at all; a wrong unit is nearly always outside."""
_USUAL = (0, 1e7, " cycles")


def _needed(row: type[Rate | Limit]) -> list[str]:
    return [f.name for f in fields(row) if f.default is MISSING]


def _table(
    where: str, table: Any, known: Mapping[str, type], needed: Iterable[str] | None = None
) -> dict[str, Any]:
    """The values of one TOML table: names known, none missing, types right, sizes possible.

    All that are known are needed if nothing else is said.
    """
    if not isinstance(table, dict):
        raise InputError(f"must be a table, got {table!r}", where)
    for key in table:
        if key not in known:
            raise InputError(f"unknown key '{key}'{did_you_mean(key, known)}", where)
    if missing := [k for k in (known if needed is None else needed) if k not in table]:
        raise InputError(f"key '{missing[0]}' is missing", where)
    return {key: _value(where, key, value, known[key]) for key, value in table.items()}


def _value(where: str, key: str, value: Any, kind: type) -> Any:
    where = f"{where}.{key}"
    if kind is tuple and isinstance(value, list) and all(isinstance(v, str) for v in value):
        return tuple(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in (float, int) and number and (kind is float or value == value // 1):
        low, high, unit = _BOUNDS.get(key, _USUAL)
        if not low <= value <= high:
            raise InputError(f"must be {low:g} to {high:g}{unit}, got {value}", where)
        return kind(value)
    if kind in (str, bool, dict) and isinstance(value, kind):
        return value
    raise InputError(f"must be {_WORDS[kind]}, got {value!r}", where)


def _build(tables: dict[str, Any], origin: str) -> Target:
    top = _table(origin, tables, _TOP)
    chip = _table(f"{origin}: chip", top["chip"], _CHIP)
    memory = _table(f"{origin}: memory", top["memory"], _MEMORY)
    for key, size in memory.items():
        if size % BLOCK:
            raise InputError(
                f"must be a multiple of {BLOCK} bytes, got {size}", f"{origin}: memory.{key}"
            )
    rates = {
        key: Rate(**_table(f"{origin}: rate.{key}", table, _RATE, _needed(Rate)))
        for key, table in top["rate"].items()
    }
    _check_names(top["limit"], rates, origin)
    limits = {
        key: Limit(**_table(f"{origin}: limit.{key}", table, _LIMIT, _needed(Limit)))
        for key, table in top["limit"].items()
    }
    _check_peaks(limits, origin)
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


def _check_names(limits: Mapping[str, Any], rates: Mapping[str, Rate], origin: str) -> None:
    """Rates are those of instructions, limits those of rates."""
    known = {row.rate for row in INSTRS.values() if row.rate}
    if missing := sorted(known - rates.keys()):
        raise InputError(f"key '{missing[0]}' is missing", f"{origin}: rate")
    for key, rate in rates.items():
        if key.partition(".")[0] not in known:
            raise InputError(f"unknown key '{key}'{did_you_mean(key, known)}", f"{origin}: rate")
        for name in rate.limits:
            if name not in limits:
                raise InputError(
                    f"unknown limit '{name}'{did_you_mean(name, limits)}",
                    f"{origin}: rate.{key}.limits",
                )
    used = {name for rate in rates.values() for name in rate.limits}
    for key in limits:
        if key not in used:
            raise InputError(f"unknown key '{key}'{did_you_mean(key, used)}", f"{origin}: limit")


def _check_peaks(limits: Mapping[str, Limit], origin: str) -> None:
    for key, limit in limits.items():
        if 0 < limit.peak_bytes_per_second < limit.bytes_per_second:
            raise InputError(
                f"must be at most the peak of {limit.peak_bytes_per_second:g}, "
                f"got {limit.bytes_per_second:g}",
                f"{origin}: limit.{key}.bytes_per_second",
            )
