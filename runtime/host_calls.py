"""Where a program asks the AI CPU: every use is named, because each costs much."""

from __future__ import annotations

from typing import Any, NamedTuple

from ge.dialects.npu.isa.host import aicpu
from ge.dialects.npu.isa.scalar import call
from ge.dialects.npu.program import Program


class HostCall(NamedTuple):
    """One operator that the AI CPU computes: its nodes of the model, and the bytes it touches."""

    operator: str
    nodes: tuple[str, ...]
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """The call as part of a report."""
        return self._asdict()

    def __str__(self) -> str:
        return f"{self.operator} '{', '.join(self.nodes)}'"


def host_calls(program: Program) -> list[HostCall]:
    """The calls of kernels that ask the AI CPU, in order."""
    routines = {routine.symbol: routine for routine in program.routines}
    kernels = {
        kernel.symbol: routines[inst.args[0].name]
        for kernel in program.kernels
        for inst in program.code[kernel.start : kernel.end]
        if routines and inst.instr is aicpu
    }
    found = []
    for number, inst in enumerate(program.code if kernels else ()):
        if inst.instr is call and inst.args[0] in kernels:
            routine = kernels[inst.args[0]]
            nodes = program.calls.get(number, ())
            found.append(HostCall(routine.operator, nodes, routine.bytes))
    return found
