"""`insert-sync`: the flags that order the units of a kernel, fewest that are enough.

A buffer's uses are lifted to the children of the loop it belongs to. A child that writes raises a
flag for one that reads later (forward); one that reads raises a flag for the child that will write
the same copy again, as many iterations later as there are copies (backward), or as it takes a loop
over the parts of a tile to come back to one. Sets and waits are
siblings in one body, so they match in every remainder and every stage. Backward flags are raised
once before the kernel and taken back once after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ge.dialects.diagnostics import DoesNotFit
from ge.dialects.npu.isa.sync import FLAGS
from ge.dialects.npu.places import UNITS, Unit
from ge.dialects.npu.tree import BufferOp, ForOp, KernelOp, SetOp, WaitOp
from ge.lowering.accesses import Access, accesses, unit_of
from ge.lowering.programs import kernels_of
from ge.lowering.scopes import Scope, root, scopes, stage_of

Pair = tuple[Unit, Unit]
Node = tuple[int, Unit]
Edge = tuple[Node, Node, int]


@dataclass(frozen=True)
class Flag:
    """Child `first` raises it in queue `source`; child `then` waits for it in queue `target`."""

    first: int
    source: Unit
    then: int
    target: Unit
    distance: int
    """Iterations from the set to its wait."""
    copies: int
    """Flags that the iterations use in turn."""
    buffer: BufferOp

    @property
    def pair(self) -> Pair:
        return self.source, self.target

    @property
    def ends(self) -> tuple[Node, Node]:
        return (self.first, self.source), (self.then, self.target)


class _Body:
    """The children of one loop, numbered, and the flags between them."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.children = [op for op in scope.block.ops if not isinstance(op, BufferOp)]
        self.number = {op: i for i, op in enumerate(self.children)}
        self.flags: list[Flag] = []

    @property
    def repeats(self) -> bool:
        return self.scope.parent is not None

    def child(self, op: Operation) -> int | None:
        """The child that holds `op`, if it stands in this body."""
        at: Operation | None = op
        while at is not None and at not in self.number:
            at = at.parent_op()
        return None if at is None else self.number[at]


def _conflict(a: Iterable[Access], u: Unit, b: Iterable[Access], v: Unit) -> bool:
    """Whether a use of unit `u` among `a` must not overtake one of unit `v` among `b`."""
    mine, theirs = [x.writes for x in a if x.unit is u], [x.writes for x in b if x.unit is v]
    return bool(mine and theirs) and (any(mine) or any(theirs))


def _needed(
    body: _Body, bodies: dict[Operation, _Body], buffer: BufferOp, uses: list[Access], copies: int
) -> None:
    """Add the flags that the uses of one buffer need, in this body and in the loops below it."""
    items: dict[int, list[Access]] = defaultdict(list)
    for use in uses:
        if (i := body.child(use.op)) is not None:
            items[i].append(use)
    for i, a in items.items():
        for j, b in items.items():
            if i == j or (i > j and not body.repeats):
                continue
            distance = 0 if i < j else copies
            for u in dict.fromkeys(x.unit for x in a):
                for v in dict.fromkeys(x.unit for x in b):
                    if u is not v and _conflict(a, u, b, v):
                        body.flags.append(Flag(i, u, j, v, distance, copies, buffer))
        below = body.children[i]
        crowded = len({x.unit for x in a}) > 1 and any(x.writes for x in a)
        if isinstance(below, ForOp) and crowded:
            _needed(bodies[below], bodies, buffer, a, _apart(bodies[below].scope, buffer, copies))


def _apart(loop: Scope, buffer: BufferOp, copies: int) -> int:
    """Iterations of a loop from a use of the buffer to the next one of the same bytes, at least.

    The buffer belongs to a loop around it, whose iterations use its `copies` in turn.
    """
    if buffer.spread is not None:
        return loop.fewest
    flows = isinstance(loop.op, ForOp) and loop.op.flows is not None
    return 1 + (copies - 1) * loop.fewest if flows else 1


def _merged(body: _Body) -> list[Flag]:
    """Statements of one unit and stage that follow each other synchronise as one."""
    first, last = {}, {}

    def key(i: int) -> object:
        op = body.children[i]
        return (i,) if isinstance(op, ForOp) else (unit_of(op), stage_of(op))

    for _, run in groupby(range(len(body.children)), key):
        members = list(run)
        for i in members:
            first[i], last[i] = members[0], members[-1]
    tightest: dict[tuple[int, Unit, int, Unit], Flag] = {}
    for flag in body.flags:
        merged = replace(flag, first=last[flag.first], then=first[flag.then])
        place = (merged.first, merged.source, merged.then, merged.target)
        old = tightest.get(place)
        if old is None or (merged.distance, merged.copies) < (old.distance, old.copies):
            tightest[place] = merged
    return list(tightest.values())


def _order_edges(body: _Body) -> list[Edge]:
    """What the queues guarantee by themselves: each unit runs its work in program order."""
    by_unit: dict[Unit, list[int]] = defaultdict(list)
    for i, op in enumerate(body.children):
        for unit in _units_in(op):
            by_unit[unit].append(i)
    stage = [stage_of(op) for op in body.children]
    edges: list[Edge] = []
    for unit, members in by_unit.items():
        order = sorted(members, key=lambda i: (stage[i], i))
        for a, b in pairwise(order):
            edges.append(((a, unit), (b, unit), 0))
        if body.repeats:
            around = stage[order[-1]] - stage[order[0]] + 1
            edges.append(((order[-1], unit), (order[0], unit), around))
    return edges


