"""Random numbers: torch's own generator draws them on the host, as it does for its CPU.

They are inputs of a program, drawn anew for every run in the order of its operators. So a seed
gives the same numbers as without this package.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    TensorArgument,
)
from torch.utils import _pytree as pytree

aten = torch.ops.aten

ALIKE = {
    aten.rand_like.default,
    aten.randn_like.default,
    aten.randint_like.default,
    aten.randint_like.low_dtype,
    aten.bernoulli.p,
    aten.uniform.default,
    aten.normal_functional.default,
    aten.exponential.default,
}
"""Operators that draw numbers for each element of a tensor without a look at those it holds."""


class Like(NamedTuple):
    """A tensor of which only the form matters: numbers are drawn in the order of its memory."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtype: torch.dtype


@dataclass
class Draw:
    """One input: what draws it, of arguments whose sizes may be known at a run only."""

    draw: Callable[..., torch.Tensor]
    args: Any
    kwargs: Any
    name: str = ""


class Symbol(NamedTuple):
    """A size that is known at a run only, and where it is read off what the run is given."""

    symbol: Any
    place: int
    dim: int | None
    """None for a number that is given itself."""


def _symbols(place: int, value: Any) -> list[Symbol]:
    if not isinstance(value, torch.Tensor):
        return [Symbol(value.node.expr, place, None)] if isinstance(value, torch.SymInt) else []
    sizes = enumerate(value.shape)
    return [Symbol(n.node.expr, place, dim) for dim, n in sizes if isinstance(n, torch.SymInt)]


class Draws:
    """What has to be drawn before each run of a program."""

    def __init__(self, program: ExportedProgram) -> None:
        """The operators of the program that draw become inputs, behind all that it has."""
        self._graph = program.graph
        places = [n for n in self._graph.nodes if n.op == "placeholder"]
        names = set(program.graph_signature.user_inputs)
        given = [n.meta["val"] for n in places if n.name in names]
        self._symbols = [symbol for i, v in enumerate(given) for symbol in _symbols(i, v)]
        self._last = places[-1] if places else None
        self.each: list[Draw] = []
        for node in list(self._graph.nodes):
            if node.op == "call_function" and _draws(node):
                self._hoist(node)
        if self.each:
            signature = program.graph_signature
            own = [InputSpec(InputKind.USER_INPUT, TensorArgument(d.name), None) for d in self.each]
            specs = [*signature.input_specs, *own]
            program._graph_signature = ExportGraphSignature(specs, signature.output_specs)
            flat = tuple(range(len(given) + len(own)))
            program.example_inputs = None
            call = program._module_call_graph[0].signature
            call.in_spec, call.forward_arg_names = pytree.tree_structure((flat, {})), None
            program.graph_module.recompile()
        # Draws live as long as the program does; what torch traced holds the arguments.
        del self._graph, self._last

    def __call__(self, given: Sequence[Any]) -> dict[str, torch.Tensor]:
        """New numbers by the names of the inputs, for tensors and sizes that a run is given."""
        if not self.each:
            return {}
        known = {
            one.symbol: int(
                given[one.place] if one.dim is None else given[one.place].shape[one.dim]
            )
            for one in self._symbols
        }

        def real(value: Any) -> Any:
            if isinstance(value, Like):
                form = ([*map(real, sizes)] for sizes in (value.shape, value.strides))
                return torch.empty_strided(*form, dtype=value.dtype)
            return int(value.node.expr.subs(known)) if isinstance(value, torch.SymInt) else value

        drawn = {}
        for one in self.each:
            how = pytree.tree_map(real, (one.args, one.kwargs), is_leaf=_is_like)
            drawn[one.name] = one.draw(*how[0], **how[1])
        return drawn

    def _hoist(self, node: torch.fx.Node) -> None:
        if node.target is aten.native_dropout.default:
            x, ratio, _ = node.args
            self._drop(node, x, self._input(Draw(_noise, (_known(x), ratio), {}), x.meta["val"]))
            return
        args, kwargs = pytree.tree_map(_known, (node.args, node.kwargs))
        draw = Draw(node.target, args, kwargs)
        node.replace_all_uses_with(self._input(draw, node.meta["val"]))
        self._graph.erase_node(node)

    def _input(self, draw: Draw, value: torch.Tensor) -> torch.fx.Node:
        first = next(iter(self._graph.nodes))
        where = (
            self._graph.inserting_after(self._last)
            if self._last
            else self._graph.inserting_before(first)
        )
        with where:
            self._last = self._graph.placeholder(f"drawn_{len(self.each)}")
        self._last.meta["val"] = value
        draw.name = self._last.name
        self.each.append(draw)
        return self._last

    def _drop(self, node: torch.fx.Node, x: torch.fx.Node, noise: torch.fx.Node) -> None:
        """Dropout is a product with noise; its mask is where that is not zero."""
        with self._graph.inserting_before(node):
            kept = self._graph.call_function(aten.mul.Tensor, (x, noise))
            mask = self._graph.call_function(aten.ne.Scalar, (noise, 0))
        kept.meta["val"], mask.meta["val"] = node.meta["val"]
        for user in list(node.users):
            assert user.target is operator.getitem
            user.replace_all_uses_with((kept, mask)[user.args[1]])
            self._graph.erase_node(user)
        self._graph.erase_node(node)


def _draws(node: torch.fx.Node) -> bool:
    """Whether an operator draws numbers that depend on no others of the program."""
    target: Any = node.target
    if target is aten.native_dropout.default:
        return bool(node.args[2]) and node.args[1] != 0
    if torch.Tag.nondeterministic_seeded not in getattr(target, "tags", ()):
        return False
    if node.kwargs.get("generator") is not None:
        return False
    tensors = [n for n in node.all_input_nodes if isinstance(n.meta["val"], torch.Tensor)]
    return not tensors or target in ALIKE


def _known(value: Any) -> Any:
    """An argument without its numbers."""
    if not isinstance(value, torch.fx.Node):
        return value
    held = value.meta["val"]
    if not isinstance(held, torch.Tensor):
        return held
    return Like(tuple(held.shape), tuple(held.stride()), held.dtype)


def _is_like(value: Any) -> bool:
    return isinstance(value, Like)


def _noise(x: torch.Tensor, ratio: float) -> torch.Tensor:
    """What torch's dropout multiplies with on a CPU."""
    if ratio == 1:
        return torch.zeros_like(x)
    return torch.empty_like(x).bernoulli_(1 - ratio).div_(1 - ratio)
