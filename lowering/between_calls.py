"""What stands between two calls: a meeting of all cores, or flags where the second needs none.

A call that touches no bytes that the calls since the last meeting wrote, and writes none that they
touched, needs the others of its own core alone: their units must have left the memories of the chip
that the next ones fill. Both units of such a pair raise a flag for each other, so that every flag
is free again behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xdsl.ir import Operation, SSAValue

from ge.dialects.npu.isa.sync import FLAGS
from ge.dialects.npu.operands import Sym
from ge.dialects.npu.ops import INST_OPS, InvokeOp, TensorOp
from ge.dialects.npu.places import Unit
from ge.dialects.npu.tree import FlagOp, KernelOp

ROW = 16
"""Calls without a meeting, at most: more would be compared with each other than is worth it."""
LEAVE = (
    (Unit.MTE1, Unit.MTE2),
    (Unit.MTE1, Unit.MTE3),
    (Unit.M, Unit.MTE1),
    (Unit.FIX, Unit.M),
    (Unit.V, Unit.MTE2V),
    (Unit.V, Unit.FIX),
    (Unit.MTE3, Unit.MTE2V),
    (Unit.MTE3, Unit.FIX),
    (Unit.MTE3, Unit.V),
)
"""Units that read a memory of the chip, each with one that fills it."""

BOTH_WAYS = tuple(pair for leave in LEAVE for pair in (leave, leave[::-1]))
"""The same with the other direction of each: those of the flags, and of the answers."""

MEETING = (("sync.arrive",), ("sync.wait",))

Pair = tuple[Unit, Unit]
Flags = Mapping[Pair, int]


class Span(NamedTuple):
    """Bytes of an area of device memory."""

    area: str
    start: int
    end: int

    def meets(self, other: Span) -> bool:
        return self.area == other.area and self.start < other.end and other.start < self.end


def flags_of(kernel: KernelOp) -> Flags:
    """How many flags of each pair of units a kernel uses, counted from the first."""
    used: dict[Pair, int] = {}
    for op in kernel.body.walk():
        if isinstance(op, FlagOp):
            most = op.base.value.data + op.copies.value.data
            used[op.units] = max(used.get(op.units, 0), most)
    return used


class Between:
    """Decides, call by call, what stands in front of it."""

    def __init__(self, symbols: Mapping[TensorOp, Sym], used: Mapping[str, Flags]) -> None:
        """`used` are the flags of the kernels; cores meet around those that it does not know."""
        self.symbols = symbols
        self.used = used
        self.calls = 0
        self.last = ""
        self.read: list[Span] = []
        self.written: list[Span] = []

    def before(self, call: InvokeOp) -> tuple[list[Operation], list[Operation]]:
        """The operations in front of a call; between the two is what need not wait for others."""
        name = call.callee.root_reference.data
        read, written = self.spans(call)
        ids = _free(self.used.get(self.last), self.used.get(name))
        alone = not (_meet(read, self.written) or _meet(written, [*self.read, *self.written]))
        first: Sequence[tuple[Any, ...]] = ()
        then = first
        if ids and alone and 0 < self.calls < ROW:
            first = leaving(ids)
        elif self.calls or not alone:
            first, then = MEETING[:1], MEETING[1:]
            self.restart()
        self.calls += 1
        self.last = name
        self.read += read
        self.written += written
        return _operations(first), _operations(then)

    def restart(self, read: Sequence[Span] = ()) -> None:
        """All cores have met, but for what their scalar units have read since."""
        self.calls, self.read, self.written = 0, list(read), []

    def reads(self, value: SSAValue) -> None:
        """The scalar unit reads a tensor."""
        self.read.append(self.span(value))

    def span(self, value: SSAValue) -> Span:
        """The bytes of a tensor."""
        assert isinstance(value.owner, TensorOp)
        symbol = self.symbols[value.owner]
        return Span(symbol.name, symbol.addend, symbol.addend + value.owner.bytes)

    def spans(self, call: InvokeOp) -> tuple[list[Span], list[Span]]:
        """What a call reads, and what it writes: whole tensors."""
        found = [self.span(value) for value in call.args]
        return found[: call.written], found[call.written :]


def _operations(steps: Sequence[tuple[Any, ...]]) -> list[Operation]:
    return [INST_OPS[name].of(*args) for name, *args in steps]


def _meet(some: Sequence[Span], others: Sequence[Span]) -> bool:
    return any(a.meets(b) for a in some for b in others)


def _free(before: Flags | None, after: Flags | None) -> Flags | None:
    """A flag of each pair, and of its other direction, that neither kernel uses."""
    if before is None or after is None:
        return None
    found = {pair: max(before.get(pair, 0), after.get(pair, 0)) for pair in BOTH_WAYS}
    return found if max(found.values()) < FLAGS else None


def leaving(ids: Flags) -> list[tuple[Any, ...]]:
    """Instructions that raise flags of the units that leave, then answers; no queue blocks."""
    there = [(pair, ids[pair]) for pair in LEAVE]
    back = [((pair[1], pair[0]), ids[pair[1], pair[0]]) for pair in LEAVE]
    steps = [("set_flag", *pair, number) for pair, number in there]
    for (pair, number), (answer, other) in zip(there, back, strict=True):
        steps += [("wait_flag", *pair, number), ("set_flag", *answer, other)]
    return [*steps, *(("wait_flag", *pair, number) for pair, number in back)]
