"""RNN, GRU and LSTM: one product for all inputs, then a step for each moment.

A long sequence is a loop on the device, a short one is written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ge.dialects import dtypes
from ge.dialects.graph.base import GraphOp
from ge.dialects.graph.ops import activation as act
from ge.dialects.graph.ops.binary import AddOp, LessOp, MaxOp, MinOp, MulOp, SubOp, WhereOp
from ge.dialects.graph.ops.linear import MatMulOp
from ge.dialects.graph.ops.trigonometry import TanhOp
from ge.frontend.onnx_bodies import FEW_TRIPS, Trips, looped
from ge.frontend.onnx_maths import Maths
from ge.frontend.onnx_nodes import Builder, Node, Refused, Value
from ge.frontend.onnx_versions import adapts

RANK = 3
"""Moments, batch and features, in one order or another."""
WALKS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
"""By the words of `direction` whether each walk is backwards."""
Bend = Callable[[Value], Value]
States = list[Value]

_PLAIN: dict[str, type[GraphOp]] = {
    "relu": act.ReluOp,
    "tanh": TanhOp,
    "sigmoid": act.SigmoidOp,
    "softsign": act.SoftsignOp,
    "softplus": act.SoftplusOp,
}
_ALPHA: dict[str, type[GraphOp]] = {
    "leakyrelu": act.LeakyReluOp,
    "elu": act.EluOp,
    "thresholdedrelu": act.ThresholdedReluOp,
}


class Direction:
    """The weights of one direction, and how it walks time."""

    def __init__(self, m: Maths, node: Node, number: int, gates: int, backwards: bool) -> None:
        self.m = m
        self.backwards = backwards
        self.w, self.r = self.weights(node, number)
        self.hidden = m.shape(self.r)[0]
        both = node.input(3)
        bias = np.zeros(2 * gates * self.hidden, m.g.numpy_type(node.needed(0)))
        b = bias if both is None else m.place(both, 0, number)
        cut = gates * self.hidden
        self.input_bias, self.state_bias = m.slice(b, 0, 0, cut), m.slice(b, 0, cut, 2 * cut)
        self.clip = node.attrs.get("clip")

    def weights(self, node: Node, number: int) -> tuple[Value, Value]:
        """What inputs and what states are multiplied by, the gates side by side."""
        m = self.m
        w, r = (m.transpose(m.place(node.needed(i), 0, number), 1, 0) for i in (1, 2))
        return w, r

    def project(self, flat: Value) -> Value:
        """What all inputs bring, a row each."""
        return self.m(MatMulOp, flat, self.w)

    def recur(self, h: Value) -> Value:
        """What the state brings."""
        return self.m(MatMulOp, h, self.r)

    def part(self, x: Value, gate: int) -> Value:
        """What belongs to one gate, in the last dim."""
        axis, n = len(self.m.shape(x)) - 1, self.hidden
        return self.m.slice(x, axis, gate * n, (gate + 1) * n)

    def clipped(self, x: Value) -> Value:
        """A sum before it is bent."""
        if self.clip is None:
            return x
        return self.m(MinOp, self.m(MaxOp, x, -float(self.clip)), float(self.clip))


def _bends(m: Maths, node: Node, defaults: Sequence[str], directions: int) -> list[list[Bend]]:
    """The activations of each direction."""
    names = node.attrs.get("activations") or tuple(defaults) * directions
    alphas, betas = (iter(node.attrs.get(f"activation_{n}") or ()) for n in ("alpha", "beta"))

    def bend(name: str) -> Bend:
        word = name.lower()
        if word in _PLAIN:
            return lambda x: m(_PLAIN[word], x)
        if word in _ALPHA:
            alpha = {"alpha": value} if (value := next(alphas, None)) is not None else {}
            return lambda x: m(_ALPHA[word], x, **alpha)
        if word == "hardsigmoid":
            how = {"alpha": next(alphas, 0.2), "beta": next(betas, 0.5)}
            return lambda x: m(act.HardSigmoidOp, x, **how)
        if word == "affine":
            scale, shift = next(alphas, 1.0), next(betas, 0.0)
            return lambda x: m(AddOp, m(MulOp, x, float(scale)), float(shift))
        raise Refused(f"the activation '{name}' is not supported")

    made = [bend(name) for name in names]
    count = len(defaults)
    return [made[i * count : (i + 1) * count] for i in range(directions)]


Step = Callable[[Direction, Value, States, list[Bend]], States]


def _recurrent(
    g: Builder,
    node: Node,
    gates: int,
    bends: Sequence[str],
    states: int,
    step: Step,
    *,
    kind: type[Direction] = Direction,
) -> list[Value]:
    m = Maths(g)
    x = node.needed(0)
    batch_first = bool(node.attrs.get("layout", 0))
    if len(m.shape(x)) != RANK:
        raise Refused(f"its input must have {RANK} dims, got {len(m.shape(x))}")
    x = m.transpose(x, 1, 0, 2) if batch_first else x
    moments, batch, width = m.shape(x)
    how = node.attrs.get("direction", "forward")
    if how not in WALKS:
        raise Refused(f"'direction' must be one of {', '.join(WALKS)}, got '{how}'")
    walks = WALKS[how]
    lengths = node.input(4)
    outs, ends = [], []
    for number, backwards in enumerate(walks):
        one = kind(m, node, number, gates, backwards)
        flat = one.project(m.reshape(x, moments * batch, width))
        sums = m.reshape(m(AddOp, flat, one.input_bias), moments, batch, gates * one.hidden)
        begin = [_begin(m, node, 5 + i, number, batch, one, batch_first) for i in range(states)]
        bent = _bends(m, node, bends, len(walks))[number]
        walk = _walk if moments <= FEW_TRIPS else _walk_on_device
        rows, last = walk(one, sums, begin, _Moment(one, bent, step, lengths))
        outs.append(rows)
        ends.append(last)
    y = m.stack(outs, 1)
    finals = [m.stack([end[i] for end in ends], 0) for i in range(states)]
    if batch_first:
        y = m.transpose(y, 2, 0, 1, 3)
        finals = [m.transpose(f, 1, 0, 2) for f in finals]
    return [y, *finals]


def _begin(
    m: Maths, node: Node, i: int, number: int, batch: int, one: Direction, batch_first: bool
) -> Value:
    value = node.input(i)
    if value is None:
        return np.zeros((batch, one.hidden), m.g.numpy_type(node.needed(0)))
    return m.place(m.transpose(value, 1, 0, 2) if batch_first else value, 0, number)


@dataclass(frozen=True)
class _Moment:
    """What is done at each moment of a sequence."""

    one: Direction
    bends: list[Bend]
    step: Step
    lengths: Value | None

    def __call__(self, number: Value | int, sums: Value, states: States) -> tuple[Value, States]:
        """What comes out, and the new states."""
        m = self.one.m
        new = self.step(self.one, sums, states, self.bends)
        if self.lengths is None:
            return new[0], new
        # Behind the end of a sequence its states stay, and nothing comes out.
        ends = m.reshape(m.cast(self.lengths, dtypes.I32), *m.shape(self.lengths), 1)
        alive = m(LessOp, number, ends)
        out = m(WhereOp, alive, new[0], 0.0)
        return out, [m(WhereOp, alive, a, b) for a, b in zip(new, states, strict=True)]


def _walk(one: Direction, sums: Value, states: States, moment: _Moment) -> tuple[Value, States]:
    """What all moments give, in the order of time, and the states behind the last one."""
    m = one.m
    moments = range(m.shape(sums)[0])
    rows: dict[int, Value] = {}
    for number in reversed(moments) if one.backwards else moments:
        rows[number], states = moment(number, m.place(sums, 0, number), states)
    return m.stack([rows[number] for number in moments], 0), states


def _walk_on_device(
    one: Direction, sums: Value, states: States, moment: _Moment
) -> tuple[Value, States]:
    """The same by a loop."""
    m = one.m
    turn = -1 if one.backwards else 1
    numbers = np.arange(m.shape(sums)[0], dtype=np.int32)
    slices = [sums] if moment.lengths is None else [sums, numbers]
    trips = Trips(numbers.size, slices=slices, turns=(turn,) * len(slices), row_turns=(turn,))

    def trip(inner: Builder, states: States, parts: States) -> tuple[States, States]:
        with m.on(inner):
            row, new = moment(parts[-1], parts[0], states)
        return new, [row]

    *last, rows = looped(m.g, states, trips, trip)
    return rows, last


def _rnn_step(one: Direction, sums: Value, states: States, bends: list[Bend]) -> States:
    m = one.m
    past = m(AddOp, one.recur(states[0]), one.state_bias)
    return [bends[0](one.clipped(m(AddOp, sums, past)))]


@adapts("RNN")
def _rnn(g: Builder, node: Node) -> list[Value]:
    return _recurrent(g, node, 1, ("Tanh",), 1, _rnn_step)


def _gru_step(reset_behind: bool) -> Step:
    def step(one: Direction, sums: Value, states: States, bends: list[Bend]) -> States:
        m, (h,) = one.m, states
        past = one.recur(h)

        def total(gate: int) -> Value:
            own = m(AddOp, one.part(past, gate), one.part(one.state_bias, gate))
            return bends[0](one.clipped(m(AddOp, one.part(sums, gate), own)))

        update, reset = total(0), total(1)
        bias = one.part(one.state_bias, 2)
        if reset_behind:
            seen = m(MulOp, reset, m(AddOp, one.part(past, 2), bias))
        else:
            own = m.slice(one.r, 1, 2 * one.hidden, 3 * one.hidden)
            seen = m(AddOp, m(MatMulOp, m(MulOp, reset, h), own), bias)
        new = bends[1](one.clipped(m(AddOp, one.part(sums, 2), seen)))
        return [m(AddOp, m(MulOp, m(SubOp, 1.0, update), new), m(MulOp, update, h))]

    return step


@adapts("GRU")
def _gru(g: Builder, node: Node) -> list[Value]:
    step = _gru_step(bool(node.attrs.get("linear_before_reset", 0)))
    return _recurrent(g, node, 3, ("Sigmoid", "Tanh"), 1, step)


def _lstm_step(peep: Sequence[Value] | None, coupled: bool) -> Step:
    """`peep`: what the cell adds to the gates in, out and forget, a row for each direction."""

    def step(one: Direction, sums: Value, states: States, bends: list[Bend]) -> States:
        m, (h, c) = one.m, states
        past = m(AddOp, one.recur(h), one.state_bias)
        total = m(AddOp, sums, past)
        row = None if peep is None else peep[int(one.backwards) if len(peep) > 1 else 0]

        def gate(number: int, hint: int, cell: Value) -> Value:
            value = one.part(total, number)
            if row is not None:
                value = m(AddOp, value, m(MulOp, one.part(row, hint), cell))
            return bends[0](one.clipped(value))

        come = gate(0, 0, c)
        keep = m(SubOp, 1.0, come) if coupled else gate(2, 2, c)
        new = bends[1](one.clipped(one.part(total, 3)))
        cell = m(AddOp, m(MulOp, keep, c), m(MulOp, come, new))
        return [m(MulOp, gate(1, 1, cell), bends[2](cell)), cell]

    return step


@adapts("LSTM")
def _lstm(g: Builder, node: Node) -> list[Value]:
    return lstm(g, node, Direction)


def lstm(g: Builder, node: Node, kind: type[Direction]) -> list[Value]:
    """A long short-term memory whose products are those of `kind`."""
    m = Maths(g)
    given = node.input(7)
    rows = None if given is None else [m.place(given, 0, i) for i in range(m.shape(given)[0])]
    step = _lstm_step(rows, bool(node.attrs.get("input_forget", 0)))
    return _recurrent(g, node, 4, ("Sigmoid", "Tanh", "Tanh"), 2, step, kind=kind)
