"""What an instruction costs on a target: the formula that heads the target files."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from math import ceil
from typing import NamedTuple

from ge.dialects.diagnostics import UnsupportedError
from ge.dialects.npu.instr import Inst, Instr, Work
from ge.dialects.npu.operands import AtKind, Value
from ge.dialects.npu.places import Space, Unit
from ge.dialects.npu.target import Rate, Target

HBM = "hbm"
"""The shared resource that carries `Work.hbm` bytes; the others carry all bytes moved."""

ROUNDING = 1e-6
"""Keeps 348.0000000001 cycles from counting as 349."""


class Tally(IntEnum):
    """What is counted of a kernel beside the busy cycles of its units."""

    HBM_READ = 0
    HBM_WRITE = 1
    L2 = 2
    """Bytes that cores and cache exchange."""
    MATRIX = 3
    """Cycles of the matrix unit without what starting costs."""
    VECTOR = 4
    """The same of the vector unit."""


_WORKING: dict[Unit | str, Tally] = {Unit.M: Tally.MATRIX, Unit.V: Tally.VECTOR}


class Charge(NamedTuple):
    """What an instruction takes from a shared resource."""

    limit: int
    cycles: int
    credit: int
    posted: bool


class Cost(NamedTuple):
    """Cycles of one instruction, and what it takes from the shared resources."""

    busy: int
    idle: int
    latency: int
    charges: tuple[Charge, ...]
    tallies: tuple[tuple[Tally, int], ...]
    """What it adds to a kernel's figures, as far as that is not 0."""


class CostModel:
    """Prices work on one target."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._rates = {name: target.bytes_per_cycle(name) for name in target.limits}
        self._peaks = {
            name: target.per_cycle(limit.peak_bytes_per_second)
            for name, limit in target.limits.items()
            if limit.peak_bytes_per_second
        }
        # A resource with a peak rate counts twice: on average, and as fast as it can go at all.
        self._sustained = {name: place for place, name in enumerate(target.limits)}
        self._peaking = {name: len(target.limits) + i for i, name in enumerate(self._peaks)}
        self.credits = (
            *(x.credit_cycles for x in target.limits.values()),
            *(0 for _ in self._peaks),
        )
        """By resource: the cycles of work that it lets pass in a burst."""

    def of(self, inst: Inst, args: tuple[Value, ...], sharers: int) -> Cost:
        """The cost of an instruction with operands `args` while `sharers` cores use the memory.

        Raises UnsupportedError where the target has no such instruction, and ValueError or what
        the row's work function raises where the operands make no sense.
        """
        row = inst.instr
        named = dict(zip(row.operands, args, strict=True))
        dtype = named.get("dt")
        rate = self._target.rate(row.rate, str(dtype))
        if rate.unsupported:
            raise UnsupportedError(
                f"'{self._target.name}' has no '{row.mnemonic}' for {dtype}", f"'{inst}'"
            )
        work = _work(row, named)
        miss = work.hbm / work.bytes if work.bytes else 0.0
        return Cost(
            busy=_up(max(self._busy(rate, work, miss), self._at_peak(rate, work, sharers))),
            idle=rate.idle,
            latency=_up(_mix(rate.latency, rate.latency_miss, miss)),
            charges=tuple(self._charges(rate, work, sharers)),
            tallies=tuple((k, n) for k, n in self._tallies(row, rate, work) if n),
        )

    def _tallies(self, row: Instr, rate: Rate, work: Work) -> Iterator[tuple[Tally, int]]:
        stored = work.hbm if _writes_gm(row) else work.stored
        yield Tally.HBM_READ, work.hbm - stored
        yield Tally.HBM_WRITE, stored
        if any(name != HBM for name in rate.limits):
            yield Tally.L2, work.bytes
        if row.unit in _WORKING:
            yield _WORKING[row.unit], _up(self._items(rate, work))

    def _busy(self, rate: Rate, work: Work, miss: float) -> float:
        units = self._target.vector_units if rate.per_vector_unit else 1
        rows = rate.issue + work.rows * _mix(rate.row, rate.row_miss, miss)
        moved = work.bytes / (rate.bytes_per_cycle * units) if rate.bytes_per_cycle else 0.0
        return rate.start + max(rows, moved, self._items(rate, work))

    def _items(self, rate: Rate, work: Work) -> float:
        units = self._target.vector_units if rate.per_vector_unit else 1
        return -(-work.items // units) * rate.item

    def _at_peak(self, rate: Rate, work: Work, sharers: int) -> float:
        """Cycles that a resource needs for a core's share even in a burst."""
        waited = (n for n in rate.limits if n in self._peaks and not _posted(n, rate))
        return max((_taken(n, work) * sharers / self._peaks[n] for n in waited), default=0.0)

    def _charges(self, rate: Rate, work: Work, sharers: int) -> list[Charge]:
        charges = []
        for name in rate.limits:
            if not (taken := _taken(name, work) * sharers):
                continue
            cycles = _up(taken / self._rates[name])
            place = self._sustained[name]
            charges.append(Charge(place, cycles, self.credits[place], _posted(name, rate)))
            if name in self._peaks:
                # Bursts of several units add up: that delays none of them, but the program's end.
                cycles = _up(taken / self._peaks[name])
                charges.append(Charge(self._peaking[name], cycles, 0, True))
        return charges


def _taken(limit: str, work: Work) -> int:
    return work.hbm if limit == HBM else work.bytes


def _posted(limit: str, rate: Rate) -> bool:
    """Only device memory takes bytes later: the cache in front of it does not."""
    return rate.posted and limit == HBM


def _mix(hit: float, miss: float | None, share: float) -> float:
    return hit if miss is None else hit + (miss - hit) * share


def _up(cycles: float) -> int:
    return ceil(cycles - ROUNDING)


def _work(row: Instr, named: dict[str, Value]) -> Work:
    assert row.work is not None
    work = row.work(**named)
    if min(work) < 0:
        raise ValueError("sizes must be 0 or more")
    return work


def _writes_gm(row: Instr) -> bool:
    """Whether it writes device memory: the first operand of every instruction is its target."""
    first = next(iter(row.operands.values()))
    return isinstance(first, AtKind) and first.space is Space.GM
