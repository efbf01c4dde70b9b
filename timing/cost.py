"""What an instruction costs on a target: the formula that heads the target files."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from math import ceil
from typing import Any, NamedTuple

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


class Share(NamedTuple):
    """How an instruction uses a shared resource."""

    of_hbm: bool
    """Whether only bytes of device memory count."""
    rate: float
    """Bytes in a cycle, for all cores together."""
    place: int
    credit: int
    posted: bool
    peak: float
    """The rate of a burst; 0 if there is no limit to it."""
    peaking: int
    """Where the peak's account is."""


class Price(NamedTuple):
    """A rate of the target, with all that does not depend on how much work there is."""

    rate: Rate
    units: int
    shares: tuple[Share, ...]
    cached: bool
    """Whether it goes through the cache."""

    def busy(self, work: Work, miss: float) -> float:
        rate = self.rate
        rows = rate.issue + work.rows * _mix(rate.row, rate.row_miss, miss)
        moved = work.bytes / (rate.bytes_per_cycle * self.units) if rate.bytes_per_cycle else 0.0
        return rate.start + max(rows, moved, self.items(work))

    def items(self, work: Work) -> float:
        return -(-work.items // self.units) * self.rate.item

    def charged(self, work: Work, sharers: int) -> tuple[float, tuple[Charge, ...]]:
        """What it takes from the shared resources, and how long a core's share of that lasts.

        All is counted as if each of `sharers` cores took as much, the time at the burst rate.
        """
        at_peak, charges = 0.0, []
        for share in self.shares:
            taken = (work.hbm if share.of_hbm else work.bytes) * sharers
            if not taken:
                continue
            cycles = _up(taken / share.rate)
            charges.append(Charge(share.place, cycles, share.credit, share.posted))
            if share.peak:
                burst = taken / share.peak
                # Bursts of several units add up: that delays none, but the program's end.
                charges.append(Charge(share.peaking, _up(burst), 0, True))
                if not share.posted:
                    at_peak = max(at_peak, burst)
        return at_peak, tuple(charges)

    def tallies(self, row: Instr, work: Work) -> Iterator[tuple[Tally, int]]:
        stored = work.hbm if _writes_gm(row) else work.stored
        yield Tally.HBM_READ, work.hbm - stored
        yield Tally.HBM_WRITE, stored
        if self.cached:
            yield Tally.L2, work.bytes
        if row.unit in _WORKING:
            yield _WORKING[row.unit], _up(self.items(work))


class CostModel:
    """Prices work on one target."""

    def __init__(self, target: Target) -> None:
        self._target = target
        peaks = [name for name, limit in target.limits.items() if limit.peak_bytes_per_second]
        # A resource with a peak rate counts twice: on average, and as fast as it can go at all.
        self._peaking = {name: len(target.limits) + i for i, name in enumerate(peaks)}
        self.credits = (*(x.credit_cycles for x in target.limits.values()), *(0 for _ in peaks))
        """By resource: the cycles of work that it lets pass in a burst."""
        self._prices: dict[tuple[str, str], Price] = {}
        self._costs: dict[Any, Cost] = {}

    def of(self, inst: Inst, args: tuple[Value, ...], sharers: int) -> Cost:
        """The cost of an instruction with operands `args` while `sharers` cores use the memory.

        Addresses among `args` do not matter. Raises UnsupportedError where the target has no such
        instruction, and ValueError or what the row's work function raises where the operands make
        no sense.
        """
        key = (inst.instr, args, sharers)
        found = self._costs.get(key)
        if found is None:
            found = self._costs[key] = self._of(inst, args, sharers)
        return found

    def _of(self, inst: Inst, args: tuple[Value, ...], sharers: int) -> Cost:
        row = inst.instr
        named = dict(zip(row.operands, args, strict=True))
        dtype = str(named.get("dt"))
        price = self._prices.get((row.rate, dtype))
        if price is None:
            price = self._prices[row.rate, dtype] = self._price(self._target.rate(row.rate, dtype))
        rate = price.rate
        if rate.unsupported:
            raise UnsupportedError(
                f"'{self._target.name}' has no '{row.mnemonic}' for {dtype}", f"'{inst}'"
            )
        work = _work(row, named)
        miss = work.hbm / work.bytes if work.bytes else 0.0
        at_peak, charges = price.charged(work, sharers)
        return Cost(
            _up(max(price.busy(work, miss), at_peak)),
            rate.idle,
            _up(_mix(rate.latency, rate.latency_miss, miss)),
            charges,
            tuple([tally for tally in price.tallies(row, work) if tally[1]]),
        )

    def _price(self, rate: Rate) -> Price:
        units = self._target.vector_units if rate.per_vector_unit else 1
        shares = tuple(self._share(name, rate) for name in rate.limits)
        return Price(rate, units, shares, any(name != HBM for name in rate.limits))

    def _share(self, name: str, rate: Rate) -> Share:
        target = self._target
        limit = target.limits[name]
        return Share(
            of_hbm=name == HBM,
            rate=target.bytes_per_cycle(name),
            place=list(target.limits).index(name),
            credit=limit.credit_cycles,
            # Only device memory takes bytes later: the cache in front of it does not.
            posted=rate.posted and name == HBM,
            peak=target.per_cycle(limit.peak_bytes_per_second or 0.0),
            peaking=self._peaking.get(name, -1),
        )


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


@cache
def _writes_gm(row: Instr) -> bool:
    """Whether it writes device memory: the first operand of every instruction is its target."""
    first = next(iter(row.operands.values()))
    return isinstance(first, AtKind) and first.space is Space.GM
