"""The time of a kernel's tree by itself, from the engine that times whole programs."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from ge.dialects.npu.instr import Inst
from ge.dialects.npu.isa import INSTRS
from ge.dialects.npu.operands import Name, Reg, Sym
from ge.dialects.npu.program import ARENA, Arena, Kernel, Program
from ge.dialects.npu.target import Target
from ge.dialects.npu.tree import KernelOp
from ge.lowering.allocate_buffers import allocate
from ge.lowering.choose_copies import give
from ge.lowering.emit_kernel import emit
from ge.lowering.hint_cache import hint_kernel
from ge.lowering.insert_sync import insert
from ge.timing.estimate import estimate

MAIN = "main"


class Machine(NamedTuple):
    """What a kernel is built for."""

    name: str
    """Of the target."""
    cores: int
    overlap: bool = True
    """The matrix and the vector unit work on different tiles at once."""


def cycles(kernel: KernelOp, target: Target, machine: Machine, cold: Container[int]) -> int:
    """Cycles of the busiest core; the tree is scheduled for it and of no use afterwards.

    `cold` are the operands that device memory delivers or takes. The first core has as many blocks
    as any other, and the costliest. Raises DoesNotFit.
    """
    give(kernel, target)
    allocate(kernel)
    insert(kernel, machine.cores, machine.overlap)
    hint_kernel(kernel, cold, machine.cores, target)
    program = _alone(kernel, machine)
    found = estimate(program, cores=[0])
    return found.cycles - found.launch_cycles


def _alone(kernel: KernelOp, machine: Machine) -> Program:
    """A program that calls the kernel once; where its tensors lie does not matter to the clock."""
    program = Program(machine.name, machine.cores, arena=Arena(1))
    symbol = kernel.sym_name.data
    program.labels[symbol] = 0
    for line in emit(kernel, machine.cores):
        if line.row is None:
            program.labels[line.args[0]] = len(program.code)
        else:
            program.code.append(Inst(line.row, line.args))
    end = program.labels[MAIN] = len(program.code)
    program.kernels.append(Kernel(symbol, kernel.kind.data, (), 0, end))
    for register, _ in enumerate(kernel.body.block.args):
        program.code.append(INSTRS["la"](Reg(register), Sym(ARENA, 0)))
    program.code += [INSTRS["call"](Name(symbol)), INSTRS["halt"]()]
    return program
