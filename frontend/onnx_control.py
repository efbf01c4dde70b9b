"""If, Loop and Scan: bodies written out as often as they run, choices made by selection.

What decides is known when compiling, or is a truth value that selects between results of one type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects.diagnostics import InputError
from ge.dialects.graph.ops.binary import AndOp, WhereOp
from ge.dialects.graph.ops.layout import ConcatOp, ReshapeOp, SliceOp
from ge.frontend.onnx_nodes import Builder, Node, Refused, Value

MOST_TRIPS = 4096
"""Trips of a loop that are written out at most."""


class Bodies(Protocol):
    """What imports the graphs inside a node."""

    builder: Builder

    def body(self, graph: Any, inputs: Sequence[Value]) -> list[Value]:
        """The results of a graph on these inputs."""
        ...


def _if(bodies: Bodies, node: Node) -> list[Value]:
    """The branch that a known condition takes, or both and a selection between their results."""
    condition = node.needed(0)
    branches = [node.attrs[name] for name in ("then_branch", "else_branch")]
    if not isinstance(condition, SSAValue):
        return bodies.body(branches[0 if condition.reshape(-1)[0] else 1], [])
    g = bodies.builder
    then, other = (_branch(bodies, branch, condition) for branch in branches)
    if [g.type_of(v) for v in then] != [g.type_of(v) for v in other]:
        raise Refused("branches must give one type", "branches of equal shapes", condition)
    return [_chosen(g, condition, a, b) for a, b in zip(then, other, strict=True)]


def _branch(bodies: Bodies, graph: Any, condition: SSAValue) -> list[Value]:
    """The results of a branch; refuses one that these shapes rule out, for they may decide."""
    try:
        return bodies.body(graph, [])
    except InputError as e:
        what = f"both branches must be possible with these shapes: {e.message}"
        raise Refused(what, "a known condition", condition) from None
    except Refused as e:
        nearest = e.nearest or "a known condition"
        raise Refused(e.reason, nearest, e.unknown or condition) from None


def _chosen(g: Builder, condition: Value, a: Value, b: Value) -> Value:
    flag = g.one(ReshapeOp, condition, shape=())
    return a if a is b else g.one(WhereOp, flag, a, b)


def _loop(bodies: Bodies, node: Node) -> list[Value]:
    """A loop whose most trips are known; after a false condition the values stay as they are."""
    most = node.known(0, "trip count")
    alive: Value = np.asarray(True) if node.input(1) is None else node.needed(1)
    values = [node.needed(i) for i in range(2, len(node.inputs))]
    scanned: list[list[Value]] = [[] for _ in node.used[len(values) :]]
    trip = 0
    while not _ended(alive) and (most is None or trip < int(most.reshape(-1)[0])):
        if trip == MOST_TRIPS or (most is None and isinstance(alive, SSAValue)):
            raise Refused(f"must end after {MOST_TRIPS} trips at most", "a known trip count")
        on, *made = bodies.body(node.attrs["body"], [np.asarray(trip, np.int64), alive, *values])
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
    g, body = bodies.builder, node.attrs["body"]
    count = node.attrs["num_scan_inputs"]
    states = [node.needed(i) for i in range(len(node.inputs) - count)]
    inputs = [node.needed(i) for i in range(len(node.inputs) - count, len(node.inputs))]
    axes = _each(node, "scan_input_axes", count)
    backwards = _each(node, "scan_input_directions", count)
    trips = g.shape_of(inputs[0])[axes[0] % len(g.shape_of(inputs[0]))]
    if trips > MOST_TRIPS:
        raise Refused(f"must have {MOST_TRIPS} places at most, got {trips}")
    outs: list[list[Value]] = [[] for _ in node.used[len(states) :]]
    for trip in range(trips):
        places = [trips - 1 - trip if back else trip for back in backwards]
        cuts = zip(inputs, axes, places, strict=True)
        parts = [_place(g, value, axis, place) for value, axis, place in cuts]
        made = bodies.body(body, [*states, *parts])
        states = made[: len(states)]
        for rows, part in zip(outs, made[len(states) :], strict=True):
            rows.append(part)
    turned = _each(node, "scan_output_directions", len(outs))
    stacked_along = _each(node, "scan_output_axes", len(outs))
    rows_of = [rows[::-1] if back else rows for rows, back in zip(outs, turned, strict=True)]
    pairs = zip(rows_of, stacked_along, strict=True)
    return [*states, *(_stacked(g, rows, axis) for rows, axis in pairs)]


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
