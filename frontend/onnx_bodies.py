"""Operations that become a function of their own: branches that are chosen, bodies that recur.

They are imported into a block beside the one that runs them, and read the values around as if they
stood in it. What they read of those then becomes what the function takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.graph.base import ConstantOp, GraphOp, Tensor, dims, tensor
from ge.dialects.graph.control import IfOp, LoopOp
from ge.dialects.graph.module import make_function
from ge.dialects.graph.ops.binary import BinaryOp, WhereOp
from ge.dialects.graph.ops.layout import ConcatOp, ReshapeOp
from ge.dialects.graph.ops.unary import UnaryOp
from ge.frontend.onnx_nodes import Builder, Refused, Value

MOST_TRIPS = 4096
"""Trips of a loop that are written out at most."""
QUICK = 2
"""Elementwise operators that are computed sooner than cores have met and decided against them."""
FEW_TRIPS = 16
"""Trips up to which a loop of known length is written out: known numbers then shorten it."""


@dataclass
class Part:
    """A block beside another one, and what it gives."""

    builder: Builder
    results: list[Value]

    @property
    def block(self) -> Block:
        return self.builder.block

    def finish(self) -> list[SSAValue]:
        """The results as values, known ones as constants of the block."""
        return [self.builder.ssa(v) for v in self.results]

    def is_quick(self) -> bool:
        """Whether all of it is as good as done."""
        ops = [op for op in self.block.ops if not isinstance(op, ConstantOp)]
        return len(ops) <= QUICK and all(isinstance(op, _QUICK) for op in ops)

    def join(self, g: Builder) -> list[Value]:
        """Let the block around have the operations."""
        for op in list(self.block.ops):
            op.detach()
            g.block.add_op(op)
        return self.results


_QUICK: tuple[type[GraphOp], ...] = (UnaryOp, BinaryOp, WhereOp, ReshapeOp)


def choose(g: Builder, condition: Value, then: Part, otherwise: Part) -> list[Value]:
    """What one of two parts of equal types gives; only that one is run."""
    flag = g.ssa(g.one(ReshapeOp, condition, shape=()))
    results = [part.finish() for part in (then, otherwise)]
    takes = list(dict.fromkeys(chain(_around(then, results[0]), _around(otherwise, results[1]))))
    number = len(g.functions)
    names = f"then{number}", f"else{number}"
    parts = zip(names, (then, otherwise), results, strict=True)
    functions = [_function(name, part, takes, made) for name, part, made in parts]
    g.functions += functions
    return list(g.add(IfOp.of(functions[0], functions[1], flag, takes)))


@dataclass(frozen=True)
class Trips:
    """How a loop goes: how often at most, and what it takes and gives place by place."""

    most: int | None
    """None where its condition alone ends it; that is then the first value it carries."""
    conditional: bool = False
    slices: Sequence[Value] = ()
    """What each trip sees one place of, along the first axis."""
    turns: Sequence[int] = ()
    """-1 for a slice that is walked from its end."""
    row_turns: Sequence[int] = ()


def begin(g: Builder, carried: Sequence[Value], trips: Trips) -> tuple[Part, list[SSAValue]]:
    """A part for the body of a loop, and its arguments: what is carried, then the slices."""
    part = Part(g.beside(), [])
    types = [g.type_of(v) for v in carried]
    types += [_place_type(g.type_of(v)) for v in trips.slices]
    for type_ in types:
        part.block.insert_arg(type_, len(part.block.args))
    return part, list(part.block.args)


def repeat(g: Builder, carried: Sequence[Value], trips: Trips, body: Part) -> list[Value]:
    """What the last trip gives, then what all trips have collected; `body` began with `begin`."""
    made = body.finish()
    own = len(carried)
    takes = list(dict.fromkeys(_around(body, made)))
    args = list(body.block.args)
    function = _function(f"body{len(g.functions)}", body, takes, made, args[:own])
    g.functions.append(function)
    ins = [*(g.ssa(v) for v in carried), *takes, *(g.ssa(v) for v in trips.slices)]
    op = LoopOp.of(
        function,
        ins,
        own,
        trips.most,
        conditional=trips.conditional,
        slices=trips.turns,
        rows=trips.row_turns,
    )
    return list(g.add(op))


Step = Callable[[Builder, list[Value], list[Value]], tuple[list[Value], list[Value]]]
"""What a trip makes of what it is handed and of its places: what it hands on, and its rows."""


def looped(g: Builder, carried: Sequence[Value], trips: Trips, step: Step) -> list[Value]:
    """`repeat` over a body that `step` writes."""
    part, args = begin(g, carried, trips)
    own = len(carried)
    on, rows = step(part.builder, list(args[:own]), list(args[own:]))
    part.results = [*on, *rows]
    return repeat(g, carried, trips, part)


def _place_type(type_: Tensor) -> Tensor:
    return tensor(dims(type_)[1:], type_.element_type)


def _around(part: Part, results: Sequence[SSAValue]) -> Iterator[SSAValue]:
    """What a part reads, or gives, of the blocks around it."""
    block = part.block
    for value in chain(chain.from_iterable(op.operands for op in block.ops), results):
        home = value.owner.parent if isinstance(value.owner, Operation) else value.owner
        if home is not block:
            yield value


def _function(
    name: str,
    part: Part,
    takes: Sequence[SSAValue],
    results: Sequence[SSAValue],
    first: Sequence[SSAValue] = (),
) -> FuncOp:
    """A function that takes those values behind its `first` arguments."""
    block = part.block
    inside: dict[SSAValue, SSAValue] = {}
    for place, value in enumerate(takes, len(first)):
        arg = block.insert_arg(value.type, place)
        arg.name_hint = value.name_hint
        value.replace_uses_with_if(arg, lambda use: use.operation.parent is block)
        inside[value] = arg
    return make_function(name, block, [inside.get(v, v) for v in results])


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


def chosen(g: Builder, condition: Value, a: Value, b: Value) -> Value:
    """One of two values, both of which are computed."""
    flag = g.one(ReshapeOp, condition, shape=())
    return a if a is b else g.one(WhereOp, flag, a, b)


def stacked(g: Builder, rows: Sequence[Value], axis: int) -> Value:
    """Values beside each other along a new axis."""
    if not rows:
        raise Refused("what a loop collects must have a trip")
    shape = g.shape_of(rows[0])
    at = axis % (len(shape) + 1)
    wide = [g.one(ReshapeOp, row, shape=(*shape[:at], 1, *shape[at:])) for row in rows]
    return wide[0] if len(wide) == 1 else g.one(ConcatOp, *wide, axis=at)
