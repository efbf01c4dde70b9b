"""Graphs of torch.compile as exported programs, and the operators that training takes apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
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

from ge.frontend.torch_operators import decompositions
from ge.frontend.torch_pooling import max_pool, max_pool_backward

aten = torch.ops.aten


@cache
def training_decompositions() -> dict[Any, Callable[..., Any]]:
    """What forward and backward passes are made of, for operators without a translation."""
    table = dict(core_aten_decompositions())
    table |= decompositions()
    table |= get_decompositions([aten.embedding_dense_backward])
    table[aten.convolution_backward.default] = _convolution_backward
    table[aten.max_pool2d_with_indices.default] = max_pool
    table[aten.max_pool2d_with_indices_backward.default] = max_pool_backward
    return table


def program_of_graph(graph: torch.fx.GraphModule) -> ExportedProgram:
    """A graph of flat inputs and outputs as a program; tracing it again would fix its sizes."""
    places = [n for n in graph.graph.nodes if n.op == "placeholder"]
    outs = [v for v in pytree.tree_leaves(graph.graph.output_node().args[0]) if v is not None]
    graph.graph.output_node().args = (tuple(outs),)
    graph.recompile()
    inputs = [InputSpec(InputKind.USER_INPUT, _argument(n), None) for n in places]
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
        verifiers=[torch._export.verifier.Verifier],
    )


def _argument(value: Any) -> Any:
    if not isinstance(value, torch.fx.Node):
        return ConstantArgument("", value)
    kind = TensorArgument if isinstance(value.meta.get("val"), torch.Tensor) else SymIntArgument
    return kind(value.name)


def _convolution_backward(
    grad: Any,
    x: Any,
    w: Any,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    mask: Sequence[bool],
) -> Any:
    """Gradients of a convolution as convolutions."""
    if transposed:
        return NotImplemented
    n = x.dim() - 2
    to_x = to_w = to_b = None
    if mask[0]:
        reached = [
            (grad.shape[2 + i] - 1) * stride[i]
            - 2 * padding[i]
            + dilation[i] * (w.shape[2 + i] - 1)
            + 1
            for i in range(n)
        ]
        rest = [x.shape[2 + i] - r for i, r in enumerate(reached)]
        to_x = aten.convolution(grad, w, None, stride, padding, dilation, True, rest, groups)
    if mask[1]:
        images, kernels = _as_weights(x, groups, 0), _as_weights(grad, groups, 1)
        to_w = aten.convolution(
            images, kernels, None, dilation, padding, stride, False, [0] * n, groups
        ).transpose(0, 1)
        for i in range(n):
            to_w = to_w.narrow(2 + i, 0, w.shape[2 + i])
    if mask[2]:
        to_b = grad.sum([0, *range(2, 2 + n)])
    return to_x, to_w, to_b


def _as_weights(x: Any, groups: int, side: int) -> Any:
    """Channels in the place of the batch, the batch in that of channels, group by group."""
    batch, channels = x.shape[:2]
    apart = x.reshape(batch, groups, channels // groups, *x.shape[2:])
    rest = range(3, x.dim() + 1)
    if side == 0:
        turned = apart.permute(2, 1, 0, *rest)
        return turned.reshape(channels // groups, groups * batch, *x.shape[2:])
    return apart.permute(1, 2, 0, *rest).reshape(channels, batch, *x.shape[2:])
