"""PyTorch to one ONNX model in memory: what a module does with tensors of given shapes.

Everything from torch comes through here: `torch.export` traces, `torch.onnx` translates. Both are
known to lose or change things silently; what is done about it stands beside each.
"""

from __future__ import annotations

import inspect
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir
import torch
from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, OutputKind, OutputSpec
from torch.fx.experimental.proxy_tensor import make_fx
from torch.jit import ScriptModule
from torch.utils import _pytree as pytree

from ge.dialects.diagnostics import UnsupportedError
from ge.frontend.torch_random import Draws
from ge.frontend.torch_records import opened
from ge.frontend.torch_refusals import OUTSIDE, refusal
from ge.frontend.torch_state import FIXED, Kept, attribute_tensors
from ge.frontend.torch_translation import taken_apart, translated

MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)


@dataclass
class Structure:
    """How a result, and what is kept in attributes by name, are put together.

    The leaves that are tensors are computed, the others known.
    """

    spec: Any = None
    leaves: list[Any] = field(default_factory=list)
    """None for a tensor, COMPLEX for one that the program gives as pairs of numbers."""
    tensors: list[bool] = field(default_factory=list)

    def note(self, result: Any, kept: dict[str, Any]) -> tuple[torch.Tensor, ...]:
        """Take what was traced apart; the tensors in order."""
        leaves, self.spec = pytree.tree_flatten((pytree.tree_map(opened, result), kept))
        other = [v for v in leaves if not isinstance(v, (torch.Tensor, *FIXED))]
        if other:
            raise UnsupportedError(
                "a result must be of tensors, numbers, texts, and lists or dataclasses of them, "
                f"got a {type(other[0]).__name__}"
            )
        self.tensors = [isinstance(v, torch.Tensor) for v in leaves]
        self.leaves = [form_of(v) if t else v for v, t in zip(leaves, self.tensors, strict=True)]
        return tuple(v for v, t in zip(leaves, self.tensors, strict=True) if t)

    def restore(self, tensors: Sequence[torch.Tensor]) -> Any:
        """A pair like the traced one, of these tensors."""
        rest = iter(tensors)
        pairs = zip(self.leaves, self.tensors, strict=True)
        whole = [_restored(next(rest), v) if t else v for v, t in pairs]
        return pytree.tree_unflatten(whole, self.spec)


COMPLEX = "complex"


def form_of(tensor: torch.Tensor) -> str | None:
    """What a Structure notes of a tensor."""
    return COMPLEX if tensor.is_complex() else None


def _restored(tensor: Any, form: str | None) -> Any:
    known = form == COMPLEX and isinstance(tensor, torch.Tensor)
    return torch.view_as_complex(tensor) if known else tensor


