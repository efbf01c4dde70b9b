"""An ExportedProgram that runs on the device, for the shapes it is open for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ge.dialects.diagnostics import InputError
from ge.frontend.torch_arrays import shape_of_array
from ge.frontend.torch_capture import Structure, capture_program, form_of
from ge.lowering.pipelines import Options
from ge.runtime.torch_model import Specialised


class TorchProgram:
    """Compiles the program for every shape that it is called with: one if it is closed."""

    def __init__(
        self, program: torch.export.ExportedProgram, options: Options, *, check: bool = False
    ) -> None:
        self.program = program
        self.options = options
        self.check = check
        self.last: Specialised | None = None
        self._captured = capture_program(program)
        self._captured.structure = _structure(program)
        self._known: dict[Any, Specialised] = {}
        self._module = program.module(check_guards=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the program gives, computed by the device."""
        tensors = self._tensors(args, kwargs)
        return self._specialised(tensors).run(self._module, tensors, check=self.check)

    def saved(self) -> Specialised:
        """What is saved; raises InputError while shapes are open."""
        if self.last is None:
            self.last = self._specialised([])
        return self.last

    @property
    def compiles(self) -> int:
        """How many programs there are."""
        return len(self._known)

    def _specialised(self, tensors: Sequence[torch.Tensor]) -> Specialised:
        key = tuple((t.dtype, tuple(t.shape)) for t in tensors)
        if key not in self._known:
            given = zip(self._captured.inputs, tensors, strict=False)
            shapes = {n: shape_of_array(t) for n, t in given}
            self._known[key] = Specialised.of(self._captured, self.options, shapes)
        self.last = self._known[key]
        return self.last

    def _tensors(self, args: Any, kwargs: Any) -> list[torch.Tensor]:
        """The tensors of a call, which must be put together like those of the export."""
        spec = self.program.call_spec.in_spec
        ordered = args
        if kwargs and spec is not None:
            names = [*self.program.graph_signature.user_inputs]
            positional = spec.child(0).num_children
            ordered = (
                *args,
                *(kwargs.pop(n) for n in names[len(args) : positional] if n in kwargs),
            )
        leaves, found = pytree.tree_flatten((tuple(ordered), kwargs))
        if spec is not None and found != spec:
            raise InputError(f"arguments must be like those of the export, {spec}, got {found}")
        return [v for v in leaves if isinstance(v, torch.Tensor)]


def _structure(program: torch.export.ExportedProgram) -> Structure:
    spec = program.call_spec.out_spec
    assert spec is not None
    outs = [s.arg for s in program.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    made = {n.name: n.meta.get("val") for n in program.graph.nodes}
    tensors = [not hasattr(a, "value") for a in outs]
    known = [
        form_of(made[a.name]) if is_tensor else a.value
        for a, is_tensor in zip(outs, tensors, strict=True)
    ]
    result = pytree.tree_unflatten(range(len(outs)), spec)
    # A program keeps nothing in attributes.
    return Structure(pytree.tree_structure((result, {})), known, tensors)
