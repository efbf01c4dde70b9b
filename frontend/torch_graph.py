"""Graphs of torch.compile as exported programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from torch.utils import _pytree as pytree

SPARSE = torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors.default

Output = Callable[[Iterator[torch.Tensor]], Any]
"""Takes what it is made of from what a program gives."""


def program_of_graph(graph: torch.fx.GraphModule) -> ExportedProgram:
    """A graph of flat inputs and outputs as a program; tracing it again would fix its sizes."""
    places = [n for n in graph.graph.nodes if n.op == "placeholder"]
    outs = [v for v in pytree.tree_leaves(graph.graph.output_node().args[0]) if v is not None]
    graph.graph.output_node().args = (tuple(outs),)
    constants = _constants(graph)
    graph.recompile()
    inputs = [
        *(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(n), n) for n in constants),
        *(InputSpec(InputKind.USER_INPUT, _argument(n), None) for n in places),
    ]
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, _argument(v), None) for v in outs]
    in_spec = pytree.tree_flatten((tuple(range(len(places))), {}))[1]
    out_spec = pytree.tree_flatten(tuple(range(len(outs))))[1]
    entry = ModuleCallEntry("", ModuleCallSignature([], [], in_spec, out_spec))
    return ExportedProgram(
        graph,
        graph.graph,
        ExportGraphSignature(inputs, outputs),
        {},
        {},
        [entry],
        example_inputs=None,
        constants=constants,
        verifiers=[torch._export.verifier.Verifier],
    )


def outputs_apart(graph: torch.fx.GraphModule) -> list[Output]:
    """What puts each output together of those that the graph has from now on.

    A sparse one, as gradients of embeddings may be, comes as its places and values.
    """
    last = graph.graph.output_node()
    parts: list[Any] = []
    found: list[Output] = []
    for value in pytree.tree_leaves(last.args[0], is_leaf=lambda v: v is None):
        if value is None:
            found.append(_nothing)
        elif value.target is SPARSE:
            parts += value.args[3:5]
            found.append(partial(_sparse, size=value.args[2], how=value.kwargs))
        else:
            parts.append(value)
            found.append(_form(value.meta["val"]))
    last.args = (tuple(parts),)
    graph.graph.eliminate_dead_code()
    return found


def _form(value: Any) -> Output:
    """How one thing that a program gives becomes an output."""
    if not isinstance(value, torch.Tensor):
        return _number
    return _pairs if value.is_complex() else next


def _nothing(rest: Iterator[torch.Tensor]) -> None:
    """What has no gradient."""


def _pairs(rest: Iterator[torch.Tensor]) -> torch.Tensor:
    return torch.view_as_complex(next(rest))


def _number(rest: Iterator[torch.Tensor]) -> int:
    return int(next(rest))


def _sparse(
    rest: Iterator[torch.Tensor], size: Sequence[int], how: Mapping[str, Any]
) -> torch.Tensor:
    places, values = next(rest), next(rest)
    known = how.get("is_coalesced")
    return torch.sparse_coo_tensor(places, values, size, is_coalesced=known, check_invariants=False)


def _constants(graph: torch.fx.GraphModule) -> dict[str, torch.Tensor]:
    """The tensors that a graph reads out of its module, which become inputs of their own."""
    found: dict[str, torch.Tensor] = {}
    first = next(iter(graph.graph.nodes))
    for node in list(graph.graph.nodes):
        if node.op != "get_attr" or not isinstance(getattr(graph, node.target), torch.Tensor):
            continue
        with graph.graph.inserting_before(first):
            place = graph.graph.placeholder(node.target)
        place.meta = dict(node.meta)
        node.replace_all_uses_with(place)
        graph.graph.erase_node(node)
        found[place.name] = getattr(graph, node.target)
    return found


def _argument(value: Any) -> Any:
    if not isinstance(value, torch.fx.Node):
        return ConstantArgument("", value)
    kind = TensorArgument if isinstance(value.meta.get("val"), torch.Tensor) else SymIntArgument
    return kind(value.name)
