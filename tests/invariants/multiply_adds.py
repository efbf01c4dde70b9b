"""Counts what the cube multiplies and adds while a program runs."""

from __future__ import annotations

from typing import Any

from ge.dialects.npu import target as targets
from ge.dialects.npu.isa.cube import mmad
from ge.dialects.npu.program import Program
from ge.timing.areas import symbols
from ge.timing.convoy import walk
from ge.timing.estimate import NoMemory
from ge.timing.listener import Listener
from ge.timing.steps import Code, Registers, Step
from ge.timing.walk import BUDGET, Core


class Counter(Listener):
    """Adds up the sizes of all products."""

    def __init__(self) -> None:
        self.count = 0

    def issue(self, step: Step, registers: Registers, queue: int, waiting: int) -> Any:
        if step.inst.instr is mmad:
            named = dict(zip(mmad.operands, step.arguments(registers), strict=True))
            self.count += named["m"] * named["n"] * named["k"]


def executed(program: Program) -> int:
    """Multiply-adds of all cores."""
    target = targets.load(program.target)
    code = Code(program, target, symbols(program))
    counter = Counter()
    walk([Core(code, n, NoMemory(), [counter], BUDGET) for n in range(program.cores)])
    return counter.count
