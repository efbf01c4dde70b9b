"""What of a module its programs depend on, and how captures are noted beside them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ge.frontend.torch_arrays import to_array
from ge.frontend.torch_capture import Captured, Structure
from ge.lowering.pipelines import Options
from ge.runtime.program_cache import digest


def module_key(
    module: nn.Module, leaves: Sequence[Any], spec: Any, options: Options, state: Sequence[Any]
) -> str | None:
    """The digest of a module called with such arguments; None for code that lies in no file."""
    try:
        code = list(_code(module))
    except (OSError, TypeError):
        return None
    forms = [
        f"{v.dtype} {tuple(v.shape)}" if isinstance(v, torch.Tensor) else repr(v) for v in leaves
    ]
    versions = [f"{n} {_version(n)}" for n in ("torch", "transformers", "onnxscript")]
    described = [repr(module), repr(spec), repr(options), repr(state), *forms, *versions]
    return digest([*described, *code, *_weights(module)])


def _code(module: nn.Module) -> Iterator[bytes]:
    """The files of all classes that a module is made of, and what their configurations say."""
    classes = dict.fromkeys(c for part in module.modules() for c in type(part).__mro__)
    outside = [c for c in classes if not c.__module__.startswith(("torch.", "builtins"))]
    for path in dict.fromkeys(inspect.getsourcefile(c) or "" for c in outside):
        if path:
            yield Path(path).read_bytes()
    for part in module.modules():
        config: Any = getattr(part, "config", None)
        if hasattr(config, "to_json_string"):
            yield config.to_json_string().encode()
            return


def _weights(module: nn.Module) -> Iterator[bytes]:
    for tensors in (module.named_parameters(), module.named_buffers()):
        for name, tensor in tensors:
            array = to_array(tensor)
            yield f"{name} {array.dtype} {array.shape}".encode()
            yield array.tobytes()


def _version(name: str) -> str:
    return getattr(sys.modules.get(name), "__version__", "")


def notes_of(captured: Captured) -> dict[str, Any] | None:
    """What a capture is besides its model, as JSON; None for what JSON cannot describe."""
    structure = captured.structure
    if structure is None or (captured.draws and captured.draws.each):
        return None
    try:
        spec = pytree.treespec_dumps(structure.spec)
        known = all(isinstance(v, (bool, int, float, str, type(None))) for v in structure.leaves)
    except (NotImplementedError, TypeError):
        return None
    if not known:
        return None
    return {
        "inputs": captured.inputs,
        "outputs": captured.outputs,
        "spec": spec,
        "leaves": structure.leaves,
        "tensors": structure.tensors,
        "buffers": captured.buffers,
        "changed": list(captured.changed.items()),
        "recorded": captured.recorded,
    }


def captured_of(notes: dict[str, Any]) -> Captured:
    """A capture without its model."""
    structure = Structure(pytree.treespec_loads(notes["spec"]), notes["leaves"], notes["tensors"])
    buffers = {name: (i, o) for name, (i, o) in notes["buffers"].items()}
    changed = {int(place): name for place, name in notes["changed"]}
    of_tensors = buffers, changed, notes["recorded"]
    return Captured(None, notes["inputs"], notes["outputs"], structure, *of_tensors)
