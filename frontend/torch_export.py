"""`graph` to TorchScript: standard operators of torch, weights as buffers, for torch.jit.load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from ge.dialects.diagnostics import InputError, UnsupportedError
from ge.dialects.graph.base import ConstantOp, GraphOp, dims, type_of
from ge.dialects.graph.module import input_names, main_of, return_of
from ge.frontend.torch_arrays import to_tensor
from ge.frontend.torch_capture import quiet
from ge.frontend.torch_expressions import EXPRESSIONS, Operands


class _Script(torch.jit.ScriptModule):
    """A module that gets its forward pass from source."""

    def __init__(self, buffers: dict[str, torch.Tensor]) -> None:
        super().__init__()
        # When this ends torch turns it into a script: buffers cannot be added any more.
        for name, value in buffers.items():
            self.register_buffer(name, value)


def export_script(module: ModuleOp) -> torch.jit.ScriptModule:
    """The model as a ScriptModule."""
    main = main_of(module)
    buffers: dict[str, torch.Tensor] = {}
    names: dict[SSAValue, str] = {}
    arguments = [_argument(n, i) for i, n in enumerate(input_names(main))]
    names.update(zip(main.body.block.args, arguments, strict=True))
    lines = [f"def forward(self, {', '.join(f'{a}: Tensor' for a in arguments)}):"]
    for argument, value in zip(arguments, main.body.block.args, strict=True):
        shape = list(dims(type_of(value)))
        lines.append(f"    assert {argument}.shape == {shape}, 'shape must be {shape}'")
    unknown: dict[str, None] = {}
    for op in main.body.block.ops:
        if isinstance(op, ConstantOp):
            buffer = f"c{len(buffers)}"
            names[op.out] = f"self.{buffer}"
            buffers[buffer] = to_tensor(op.array.copy())
        elif isinstance(op, GraphOp):
            results = [f"v{len(names) + i}" for i in range(len(op.results))]
            names.update(zip(op.results, results, strict=True))
            if (write := EXPRESSIONS.get(type(op))) is None:
                unknown[op.ONNX] = None
            else:
                lines.append(f"    {', '.join(results)} = {write(Operands(op, names))}")
        elif not isinstance(op, ReturnOp):
            raise UnsupportedError(f"only graph operations have a form in torch, got {op.name}")
    if unknown:
        raise UnsupportedError(f"operators must have a form in torch, got {', '.join(unknown)}")
    outs = [names[v] for v in return_of(main).arguments]
    lines.append(f"    return {outs[0] if len(outs) == 1 else '(' + ', '.join(outs) + ')'}")
    with quiet():
        script = _Script(buffers)
        script.define("\n".join(lines) + "\n")
    return script


def save_script(module: ModuleOp, path: Path) -> None:
    """Write the model to a file that torch.jit.load reads."""
    write_script(export_script(module), path)


def write_script(script: Any, path: Path) -> None:
    """Write a ScriptModule; raises InputError for a path that cannot be written."""
    try:
        with quiet():
            torch.jit.save(script, path)
    except RuntimeError as e:
        raise InputError(f"must be writable: {e}", str(path)) from None


def _argument(name: str, number: int) -> str:
    return name if name.isidentifier() and not name.startswith("v") else f"x{number}"