@dataclass
class Captured:
    """An ONNX model, and what its inputs and outputs are to the module that it came from."""

    model: ir.Model | None
    """None for what a cache remembers: its program is there already."""
    inputs: list[str]
    """Those of the tensors that are given, in order."""
    outputs: list[str]
    """Those of the tensors that come back, in order."""
    structure: Structure | None
    """None where the model's outputs come back as they are."""
    buffers: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Buffers that a run changes, by their names in the module: input and output."""
    changed: dict[int, str] = field(default_factory=dict)
    """Given tensors that a run changes: their place, and the output that they become."""
    recorded: list[str] = field(default_factory=list)
    """Attributes that a run gives new tensors without a look at the old ones."""

    draws: Draws | None = None
    """What is drawn for a run; None for what a cache remembers, which draws nothing."""

    def drawn(self, given: Sequence[Any]) -> dict[str, torch.Tensor]:
        """Random numbers for a run of what is given."""
        return self.draws(given) if self.draws else {}

    @property
    def in_place(self) -> dict[str, str]:
        """Inputs that a run changes, each with the output that they become."""
        changed = {self.inputs[place]: output for place, output in self.changed.items()}
        return changed | {given: made for given, made in self.buffers.values() if given}


class _Flat(nn.Module):
    """The module as a function of tensors only; everything else that was given is fixed."""

    def __init__(self, module: nn.Module, leaves: Sequence[Any], spec: Any, out: Structure) -> None:
        super().__init__()
        self.module = module
        self._fixed = [None if isinstance(v, torch.Tensor) else (v,) for v in leaves]
        self._spec = spec
        self._out = out

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rest = iter(tensors)
        leaves = [next(rest) if v is None else v[0] for v in self._fixed]
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        before = Kept(self.module)
        try:
            # The hooks of the module run outside, where a call of it runs them.
            result = self.module.forward(*args, **kwargs)
        finally:
            kept = before.undo()
        return self._out.note(result, kept)


def capture_module(module: nn.Module, leaves: Sequence[Any], spec: Any) -> Captured:
    """What `module` does with arguments of the shapes, and the values besides tensors, given.

    `leaves` and `spec` are `(args, kwargs)` taken apart. Raises UnsupportedError for a module that
    looks at the values of its tensors.
    """
    structure = Structure()
    tensors = tuple(v.detach() for v in leaves if isinstance(v, torch.Tensor))
    flat = _Flat(module, leaves, spec, structure)
    # A buffer of the same name would hide it: what is traced is not trained.
    flat.training = module.training
    with quiet(), experts_as_products(module), torch.no_grad():
        try:
            traced = _interpreted(flat, tensors) if isinstance(module, ScriptModule) else flat
            program = torch.export.export(traced, tensors, strict=False)
        except Exception as e:
            name = getattr(module, "original_name", type(module).__name__)
            raise refusal(e, name) from e
        captured = capture_program(program)
    captured.structure = structure
    captured.recorded = _recorded(module, structure, program)
    _rename_inputs(captured, argument_names(module, leaves, spec))
    captured.buffers = {
        name.removeprefix("module."): pair for name, pair in captured.buffers.items()
    }
    return captured


def _recorded(module: nn.Module, structure: Structure, program: ExportedProgram) -> list[str]:
    """Attributes that are written and not read."""
    _, kept = structure.restore([*range(sum(structure.tensors))])
    read = {id(v) for v in program.constants.values()}
    return [n for n in kept if not any(id(v) in read for v in attribute_tensors(module, n))]


def _interpreted(flat: nn.Module, tensors: Sequence[torch.Tensor]) -> nn.Module:
    """What the interpreter of TorchScript does with tensors of which only the shapes are known."""

    def run(*given: torch.Tensor) -> Any:
        return flat(*given)

    # What it would do to be faster compares constants, which are traced as well; layers of mkldnn
    # have no translation.
    with torch.jit.optimized_execution(False), without_mkldnn():
        made: nn.Module = make_fx(run, tracing_mode="fake", _allow_non_fake_inputs=True)(*tensors)
    return made


def capture_program(program: ExportedProgram) -> Captured:
    """An exported program, its side effects made outputs: torch.onnx would drop them."""
    count = len(program.graph_signature.user_inputs)
    with quiet():
        try:
            functional = taken_apart(program)
            draws = Draws(functional)
            effects = _effects_as_outputs(functional)
            model = translated(functional)
        except Exception as e:
            raise refusal(e, "the exported program") from e
    return _captured(model, count, effects, draws)


def _effects_as_outputs(program: ExportedProgram) -> list[OutputSpec]:
    """Turn everything that comes out into plain outputs; returns what they were, in order."""
    signature = program.graph_signature
    before = list(signature.output_specs)
    other = [s for s in before if s.kind not in (OutputKind.USER_OUTPUT, *MUTATIONS)]
    if other:
        what = other[0].kind.name
        raise UnsupportedError(f"a program must give tensors back, got a {what}; {OUTSIDE}")
    specs = [OutputSpec(OutputKind.USER_OUTPUT, s.arg, None) for s in before]
    program._graph_signature = ExportGraphSignature(signature.input_specs, specs)
    flat = pytree.tree_flatten(tuple(range(len(specs))))[1]
    program._module_call_graph[0].signature.out_spec = flat
    return before


def _captured(model: ir.Model, count: int, effects: Sequence[OutputSpec], draws: Draws) -> Captured:
    graph = model.graph
    given = [v.name or "" for v in graph.inputs]
    for draw, name in zip(draws.each, given[count:], strict=False):
        draw.name = name
    if len(given) != count + len(draws.each):
        raise UnsupportedError(f"a program must take {count} tensors, its ONNX form {len(given)}")
    if not effects:
        raise UnsupportedError("a program must give tensors back or change some, got none")
    outputs = _apart(graph)
    captured = Captured(model, given[:count], [], None, draws=draws)
    for name, effect in zip(outputs, effects, strict=True):
        if effect.kind is OutputKind.BUFFER_MUTATION:
            assert effect.target is not None
            captured.buffers[effect.target] = (_as_input(graph, effect.target), name)
        elif effect.kind is OutputKind.USER_INPUT_MUTATION:
            captured.changed[given.index(effect.target or "")] = name
        else:
            captured.outputs.append(name)
    return captured


def _apart(graph: ir.Graph) -> list[str]:
    """Names of the outputs; one that is an input, or comes twice, becomes a copy."""
    taken = {v.name for v in graph.inputs}
    names = []
    for i, value in enumerate(list(graph.outputs)):
        if value.name in taken or value.producer() is None:
            copy = ir.Node("", "Identity", [value])
            copy.outputs[0].name = f"{value.name}_out{i}"
            copy.outputs[0].type, copy.outputs[0].shape = value.type, value.shape
            graph.append(copy)
            graph.outputs[i] = value = copy.outputs[0]
        taken.add(value.name)
        names.append(value.name or "")
    return names


def _as_input(graph: ir.Graph, buffer: str) -> str:
    """A buffer that changes is an input, not a constant; one nobody reads is none either."""
    value = graph.initializers.pop(buffer, None)
    if value is None:
        return ""
    value.const_value = None
    graph.inputs.append(value)
    return buffer


@contextmanager
def experts_as_products(module: nn.Module) -> Iterator[None]:
    """Mixtures of experts as plain products: what transformers prefers has no translation."""
    name = "_experts_implementation_internal"
    configs = {id(c): c for part in module.modules() if (c := getattr(part, "config", None))}
    changed = [c for c in configs.values() if getattr(c, name, None) == "grouped_mm"]
    for config in changed:
        setattr(config, name, "batched_mm")
    try:
        yield
    finally:
        for config in changed:
            setattr(config, name, "grouped_mm")


@contextmanager
def without_mkldnn() -> Iterator[None]:
    """Without layers that only torch's CPU has; torch's own switch warns of GPUs."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


