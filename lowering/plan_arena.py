"""`plan-arena`: places in device memory for what kernels hand to each other."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.attributes import IntsAttr
from ge.dialects.npu.ops import ChooseOp, InvokeOp, ProgramOp, RepeatOp, TensorOp
from ge.dialects.npu.program import ALIGNMENT
from ge.lowering.in_place import reused
from ge.lowering.lives import Life, height, lower_bound
from ge.lowering.pack import FIRST_DETOURS, pack
from ge.lowering.programs import programs_of


class _Placed:
    """Lives that have a place; those that meet another are found without looking at all."""

    def __init__(self, moments: int) -> None:
        self.leaves = 1 << moments.bit_length()
        self.nodes: dict[int, list[int]] = defaultdict(list)
        """A tree over the moments: a life stands in the few nodes that make up its span."""
        self.starts: list[tuple[int, int]] = []

    def add(self, number: int, life: Life) -> None:
        insort(self.starts, (life.first, number))
        low, high = life.first + self.leaves, life.last + 1 + self.leaves
        while low < high:
            if low & 1:
                self.nodes[low].append(number)
                low += 1
            if high & 1:
                high -= 1
                self.nodes[high].append(number)
            low, high = low >> 1, high >> 1

    def meeting(self, life: Life) -> Iterator[int]:
        """Those alive when it begins, then those that begin while it is alive."""
        node = life.first + self.leaves
        while node:
            yield from self.nodes.get(node, ())
            node >>= 1
        begin = bisect_left(self.starts, (life.first + 1, 0))
        end = bisect_left(self.starts, (life.last + 1, 0))
        yield from (number for _, number in self.starts[begin:end])


def first_fit(lives: Sequence[Life], order: Sequence[int]) -> list[int]:
    """An address for each life, given out in `order`, each at the lowest place that is free."""
    places = [0] * len(lives)
    done = _Placed(max(x.last for x in lives) + 1)
    for i in order:
        taken = sorted((places[j], lives[j].bytes) for j in done.meeting(lives[i]))
        at = 0
        for start, size in taken:
            if at + lives[i].bytes <= start:
                break
            at = max(at, start + size)
        places[i] = at
        done.add(i, lives[i])
    return places


_ORDERS: tuple[Callable[[Life], tuple[int, ...]], ...] = (
    lambda x: (-x.bytes, x.first),
    lambda x: (x.first, -x.bytes),
    lambda x: (-(x.last - x.first), -x.bytes),
    lambda x: (-x.bytes * (x.last - x.first + 1), x.first),
)
"""Orders in which tensors are placed; the plan that needs least is kept."""


SEARCHED = 512
"""Most lives that a search is tried on: its steps may look at all that meet."""


def plan(lives: Sequence[Life]) -> list[int]:
    """Addresses under which no two lives that meet overlap: the best of several strategies."""
    bound = lower_bound(lives)
    places = by_order(lives, bound)
    if len(lives) > SEARCHED:
        return places
    for capacity in (bound, bound + bound // 100):
        if height(lives, places) <= capacity:
            break
        found = pack(lives, capacity, len(lives) + FIRST_DETOURS)
        if found is not None:
            return found
    return places


def by_order(lives: Sequence[Life], bound: int) -> list[int]:
    """First fit in several orders: the best, or the first that meets the bound."""
    best: tuple[int, list[int]] | None = None
    for key in _ORDERS:
        order = sorted(range(len(lives)), key=lambda i: (key(lives[i]), i))
        places = first_fit(lives, order)
        need = height(lives, places)
        if best is None or need < best[0]:
            best = (need, places)
        if need == bound:
            break
    assert best is not None
    return best[1]


Span = tuple[int, int]
"""Moments, the last one included."""


def lives_of(program: ProgramOp) -> dict[TensorOp, Life]:
    """When each intermediate is alive, counted in calls."""
    moments = _Moments()
    moments.pass_through(program.body.block)
    spans = moments.spans
    for loop in moments.loops:
        spans = {t: _kept(span, loop) for t, span in spans.items()}
    return {t: Life(a, b, _bytes(t)) for t, (a, b) in spans.items()}


def _kept(span: Span, loop: Span) -> Span:
    """What crosses an edge of a loop is alive in all of it: the next trip may need it again."""
    (first, last), (start, end) = span, loop
    if first < start <= last or start <= first <= end < last:
        return min(first, start), max(last, end)
    return span


class _Moments:
    """The first and the last moment that touch each intermediate; one branch after the other."""

    def __init__(self) -> None:
        self.spans: dict[TensorOp, Span] = {}
        self.loops: list[Span] = []
        """Those of loops, inner ones first."""
        self.moment = 0

    def pass_through(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, InvokeOp):
                self.touch(op.args)
            elif isinstance(op, ChooseOp):
                self.touch([op.condition])
                self.pass_through(op.then.block)
                self.pass_through(op.otherwise.block)
                # A core may still read it when another has begun what behind it is chosen.
                self.touch([op.condition])
            elif isinstance(op, RepeatOp):
                start = self.moment
                self.touch([op.condition] if op.condition else [])
                self.pass_through(op.body.block)
                self.loops.append((start, self.moment - 1))

    def touch(self, values: Sequence[SSAValue]) -> None:
        """One moment, at which something reads or writes tensors."""
        for value in values:
            tensor = value.owner
            if isinstance(tensor, TensorOp) and tensor.role.data == "temp":
                first, _ = self.spans.get(tensor, (self.moment, 0))
                self.spans[tensor] = (first, self.moment)
        self.moment += 1


def _bytes(tensor: TensorOp) -> int:
    type_ = tensor.result.type
    return -(-prod(type_.shape) * type_.dtype.bytes // ALIGNMENT) * ALIGNMENT


def joined(
    lives: dict[TensorOp, Life], pairs: Iterable[tuple[TensorOp, TensorOp]]
) -> tuple[list[Life], dict[TensorOp, int]]:
    """Lives in which a tensor goes on as another one, and the number of each tensor's."""
    found: list[Life] = []
    numbers: dict[TensorOp, int] = {}
    before = {new: old for old, new in pairs}
    for tensor, life in sorted(lives.items(), key=lambda item: item[1].first):
        if tensor not in before:
            numbers[tensor] = len(found)
            found.append(life)
            continue
        number = numbers[tensor] = numbers[before[tensor]]
        old = found[number]
        found[number] = Life(old.first, life.last, max(old.bytes, life.bytes))
    return found, numbers


@dataclass(frozen=True)
class PlanArenaPass(ModulePass):
    """Give each intermediate a place in one area, sharing bytes between those that never meet.

    What an elementwise kernel makes takes the place of an operand that nobody reads again.
    """

    name = "plan-arena"
    reuse: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in programs_of(op):
            tensors = lives_of(program)
            total = sum(x.bytes for x in tensors.values())
            lives, numbers = joined(tensors, reused(program, tensors) if self.reuse else ())
            if not lives:
                places = []
            elif self.reuse:
                places = plan(lives)
            else:
                places = list(accumulate((x.bytes for x in lives[:-1]), initial=0))
            for tensor, number in numbers.items():
                tensor.properties["address"] = IntegerAttr(places[number], i64)
            used = height(lives, places)
            program.properties["arena"] = IntsAttr((used, lower_bound(lives), total))
