"""A program of the `npu` dialect, once its instructions are emitted, as the assembler's program."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Block

from ge.dialects.diagnostics import InputError
from ge.dialects.npu.ops import (
    FunctionOp,
    InstOp,
    LabelOp,
    ProgramOp,
    RoutineOp,
    SourceOp,
    TensorOp,
)
from ge.dialects.npu.program import Arena, Blob, Kernel, Program, Tensor
from ge.dialects.npu.routine import Routine
from ge.dialects.npu.tree import KernelOp
from ge.dialects.weights import WeightsAttr
from ge.lowering.emit_instructions import symbols_of


def program_of(op: ProgramOp) -> Program:
    """The program: kernels first, then the other functions, each in order.

    Raises InputError where something is no instruction yet. Weights whose values are not at hand
    are left out.
    """
    program = Program(target=op.target.data, cores=op.cores.value.data)
    if op.arena is not None:
        program.arena = Arena(*op.arena.data)
    _add_tensors(program, op)
    parts = list(op.body.block.ops)
    for part in parts:
        if isinstance(part, KernelOp):
            start = len(program.code)
            name = part.sym_name.data
            _add_code(program, name, part.body.block)
            end = len(program.code)
            sources = _strings(part.sources)
            program.kernels.append(Kernel(name, part.kind.data, sources, start, end))
    for part in parts:
        if isinstance(part, FunctionOp):
            _add_code(program, part.sym_name.data, part.body.block)
        elif isinstance(part, RoutineOp):
            program.routines.append(Routine(part.sym_name.data, part.text.data))
        elif not isinstance(part, KernelOp | TensorOp):
            raise InputError(f"'{part.name}' must have become instructions: run emit-instructions")
    return program


def _add_tensors(program: Program, op: ProgramOp) -> None:
    areas = {"input": program.inputs, "output": program.outputs}
    blobs: dict[str, Blob] = {}
    for tensor, symbol in symbols_of(op).items():
        role, type_ = tensor.role.data, tensor.result.type
        if role in areas:
            name = tensor.label.data if tensor.label else symbol.name
            areas[role].append(Tensor(symbol.name, name, type_.dtype, type_.shape))
        elif isinstance(tensor.value, WeightsAttr):
            value = tensor.value.data
            data = value.data if value.is_here else None
            blobs.setdefault(value.digest, Blob(value.digest, value.nbytes, data))
    program.weights = list(blobs.values())


def _add_code(program: Program, name: str, block: Block) -> None:
    _add_label(program, name)
    for op in block.ops:
        if isinstance(op, InstOp):
            program.code.append(op.inst)
        elif isinstance(op, LabelOp):
            _add_label(program, op.label.data)
        elif isinstance(op, SourceOp):
            # A call of what no node asked for, such as a copy of ours, has no sources.
            if op.sources.data:
                program.calls[len(program.code)] = _strings(op.sources)
        else:
            raise InputError(f"'{op.name}' must have become instructions: run emit-instructions")


def _add_label(program: Program, label: str) -> None:
    if label in program.labels:
        raise InputError(f"label '{label}' must be defined once")
    program.labels[label] = len(program.code)


def _strings(strings: ArrayAttr[StringAttr]) -> tuple[str, ...]:
    return tuple(s.data for s in strings)
