"""`graph` to TorchScript: standard operators of torch, weights as buffers, for torch.jit.load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ge.dialects.diagnostics import InputError, UnsupportedError
from ge.dialects.graph.base import ConstantOp, GraphOp, dims, type_of
from ge.dialects.graph.control import IfOp, LoopOp
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
    source = _Source()
    arguments = [_argument(n, i) for i, n in enumerate(input_names(main))]
    source.lines = [f"def forward(self, {', '.join(f'{a}: Tensor' for a in arguments)}):"]
    for argument, value in zip(arguments, main.body.block.args, strict=True):
        shape = list(dims(type_of(value)))
        source.add(f"assert {argument}.shape == {shape}, 'shape must be {shape}'")
    outs = source.function(main, arguments)
    if source.unknown:
        raise UnsupportedError(
            f"operators must have a form in torch, got {', '.join(source.unknown)}"
        )
    source.add(f"return {outs[0] if len(outs) == 1 else '(' + ', '.join(outs) + ')'}")
    with quiet():
        # Two modules of one class with as many buffers would share their methods, too.
        own_class: type[_Script] = type("_Script", (_Script,), {})
        script = own_class(source.buffers)
        script.define("\n".join(source.lines) + "\n")
    return script


class _Source:
    """Lines of Python, and the tensors that they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.indent = 1
        self.names: dict[SSAValue, str] = {}
        self.buffers: dict[str, torch.Tensor] = {}
        self.unknown: dict[str, None] = {}
        self.count = 0

    def add(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def fresh(self, stem: str = "v") -> str:
        """A name that nothing else has."""
        self.count += 1
        return f"{stem}{self.count - 1}"

    def function(self, function: FuncOp, arguments: Sequence[str]) -> list[str]:
        """Write what a function does; the names of its results."""
        self.names.update(zip(function.body.block.args, arguments, strict=True))
        for op in function.body.block.ops:
            self.operation(op)
        return [self.names[v] for v in return_of(function).arguments]

    def operation(self, op: Operation) -> None:
        if isinstance(op, ConstantOp):
            buffer = f"c{len(self.buffers)}"
            self.names[op.out] = f"self.{buffer}"
            self.buffers[buffer] = to_tensor(op.array.copy())
        elif isinstance(op, GraphOp):
            results = [self.fresh() for _ in op.results]
            self.names.update(zip(op.results, results, strict=True))
            if (write := EXPRESSIONS.get(type(op))) is None:
                self.unknown[op.ONNX] = None
            else:
                self.add(f"{', '.join(results)} = {write(Operands(op, self.names))}")
        elif isinstance(op, IfOp):
            self.choice(op)
        elif isinstance(op, LoopOp):
            self.loop(op)
        elif not isinstance(op, ReturnOp):
            raise UnsupportedError(f"only graph operations have a form in torch, got {op.name}")

    def block(self, head: str, function: FuncOp, arguments: Sequence[str]) -> list[str]:
        """A function under a line that says when it runs."""
        self.add(head)
        self.indent += 1
        results = self.function(function, arguments)
        self.indent -= 1
        return results

    def assign(self, targets: Sequence[str], values: Sequence[str], inside: int = 1) -> None:
        """All values at once; the new ones may be made of the old ones."""
        self.indent += inside
        self.add(f"{', '.join(targets)} = {', '.join(values)}")
        self.indent -= inside

    def choice(self, op: IfOp) -> None:
        condition, *takes = [self.names[v] for v in op.ins]
        results = [self.fresh() for _ in op.outs]
        heads = f"if bool({condition}):", "else:"
        for head, function in zip(heads, op.functions, strict=True):
            self.assign(results, self.block(head, function, takes))
        self.names.update(zip(op.outs, results, strict=True))

    def loop(self, op: LoopOp) -> None:
        (function,) = op.functions
        own, (slices, turns) = op.carried.value.data, op.turns
        if op.conditional and turns:
            raise UnsupportedError("a loop that the data end must give only what it carries")
        given, state = [self.names[v] for v in op.ins], [self.fresh() for _ in range(own)]
        rows = [self.fresh("rows") for _ in turns]
        for row in rows:
            self.add(f"{row}: List[Tensor] = []")
        if own:
            self.assign(state, given[:own], inside=0)
        trip, whole, last = self.fresh("trip"), len(given) - len(slices), (op.most or 0) - 1
        pairs = zip(given[whole:], slices, strict=True)
        places = [f"{x}[{trip if turn > 0 else f'{last} - {trip}'}]" for x, turn in pairs]
        head = f"while bool({state[0]}):" if op.most is None else f"for {trip} in range({op.most}):"
        if op.conditional and op.most is not None:
            self.add(head)
            self.indent += 1
            made = self.block(
                f"if bool({state[0]}):", function, [*state, *given[own:whole], *places]
            )
            self.assign(state, made)
            self.indent -= 1
        else:
            made = self.block(head, function, [*state, *given[own:whole], *places])
            for row, value in zip(rows, made[own:], strict=True):
                self.lines.append("    " * (self.indent + 1) + f"{row}.append({value})")
            if own:
                self.assign(state, made[:own])
        ordered = [r if turn > 0 else f"{r}[::-1]" for r, turn in zip(rows, turns, strict=True)]
        stacks = [f"torch.stack({row})" for row in ordered]
        self.names.update(zip(op.outs, [*state, *stacks], strict=True))


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
