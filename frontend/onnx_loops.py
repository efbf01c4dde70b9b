"""Loop: a body that the device runs again and again; where that is short or known, written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import onnx_ir as ir
from xdsl.dialects.builtin import i64
from xdsl.ir import BlockArgument, SSAValue

from ge.dialects.diagnostics import InputError
from ge.dialects.graph.base import tensor
from ge.dialects.graph.control import CONDITION
from ge.dialects.graph.ops.binary import AddOp, AndOp, LessOp
from ge.dialects.graph.ops.layout import ReshapeOp
from ge.frontend.onnx_bodies import (
    FEW_TRIPS,
    MOST_TRIPS,
    Bodies,
    Part,
    Trips,
    chosen,
    repeat,
    stacked,
)
from ge.frontend.onnx_nodes import Node, Refused, Value
from ge.frontend.onnx_places import Place, check_limits, place_of
from ge.frontend.onnx_stages import Bounded

ENDLESS = 1 << 31
"""Trip counts from here on stand for no limit."""


def loop(bodies: Bodies, node: Node) -> list[Value]:
    """A loop on the device; a short one of known length, or one that has to change, written out."""
    most, alive = node.input(0), node.input(1)
    found = _Loop(
        bodies,
        node,
        None if most is None or _is_endless(most) else most,
        np.asarray(True) if alive is None else alive,
        [node.needed(i) for i in range(2, len(node.inputs))],
        node.graph("body", len(node.inputs), 1 + max(len(node.inputs) - 2, len(node.used))),
    )
    if len(found.values) and not found.moving and len(node.used) == len(found.values):
        return found.values
    if found.is_short() or found.is_known():
        try:
            with bodies.attempt():
                return _written_out(found)
        except Collects:
            pass  # On the device a loop may end early, with the rows that it has.
    try:
        return _attempt(found)
    except (Refused, InputError) as e:
        unknown = found.alive if found.most is None else found.most
        if isinstance(unknown, SSAValue):
            reason = e.reason if isinstance(e, Refused) else e.message
            raise Refused(reason, "a known trip count", unknown) from None
    return _written_out(found)


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
    body: ir.Graph
    first: int = 0
    """The number of its first trip; those before are written out."""

    @cached_property
    def kept(self) -> list[bool]:
        """For each value whether all trips hand it on as it is."""
        pairs = zip(self.body.inputs[2:], self.body.outputs[1:], strict=False)
        return [_same(given, result) for given, result in pairs]

    @property
    def moving(self) -> list[Value]:
        """The values that trips change."""
        return [v for v, kept in zip(self.values, self.kept, strict=True) if not kept]

    def whole(self, moved: Sequence[Value]) -> list[Value]:
        """All values, where those that trips change are these."""
        rest = iter(moved)
        return [v if kept else next(rest) for v, kept in zip(self.values, self.kept, strict=True)]

    @property
    def length(self) -> int | None:
        """The trips at most, where that is known."""
        known = self.most is not None and not isinstance(self.most, SSAValue)
        return int(self.most.reshape(-1)[0]) if known else None  # type: ignore[union-attr]

    @property
    def settles(self) -> bool:
        """Whether its first trip can be written out, for the types that it gives to be kept."""
        rows = len(self.body.outputs) - 1 - len(self.values)
        runs = not isinstance(self.alive, SSAValue) and self.length != 0
        return runs and not rows and not self.first and not isinstance(self.most, SSAValue)

    def settled(self) -> _Loop:
        """The loop behind its first trip."""
        trip = np.asarray(self.first, np.int64)
        on, *values = self.bodies.body(self.body, [trip, np.asarray(True), *self.values])
        most = None if self.length is None else np.asarray(self.length - 1, np.int64)
        return replace(self, most=most, alive=on, values=values, first=self.first + 1)

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
            self.bodies.into(part, self.body, first)
        except (Refused, InputError):
            return False
        return not any(isinstance(v, SSAValue) for v in part.results)


class Changes(Refused):
    """What a loop carries changes its type."""


class Collects(Refused):
    """What a loop collects is as long as its condition says."""


def _attempt(loop: _Loop) -> list[Value]:
    """The loop on the device, or all of it but its first trip where that changes types."""
    try:
        with loop.bodies.attempt():
            return _on_device(loop)
    except Changes:
        if not loop.settles:
            raise
    behind = loop.settled()
    if _ended(behind.alive):
        return behind.values
    with loop.bodies.attempt():
        return _on_device(behind)


def _on_device(loop: _Loop) -> list[Value]:
    """The loop as a body that is run again; raises Changes where that gives other types.

    A trip number that nothing reads, and a condition that always holds, are left out.
    """
    bodies, node, length = loop.bodies, loop.node, loop.length
    g = bodies.builder
    part = Part(g.beside(), [])
    block = part.block
    own = [block.insert_arg(g.type_of(v), i) for i, v in enumerate(loop.moving)]
    trip = block.insert_arg(tensor((), i64), len(own))
    g.counted |= {arg: [] for arg in (*own, trip)}
    number = part.builder.one(AddOp, trip, np.asarray(loop.first)) if loop.first else trip
    # Inside a trip the condition holds.
    bodies.into(part, loop.body, [number, np.asarray(True), *loop.whole(own)])
    on, *made = part.results
    count = len(loop.values)
    new = [v for v, kept in zip(made, loop.kept, strict=False) if not kept]
    rows = made[count:]
    unread = [not used for used, kept in zip(node.used, loop.kept, strict=False) if not kept]
    for i, arg in enumerate(own):
        if unread[i] and arg.first_use is None:
            new[i] = arg  # What nothing reads need not be made.
    if [part.builder.type_of(v) for v in new] != [v.type for v in own]:
        raise Changes("what it carries must keep its type", "a known trip count", _unknown(loop))
    steps = zip(own, loop.moving, map(place_of, new), strict=True)
    for arg, before, behind in (*steps, (trip, np.asarray(0), Place(trip, 1))):
        check_limits(g, arg, before, behind, on, length)
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
    made = repeat(loop.bodies.builder, loop.moving, trips, part)
    return [*loop.whole(made[: len(new)]), *made[len(new) :]]


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
    carried = [alive, *loop.moving, np.asarray(0, np.int64)]
    trips = Trips(length, conditional=True, row_turns=(1,) * len(rows))
    _, *made = repeat(g, carried, trips, part)
    values, count, wide = loop.whole(made[: len(new)]), made[len(new)], made[len(new) + 1 :]
    if not rows:
        return values
    ends = [*(None for _ in values), *(0 for _ in wide)]
    raise Bounded([g.ssa(v) for v in (*values, *wide, count)], ends)


def _written_out(loop: _Loop) -> list[Value]:
    """Its trips one behind the other; after a false condition the values stay as they are."""
    bodies, most, alive, values = loop.bodies, loop.length, loop.alive, loop.values
    scanned: list[list[Value]] = [[] for _ in loop.body.outputs[1 + len(values) :]]
    trip = 0
    while not _ended(alive) and (most is None or trip < most):
        if trip == MOST_TRIPS or (most is None and isinstance(alive, SSAValue)):
            raise Refused(f"must end after {MOST_TRIPS} trips at most", "a known trip count")
        at = np.asarray(trip, np.int64)
        on, *made = bodies.body(loop.body, [at, alive, *values])
        new, parts = made[: len(values)], made[len(values) :]
        if isinstance(alive, SSAValue):
            if parts:
                what = "what a loop collects must not depend on its condition"
                raise Collects(what, "a known condition", alive)
            g = bodies.builder
            new = [chosen(g, alive, a, b) for a, b in zip(new, values, strict=True)]
            on = g.one(AndOp, *(g.one(ReshapeOp, v, shape=()) for v in (alive, on)))
        for rows, part in zip(scanned, parts, strict=True):
            rows.append(part)
        alive, values, trip = on, new, trip + 1
    if not trip:
        return [*values, *_no_rows(loop)]
    return [*values, *(stacked(bodies.builder, rows, 0) for rows in scanned)]


def _no_rows(loop: _Loop) -> list[Value]:
    """What a loop without a trip collects: nothing, of the type that a trip would give."""
    if len(loop.body.outputs) == 1 + len(loop.values):
        return []
    part = Part(loop.bodies.builder.beside(), [])
    loop.bodies.into(part, loop.body, [np.asarray(0, np.int64), np.asarray(True), *loop.values])
    rows, g = part.results[1 + len(loop.values) :], part.builder
    return [np.zeros((0, *g.shape_of(row)), g.numpy_type(row)) for row in rows]


def _same(given: Any, result: Any) -> bool:
    """Whether a body's result is what it was given."""
    while result is not given and result.producer() is not None:
        node = result.producer()
        if node.op_type != "Identity":
            return False
        result = node.inputs[0]
    return result is given


def _ended(alive: Value) -> bool:
    return not isinstance(alive, SSAValue) and not bool(alive.reshape(-1)[0])