def _units_in(op: Operation) -> list[Unit]:
    inside = op.walk() if isinstance(op, ForOp) else [op]
    return list(dict.fromkeys(u for o in inside if (u := unit_of(o)) is not None))


def _distance(edges: list[Edge], start: Node, end: Node, most: int) -> bool:
    """Whether a path of at most `most` iterations leads from `start` to `end`."""
    reached = {start: 0}
    changed = True
    while changed:
        changed = False
        for a, b, weight in edges:
            if a in reached and (d := reached[a] + weight) <= most and d < reached.get(b, most + 1):
                reached[b] = d
                changed = True
    return end in reached


def _reduced(body: _Body) -> list[Flag]:
    """The flags without those that others and the queues' order imply, longest first."""
    order = _order_edges(body)
    keep = _merged(body)
    longest = sorted(keep, key=lambda f: (-f.distance, -abs(f.then - f.first), f.buffer.label.data))
    for flag in longest:
        rest = [f for f in keep if f is not flag]
        edges = order + [(*f.ends, f.distance) for f in rest]
        if _distance(edges, *flag.ends, flag.distance):
            keep = rest
    return keep


def _plan(kernel: KernelOp, cores: int, overlap: bool) -> list[tuple[_Body, list[Flag]]]:
    all_scopes = list(scopes(root(kernel)))
    bodies: dict[Operation, _Body] = {scope.op: _Body(scope) for scope in all_scopes}
    for buffer, uses in accesses(kernel).items():
        if len({u.unit for u in uses}) > 1:
            home = buffer.parent_op()
            assert isinstance(home, KernelOp | ForOp)
            _needed(bodies[home], bodies, buffer, uses, buffer.copy_count)
    for body in bodies.values():
        for first, then in [*_orders(body), *([] if overlap else [(Unit.V, Unit.M)])]:
            _take_turns(body, first, then)
    for body in bodies.values():
        # What no later run of the body waits for needs no flag.
        runs = body.scope.runs(cores)
        body.flags = [flag for flag in body.flags if flag.distance < runs]
    return [(body, _reduced(body)) for body in bodies.values()]


def _take_turns(body: _Body, first: Unit, then: Unit) -> None:
    """Let the next iteration's work of one unit wait for this one's work of another.

    What runs stages behind is waited for as many iterations later.
    """
    runs = {
        unit: [i for i, op in enumerate(body.children) if unit in _units_in(op)]
        for unit in (first, then)
    }
    if not (runs[first] and runs[then]):
        return
    any_buffer = next((op for op in body.scope.block.ops if isinstance(op, BufferOp)), None)
    last, start = runs[first][-1], runs[then][0]
    if any_buffer and body.repeats and start < last:
        behind = max(0, stage_of(body.children[last]) - stage_of(body.children[start]))
        body.flags.append(Flag(last, first, start, then, 1 + behind, 1 + behind, any_buffer))


def insert(kernel: KernelOp, cores: int, overlap: bool = True) -> None:
    """Add the flags of one kernel; a buffer gives up a copy where a pair has too few flags."""
    while True:
        plan = _plan(kernel, cores, overlap)
        need: dict[Pair, int] = defaultdict(int)
        for _, flags in plan:
            for flag in flags:
                need[flag.pair] += flag.copies
        over = [pair for pair, n in need.items() if n > FLAGS]
        if not over:
            break
        _give_up_copy(kernel, over[0], [f for _, flags in plan for f in flags])
    next_flag: dict[Pair, int] = defaultdict(int)
    for body, flags in plan:
        for flag in flags:
            base = next_flag[flag.pair]
            next_flag[flag.pair] += flag.copies
            _place(body, flag, base, kernel)


def _give_up_copy(kernel: KernelOp, pair: Pair, flags: list[Flag]) -> None:
    users = [f for f in flags if f.pair == pair and f.copies > 1 and f.buffer.copy_count > 1]
    if not users:
        raise DoesNotFit(
            f"kernel '{kernel.sym_name.data}' must order {pair[0]} and {pair[1]} with {FLAGS} flags"
        )
    costly = max(users, key=lambda f: (f.copies, f.buffer.label.data))
    costly.buffer.properties["copies"] = IntegerAttr(costly.buffer.copy_count - 1, i64)


def _place(body: _Body, flag: Flag, base: int, kernel: KernelOp) -> None:
    first, then = body.children[flag.first], body.children[flag.then]
    block = body.scope.block
    block.insert_op_after(SetOp.of(*flag.pair, base, flag.copies, stage_of(first)), first)
    block.insert_op_before(WaitOp.of(*flag.pair, base, flag.copies, stage_of(then)), then)
    if flag.distance:
        top = kernel.body.block
        start = next(op for op in top.ops if not isinstance(op, BufferOp))
        for i in range(flag.copies):
            top.insert_op_before(SetOp.of(*flag.pair, base + i, 1), start)
            top.add_op(WaitOp.of(*flag.pair, base + i, 1))


def _orders(body: _Body) -> list[Pair]:
    """Units that have to wait for others from one iteration to the next."""
    loop = body.scope.op
    asked = loop.orders or () if isinstance(loop, ForOp) else ()
    pairs = (words.data.split() for words in asked)
    return [(UNITS[first], UNITS[then]) for first, then in pairs]


@dataclass(frozen=True)
class InsertSyncPass(ModulePass):
    """Order the units of each kernel by flags found by dependence analysis."""

    name = "insert-sync"
    overlap: bool = True
    """Without it the matrix and the vector work of a kernel take turns."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program, kernel in kernels_of(op):
            insert(kernel, program.cores.value.data, self.overlap)
