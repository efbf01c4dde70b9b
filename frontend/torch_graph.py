"""Graphs of torch.compile as exported programs."""

from __future__ import annotations

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
