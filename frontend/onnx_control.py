"""If, Loop and Scan: bodies written out as often as they run, choices made by selection.

What decides is known when compiling, or is a truth value that selects between results of one type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import BlockArgument, SSAValue

from ge.dialects.diagnostics import InputError
from ge.dialects.graph.base import tensor
from ge.dialects.graph.control import CONDITION
from ge.dialects.graph.ops.binary import AddOp, AndOp, LessOp, WhereOp
from ge.dialects.graph.ops.layout import ConcatOp, ReshapeOp, SliceOp, TransposeOp
from ge.frontend.onnx_bodies import Part, Trips, begin, choose, repeat
from ge.frontend.onnx_nodes import Builder, Node, Refused, Value
from ge.frontend.onnx_stages import Bounded

MOST_TRIPS = 4096
"""Trips of a loop that are written out at most."""
FEW_TRIPS = 16
"""Trips up to which a loop of known length is written out: known numbers then shorten it."""
ENDLESS = 1 << 31
"""Trip counts from here on stand for no limit."""


class Importer(Protocol):
    """What imports a model."""

    builder: Builder
    """That of the block to which operations are added now."""

    def body(
        self,
        graph: Any,
        inputs: Sequence[Value],
        opsets: dict[str, int],
        depth: int,
        source: str,
    ) -> list[Value]:
        """The results of a graph inside a node on these inputs."""
        ...

    def attempt(self) -> AbstractContextManager[None]:
        """Have everything be as it was if this ends with an error, the builder in any case."""
        ...


class Bodies:
    """The graphs inside one node."""

    def __init__(self, importer: Importer, place: tuple[dict[str, int], int, str]) -> None:
        self._importer = importer
        self._place = place

    @property
    def builder(self) -> Builder:
        return self._importer.builder

    def body(self, graph: Any, inputs: Sequence[Value]) -> list[Value]:
        """The results of a graph on these inputs."""
        return self._importer.body(graph, inputs, *self._place)

    @property
    def outermost(self) -> bool:
        """Whether the node stands in no other graph."""
        return self._place[1] == 1

    def attempt(self) -> AbstractContextManager[None]:
        """Have everything be as it was if this ends with an error."""
        return self._importer.attempt()

    def into(self, part: Part, graph: Any, inputs: Sequence[Value]) -> None:
        """Import a graph into a block of its own."""
        with self._importer.attempt():
            self._importer.builder = part.builder
            part.results = self.body(graph, inputs)


def _if(bodies: Bodies, node: Node) -> list[Value]:
    """The branch that a known condition takes, or both, of which one is run."""
    condition = node.needed(0)
    branches = [node.attrs[name] for name in ("then_branch", "else_branch")]
    if not isinstance(condition, SSAValue):
        return bodies.body(branches[0 if condition.reshape(-1)[0] else 1], [])
    g = bodies.builder
    then, other = (_branch(bodies, branch, condition) for branch in branches)
    types = [[g.type_of(v) for v in part.results] for part in (then, other)]
    if types[0] != types[1]:
        raise Refused("branches must give one type", "branches of equal shapes", condition)
    if then.is_quick() and other.is_quick():
        pairs = zip(then.join(g), other.join(g), strict=True)
        return [_chosen(g, condition, a, b) for a, b in pairs]
    return choose(g, condition, then, other)


def _branch(bodies: Bodies, graph: Any, condition: SSAValue) -> Part:
    """A branch; refuses one that these shapes rule out, for they may decide."""
    part = Part(bodies.builder.beside(), [])
    try:
        bodies.into(part, graph, [])
    except InputError as e:
        what = f"both branches must be possible with these shapes: {e.message}"
        raise Refused(what, "a known condition", condition) from None
    except Refused as e:
        nearest = e.nearest or "a known condition"
        raise Refused(e.reason, nearest, e.unknown or condition) from None
    return part


def _chosen(g: Builder, condition: Value, a: Value, b: Value) -> Value:
    flag = g.one(ReshapeOp, condition, shape=())
    return a if a is b else g.one(WhereOp, flag, a, b)


def _loop(bodies: Bodies, node: Node) -> list[Value]:
    """A loop on the device; a short one of known length, or one that has to change, written out."""
    most, alive = node.input(0), node.input(1)
    loop = _Loop(
        bodies,
        node,
        None if most is None or _is_endless(most) else most,
        np.asarray(True) if alive is None else alive,
        [node.needed(i) for i in range(2, len(node.inputs))],
    )
    if loop.is_short() or loop.is_known():
        return _written_out(loop)
    try:
        with bodies.attempt():
            return _on_device(loop)
    except (Refused, InputError) as e:
        if isinstance(most, SSAValue) or (loop.most is None and isinstance(alive, SSAValue)):
            raise e if isinstance(e, Refused) else Refused(e.message) from None
    return _written_out(loop)


def _is_endless(most: Value) -> bool:
    """Whether a trip count only says that the condition ends the loop."""
    return not isinstance(most, SSAValue) and int(most.reshape(-1)[0]) >= ENDLESS


@dataclass
class _Loop:
    """An ONNX loop: its trips at most, its first condition, and what it begins with."""

    bodies: Bodies
    node: Node
    most: Value | None
    alive: Value
    values: list[Value]

    @property
    def length(self) -> int | None:
        """The trips at most, where that is known."""
        known = self.most is not None and not isinstance(self.most, SSAValue)
        return int(self.most.reshape(-1)[0]) if known else None  # type: ignore[union-attr]

    def is_short(self) -> bool:
        """Whether it has few trips, and all of them."""
        few = self.length is not None and self.length <= FEW_TRIPS
        return few and not isinstance(self.alive, SSAValue)

    def is_known(self) -> bool:
        """Whether all that its first trip gives is known: then all of it may be."""
        begins = (self.alive, *self.values)
        if isinstance(self.most, SSAValue) or any(isinstance(v, SSAValue) for v in begins):
            return False
        part = Part(self.bodies.builder.beside(), [])
        first = [np.asarray(0, np.int64), *begins]
        try:
            self.bodies.into(part, self.node.attrs["body"], first)
        except (Refused, InputError):
            return False
        return not any(isinstance(v, SSAValue) for v in part.results)


def _on_device(loop: _Loop) -> list[Value]:
    """The loop as a body that is run again; raises Refused where it gives other types than it takes.

    A trip number that nothing reads, and a condition that always holds, are left out.
    """
    bodies, node, length = loop.bodies, loop.node, loop.length
    g = bodies.builder
    part = Part(g.beside(), [])
    block = part.block
    own = [block.insert_arg(g.type_of(v), i) for i, v in enumerate(loop.values)]
    trip = block.insert_arg(tensor((), i64), len(own))
    # Inside a trip the condition holds.
    bodies.into(part, node.attrs["body"], [trip, np.asarray(True), *own])
    on, *made = part.results
    new, rows = made[: len(own)], made[len(own) :]
    if [part.builder.type_of(v) for v in new] != [v.type for v in own]:
        raise Refused("what it carries must keep its type", "a known trip count", _unknown(loop))
    always = length is not None and not isinstance(on, SSAValue) and bool(on.reshape(-1)[0])
    if always and not isinstance(loop.alive, SSAValue):
        return _counted(loop, part, trip, new, rows)
    return _while(loop, part, trip, on, new, rows)


def _unknown(loop: _Loop) -> SSAValue | None:
    return loop.most if isinstance(loop.most, SSAValue) else None


def _counted(
    loop: _Loop, part: Part, trip: SSAValue, new: list[Value], rows: list[Value]
) -> list[Value]:
    """A loop of known length: the trip number is a place of all of them."""
    assert loop.length is not None
    numbers: list[Value] = [np.arange(loop.length)] if trip.first_use else []
    if not numbers:
        part.block.erase_arg(cast(BlockArgument, trip))
    part.results = [*new, *rows]
    turns = ((1,) * len(numbers), (1,) * len(rows))
    trips = Trips(loop.length, slices=numbers, turns=turns[0], row_turns=turns[1])
    return repeat(loop.bodies.builder, loop.values, trips, part)


def _while(
    loop: _Loop, part: Part, trip: SSAValue, on: Value, new: list[Value], rows: list[Value]
) -> list[Value]:
    """A loop that its condition ends: that is carried, and so is the trip number."""
    g, inner, length = loop.bodies.builder, part.builder, loop.length
    if rows and (length is None or not loop.bodies.outermost):
        what = "what a loop collects must have a known length"
        raise Refused(what, "a known trip count", _unknown(loop))
    behind = inner.one(AddOp, trip, np.asarray(1, np.int64))
    on, alive = inner.one(ReshapeOp, on, shape=()), g.one(ReshapeOp, loop.alive, shape=())
    if isinstance(loop.most, SSAValue):
        most = g.one(ReshapeOp, loop.most, shape=())
        on = inner.one(AndOp, on, inner.one(LessOp, behind, most))
        alive = g.one(AndOp, alive, g.one(LessOp, np.asarray(0, np.int64), most))
    part.block.insert_arg(CONDITION, 0)
    part.results = [on, *new, behind, *rows]
    carried = [alive, *loop.values, np.asarray(0, np.int64)]
    trips = Trips(length, conditional=True, row_turns=(1,) * len(rows))
    _, *made = repeat(g, carried, trips, part)
    values, count, wide = made[: len(new)], made[len(new)], made[len(new) + 1 :]
    if not rows:
        return values
    ends = [*(None for _ in values), *(0 for _ in wide)]
    raise Bounded([g.ssa(v) for v in (*values, *wide, count)], ends)


def _written_out(loop: _Loop) -> list[Value]:
    """Its trips one behind the other; after a false condition the values stay as they are."""
    bodies, most, alive, values = loop.bodies, loop.length, loop.alive, loop.values
    scanned: list[list[Value]] = [[] for _ in loop.node.used[len(values) :]]
    trip = 0
    while not _ended(alive) and (most is None or trip < most):
        if trip == MOST_TRIPS or (most is None and isinstance(alive, SSAValue)):
            raise Refused(f"must end after {MOST_TRIPS} trips at most", "a known trip count")
        at = np.asarray(trip, np.int64)
        on, *made = bodies.body(loop.node.attrs["body"], [at, alive, *values])
        new, parts = made[: len(values)], made[len(values) :]
        if isinstance(alive, SSAValue):
            if parts:
                what = "what a loop collects must not depend on its condition"
                raise Refused(what, "a known condition", alive)
            g = bodies.builder
            new = [_chosen(g, alive, a, b) for a, b in zip(new, values, strict=True)]
            on = g.one(AndOp, *(g.one(ReshapeOp, v, shape=()) for v in (alive, on)))
        for rows, part in zip(scanned, parts, strict=True):
            rows.append(part)
        alive, values, trip = on, new, trip + 1
    return [*values, *(_stacked(bodies.builder, rows, 0) for rows in scanned)]


def _ended(alive: Value) -> bool:
    return not isinstance(alive, SSAValue) and not bool(alive.reshape(-1)[0])


def _scan(bodies: Bodies, node: Node) -> list[Value]:
    """A body over the places of an axis of its inputs, each state handed to the next place."""
    if node.version < FIRST_SCAN:
        raise Refused("must be of version 9 or newer")
    g = bodies.builder
    count = node.attrs["num_scan_inputs"]
    scan = _Scan(
        bodies,
        node,
        states=[node.needed(i) for i in range(len(node.inputs) - count)],
        inputs=[node.needed(i) for i in range(len(node.inputs) - count, len(node.inputs))],
        axes=_each(node, "scan_input_axes", count),
        turns=[-1 if back else 1 for back in _each(node, "scan_input_directions", count)],
    )
    collected = len(node.used) - len(scan.states)
    turned = _each(node, "scan_output_directions", collected)
    along = _each(node, "scan_output_axes", collected)
    if scan.trips > FEW_TRIPS:
        try:
            with bodies.attempt():
                made = scan.on_device([-1 if back else 1 for back in turned])
                states, outs = made[: len(scan.states)], made[len(scan.states) :]
                pairs = zip(outs, along, strict=True)
                return [*states, *(_first_to(g, out, axis) for out, axis in pairs)]
        except (Refused, InputError):
            if scan.trips > MOST_TRIPS:
                raise Refused(f"must have {MOST_TRIPS} places at most, got {scan.trips}") from None
    states, rows = scan.written_out()
    rows = [row[::-1] if back else row for row, back in zip(rows, turned, strict=True)]
    pairs = zip(rows, along, strict=True)
    return [*states, *(_stacked(g, row, axis) for row, axis in pairs)]


@dataclass
class _Scan:
    """A scan: what it begins with, what it walks along, along which axes and from which end."""

    bodies: Bodies
    node: Node
    states: list[Value]
    inputs: list[Value]
    axes: Sequence[int]
    turns: Sequence[int]

    @property
    def trips(self) -> int:
        shape = self.bodies.builder.shape_of(self.inputs[0])
        return shape[self.axes[0] % len(shape)]

    def on_device(self, row_turns: Sequence[int]) -> list[Value]:
        """The last states, and what all trips give, along the first axis."""
        g = self.bodies.builder
        slices = [_to_first(g, v, axis) for v, axis in zip(self.inputs, self.axes, strict=True)]
        trips = Trips(self.trips, slices=slices, turns=self.turns, row_turns=row_turns)
        part, args = begin(g, self.states, trips)
        self.bodies.into(part, self.node.attrs["body"], args)
        made = [part.builder.type_of(v) for v in part.results[: len(self.states)]]
        if made != [v.type for v in args[: len(self.states)]]:
            raise Refused("what it carries must keep its type")
        return repeat(g, self.states, trips, part)

    def written_out(self) -> tuple[list[Value], list[list[Value]]]:
        """The last states, and what each trip gives."""
        g, states, trips = self.bodies.builder, self.states, self.trips
        outs: list[list[Value]] = [[] for _ in self.node.used[len(states) :]]
        for trip in range(trips):
            places = [trips - 1 - trip if turn < 0 else trip for turn in self.turns]
            cuts = zip(self.inputs, self.axes, places, strict=True)
            parts = [_place(g, value, axis, place) for value, axis, place in cuts]
            made = self.bodies.body(self.node.attrs["body"], [*states, *parts])
            states = made[: len(states)]
            for rows, part in zip(outs, made[len(states) :], strict=True):
                rows.append(part)
        return states, outs


def _to_first(g: Builder, value: Value, axis: int) -> Value:
    """The value with an axis as its first one."""
    rank = len(g.shape_of(value))
    at = axis % rank
    perm = (at, *(i for i in range(rank) if i != at))
    return value if at == 0 else g.one(TransposeOp, value, perm=perm)


def _first_to(g: Builder, value: Value, axis: int) -> Value:
    """The value with its first axis at another place."""
    rank = len(g.shape_of(value))
    at = axis % rank
    perm = (*range(1, at + 1), 0, *range(at + 1, rank))
    return value if at == 0 else g.one(TransposeOp, value, perm=perm)


FIRST_SCAN = 9


def _each(node: Node, name: str, count: int) -> Sequence[int]:
    return node.attrs.get(name) or (0,) * count


def _place(g: Builder, value: Value, axis: int, place: int) -> Value:
    """One place of an axis, which is gone."""
    shape = g.shape_of(value)
    at = axis % len(shape)
    cut = g.one(SliceOp, value, starts=(place,), ends=(place + 1,), axes=(at,), steps=(1,))
    return g.one(ReshapeOp, cut, shape=(*shape[:at], *shape[at + 1 :]))


def _stacked(g: Builder, rows: Sequence[Value], axis: int) -> Value:
    """Values beside each other along a new axis."""
    if not rows:
        raise Refused("what a loop collects must have a trip")
    shape = g.shape_of(rows[0])
    at = axis % (len(shape) + 1)
    wide = [g.one(ReshapeOp, row, shape=(*shape[:at], 1, *shape[at:])) for row in rows]
    return wide[0] if len(wide) == 1 else g.one(ConcatOp, *wide, axis=at)


CONTROL: Mapping[str, Callable[[Bodies, Node], list[Value]]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
}
"""Operators with graphs inside."""
