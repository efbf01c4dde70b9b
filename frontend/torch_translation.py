"""torch.onnx's own translations with ours among them, read once: it would do so for each model."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import onnx_ir as ir
from torch.export import ExportedProgram
from torch.onnx._internal.exporter import _core, _decomp, _fx_passes
from torch.onnx._internal.exporter._registration import ONNXRegistry

from ge.frontend.torch_operators import MISTAKEN, decompositions, translations
from ge.frontend.torch_random import DRAWN

OPSET = 23
"""The first that has attention and RMS norms as operators."""


def taken_apart(program: ExportedProgram) -> ExportedProgram:
    """The program without side effects, of operators that have a translation."""
    return program.run_decompositions(_known_parts() | decompositions())


def translated(program: ExportedProgram) -> ir.Model:
    """A program that was taken apart in ONNX; it is changed.

    `torch.onnx.export` would take it apart again, as if nobody had looked at its side effects.
    """
    graph = program.graph_module
    _fx_passes.insert_type_promotion_nodes(graph)
    program._graph_module = _fx_passes.remove_assertion_nodes(graph)
    made: ir.Model = _core._exported_program_to_onnx_program(program, registry=_registry()).model
    return made


@cache
def _registry() -> ONNXRegistry:
    registry = ONNXRegistry.from_torchlib(OPSET)
    for operator in MISTAKEN:
        del registry.functions[operator.name()]
    for operator, translation in translations().items():
        registry.register_op(operator, translation)
    return registry


@cache
def _known_parts() -> dict[Any, Callable[..., Any]]:
    """What torch takes apart where it has no translation, but for what draws numbers."""
    known = set(_decomp.get_onnx_implemented_overloads(_registry()))
    table = _decomp.create_onnx_friendly_decomposition_table(known)
    return {operator: parts for operator, parts in table.items() if operator not in DRAWN}