@contextmanager
def quiet() -> Iterator[None]:
    """Without what the exporters log and warn of, which no user of ours can act on."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [log.level for log in loggers]
    gqa = os.environ.get("TRANSFORMERS_SDPA_FORCE_GQA")
    # Without it keys are repeated for every head that shares them.
    os.environ.setdefault("TRANSFORMERS_SDPA_FORCE_GQA", "1")
    for log in loggers:
        log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if gqa is None:
            del os.environ["TRANSFORMERS_SDPA_FORCE_GQA"]
        for log, level in zip(loggers, before, strict=True):
            log.setLevel(level)


LOGGERS = (
    "torch.onnx",
    "torch.onnx._internal.exporter._registration",
    "torch.export",
    "torch.fx.experimental.symbolic_shapes",
    "onnxscript",
)


def argument_names(module: nn.Module, leaves: Sequence[Any], spec: Any) -> list[str]:
    """What the module calls its tensors; `x_0`, `x_1` are those in a list `x`."""
    args, kwargs = pytree.tree_unflatten(list(range(len(leaves))), spec)
    if isinstance(module, ScriptModule):
        known = (a.name for a in module.forward.schema.arguments[1:])
        bound = {**dict(zip(known, args, strict=False)), **kwargs}
    else:
        bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    names = [f"in{i}" for i in range(len(leaves))]
    for name, value in bound.items():
        inner = pytree.tree_leaves(value)
        for i, number in enumerate(inner):
            names[number] = name if value is number else f"{name}_{i}"
    return [n for n, v in zip(names, leaves, strict=True) if isinstance(v, torch.Tensor)]


def _rename_inputs(captured: Captured, names: Sequence[str]) -> None:
    assert captured.model is not None
    graph = captured.model.graph
    taken = {v.name for v in graph.outputs} | set(graph.initializers)
    if taken.isdisjoint(names) and len(set(names)) == len(names) == len(captured.inputs):
        for value, name in zip(graph.inputs, names, strict=False):
            value.name = name
        captured.inputs[:] = names


def flatten_arguments(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """`(args, kwargs)` taken apart, and how to put it together."""
    leaves, spec = pytree.tree_flatten((tuple(args), kwargs))
    return leaves, spec
