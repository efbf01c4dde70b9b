"""Files of PyTorch: `.pt2` of torch.export, `.pt` of TorchScript."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch
from torch import nn

from ge.dialects.diagnostics import InputError, shape_advice
from ge.frontend.torch_capture import (
    Captured,
    capture_module,
    capture_program,
    flatten_arguments,
    quiet,
)


def load_torch(path: Path) -> Any:
    """The ExportedProgram or the ScriptModule of a file."""
    if not path.is_file():
        raise InputError("must be a readable file, no such file", str(path))
    if path.suffix == ".pt2":
        return _read(path, lambda: torch.export.load(path), "a program of torch.export")
    return _read(
        path,
        lambda: torch.jit.load(path, map_location="cpu"),
        "a TorchScript module: save it with torch.jit.save, not with torch.save",
    )


def _read(path: Path, read: Callable[[], Any], what: str) -> Any:
    try:
        with quiet():
            return read()
    except Exception as e:
        # torch has no family of errors for files that it does not understand.
        first = next((line for line in str(e).splitlines() if line.strip()), type(e).__name__)
        raise InputError(f"must be {what}, got: {first}", str(path)) from None


def read_torch(path: Path, shapes: Mapping[str, Sequence[int]]) -> ir.Model:
    """A file's model; the inputs of a TorchScript module are floats of the shapes given."""
    model = load_torch(path)
    if isinstance(model, torch.export.ExportedProgram):
        return _model(capture_program(model))
    assert isinstance(model, nn.Module)
    args = [torch.zeros(*shape) for shape in _ordered(model, shapes, path)]
    leaves, spec = flatten_arguments(args, {})
    return _model(capture_module(model, leaves, spec))


def _model(captured: Captured) -> ir.Model:
    assert captured.model is not None
    return captured.model


def _ordered(model: Any, shapes: Mapping[str, Sequence[int]], path: Path) -> list[Sequence[int]]:
    names = script_arguments(model)
    missing = [name for name in names if name not in shapes]
    unknown = [name for name in shapes if name not in names]
    if unknown:
        raise InputError(f"a shape must be for one of {names}, got '{unknown[0]}'", str(path))
    if missing:
        raise InputError(
            f"input '{missing[0]}' must have a shape, TorchScript has none; "
            + shape_advice(missing[0], "1,2,..."),
            str(path),
        )
    return [shapes[name] for name in names]


def script_arguments(model: Any) -> list[str]:
    """What `forward` of a ScriptModule takes, optional arguments left out."""
    return [a.name for a in model.forward.schema.arguments[1:] if not a.has_default_value()]
