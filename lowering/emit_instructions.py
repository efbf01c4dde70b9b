"""`emit-instructions`: kernels and calls become instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ge.dialects.diagnostics import InputError
from ge.dialects.npu.operands import Name, Sym
from ge.dialects.npu.ops import (
    INST_OPS,
    ChooseOp,
    FunctionOp,
    InvokeOp,
    LabelOp,
    ProgramOp,
    RepeatOp,
    TensorOp,
)
from ge.dialects.npu.program import ALIGNMENT, ARENA, WEIGHTS
from ge.dialects.npu.tree import KernelOp
from ge.dialects.weights import WeightsAttr
from ge.lowering.between_calls import flags_of
from ge.lowering.emit_kernel import emit, emit_ahead
from ge.lowering.emit_main import main_function
from ge.lowering.load_ahead import AHEAD, Ahead, loads_ahead
from ge.lowering.programs import programs_of
from ge.lowering.scalars import Line


@dataclass(frozen=True)
class EmitInstructionsPass(ModulePass):
    """Write each kernel's loops as scalar code, and the calls as the function `main`."""

    name = "emit-instructions"
    overlap: bool = True
    """Let a call begin before others have ended, where it needs nothing of them."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in programs_of(op):
            trees = [op for op in program.body.block.ops if isinstance(op, KernelOp) and op.dims]
            used = {k.sym_name.data: flags_of(k) for k in trees if self.overlap}
            native = bool(program.native.value.data)
            ahead = loads_ahead(program, used) if self.overlap and native else {}
            for kernel in trees:
                _emit_kernel(program, kernel, ahead.get(kernel.sym_name.data, ()))
            program.body.block.add_op(main_function(program, symbols_of(program), used, ahead))
            for done in reversed(list(program.body.block.ops)):
                if isinstance(done, InvokeOp | ChooseOp | RepeatOp):
                    Rewriter.erase_op(done)


def _emit_kernel(program: ProgramOp, kernel: KernelOp, ahead: Ahead) -> None:
    cores, name = program.cores.value.data, kernel.sym_name.data
    lines = emit(kernel, cores, ahead)
    if ahead:
        first = Block()
        _write(first, emit_ahead(kernel, cores, ahead), f".L{name}{AHEAD}_")
        properties = {"sym_name": StringAttr(name + AHEAD)}
        function = FunctionOp.create(properties=properties, regions=[Region(first)])
        program.body.block.add_op(function)
    args = kernel.body.block.args
    block = Block(arg_types=[a.type for a in args])
    for old, new in zip(args, block.args, strict=True):
        new.name_hint = old.name_hint
    _write(block, lines, f".L{name}_")
    kernel.properties.pop("dims")
    kernel.body.detach_block(0).erase()
    kernel.body.add_block(block)


def _write(block: Block, lines: Sequence[Line], prefix: str) -> None:
    for line in lines:
        block.add_op(_operation(line, prefix))


def _operation(line: Line, prefix: str) -> Operation:
    if line.row is None:
        return LabelOp.create(properties={"label": StringAttr(_label(line.args[0], prefix))})
    args = [
        Name(_label(a, prefix)) if isinstance(a, Name) and a[:1] == "." else a for a in line.args
    ]
    return INST_OPS[line.row.mnemonic].of(*args)


def _label(label: str, prefix: str) -> str:
    return prefix + label.removeprefix(".L")


def symbols_of(program: ProgramOp) -> dict[TensorOp, Sym]:
    """Where each tensor lies: a symbol of its own, or an offset in the weights or the arena."""
    found: dict[TensorOp, Sym] = {}
    inputs: dict[str, Sym] = {}
    counts = {"input": 0, "output": 0}
    blobs: dict[str, int] = {}
    top = 0
    for op in program.body.block.ops:
        if not isinstance(op, TensorOp):
            continue
        role = op.role.data
        if role in counts:
            found[op] = Sym(f"{role.removesuffix('put')}{counts[role]}", 0)
            counts[role] += 1
            if role == "input" and op.label:
                inputs[op.label.data] = found[op]
            elif op.over:
                found[op] = _over(op.over.data, inputs)
        elif role == "weight":
            assert isinstance(op.value, WeightsAttr)
            blob = op.value.data
            if blob.digest not in blobs:
                blobs[blob.digest] = top
                top += -(-blob.nbytes // ALIGNMENT) * ALIGNMENT
            found[op] = Sym(WEIGHTS, blobs[blob.digest])
        else:
            found[op] = Sym(ARENA, op.address.value.data if op.address else 0)
    return found


def _over(label: str, inputs: Mapping[str, Sym]) -> Sym:
    if label not in inputs:
        raise InputError(f"an output must lie where an input does, got '{label}'")
    return inputs[label]
