"""Scan: a body over the places of an axis, as a loop on the device or written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ge.dialects.diagnostics import InputError
from ge.dialects.graph.ops.layout import ReshapeOp, SliceOp, TransposeOp
from ge.frontend.onnx_bodies import FEW_TRIPS, MOST_TRIPS, Bodies, Trips, begin, repeat, stacked
from ge.frontend.onnx_nodes import Builder, Node, Refused, Value

FIRST_SCAN = 9


def scan(bodies: Bodies, node: Node) -> list[Value]:
    """A body over the places of an axis of its inputs, each state handed to the next place."""
    if node.version < FIRST_SCAN:
        raise Refused("must be of version 9 or newer")
    g = bodies.builder
    count = node.attrs.get("num_scan_inputs", 0)
    if not 0 < count <= len(node.inputs):
        raise Refused("'num_scan_inputs' must say how many inputs it walks along")
    found = _Scan(
        bodies,
        node.graph("body", len(node.inputs), len(node.used)),
        states=[node.needed(i) for i in range(len(node.inputs) - count)],
        inputs=[node.needed(i) for i in range(len(node.inputs) - count, len(node.inputs))],
        axes=_each(node, "scan_input_axes", count),
        turns=[-1 if back else 1 for back in _each(node, "scan_input_directions", count)],
    )
    collected = len(found.body.outputs) - len(found.states)
    turned = _each(node, "scan_output_directions", collected)
    along = _each(node, "scan_output_axes", collected)
    if found.trips > FEW_TRIPS:
        try:
            with bodies.attempt():
                made = found.on_device([-1 if back else 1 for back in turned])
                states, outs = made[: len(found.states)], made[len(found.states) :]
                pairs = zip(outs, along, strict=True)
                return [*states, *(_first_to(g, out, axis) for out, axis in pairs)]
        except (Refused, InputError):
            if found.trips > MOST_TRIPS:
                raise Refused(f"must have {MOST_TRIPS} places at most, got {found.trips}") from None
    states, rows = found.written_out()
    in_order = [row[::-1] if back else row for row, back in zip(rows, turned, strict=True)]
    columns = zip(in_order, along, strict=True)
    return [*states, *(stacked(g, row, axis) for row, axis in columns)]


@dataclass
class _Scan:
    """A scan: what it begins with, what it walks along, along which axes and from which end."""

    bodies: Bodies
    body: ir.Graph
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
        self.bodies.into(part, self.body, args)
        made = [part.builder.type_of(v) for v in part.results[: len(self.states)]]
        if made != [v.type for v in args[: len(self.states)]]:
            raise Refused("what it carries must keep its type")
        return repeat(g, self.states, trips, part)

    def written_out(self) -> tuple[list[Value], list[list[Value]]]:
        """The last states, and what each trip gives."""
        g, states, trips = self.bodies.builder, self.states, self.trips
        outs: list[list[Value]] = [[] for _ in self.body.outputs[len(states) :]]
        for trip in range(trips):
            places = [trips - 1 - trip if turn < 0 else trip for turn in self.turns]
            cuts = zip(self.inputs, self.axes, places, strict=True)
            parts = [_place(g, value, axis, place) for value, axis, place in cuts]
            made = self.bodies.body(self.body, [*states, *parts])
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


def _each(node: Node, name: str, count: int) -> Sequence[int]:
    return node.attrs.get(name) or (0,) * count


def _place(g: Builder, value: Value, axis: int, place: int) -> Value:
    """One place of an axis, which is gone."""
    shape = g.shape_of(value)
    at = axis % len(shape)
    cut = g.one(SliceOp, value, starts=(place,), ends=(place + 1,), axes=(at,), steps=(1,))
    return g.one(ReshapeOp, cut, shape=(*shape[:at], *shape[at + 1 :]))
