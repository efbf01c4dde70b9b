"""The time of a program, without its numbers: for whoever has to choose between programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ge.dialects.npu import target as targets
from ge.dialects.npu.isa import sync
from ge.dialects.npu.operands import Addr
from ge.dialects.npu.program import Program
from ge.dialects.npu.routine import Routine
from ge.dialects.npu.target import Target
from ge.timing.areas import symbols
from ge.timing.convoy import walk
from ge.timing.cost import CostModel
from ge.timing.engine import Clock, Meetings
from ge.timing.quick import QuickCode
from ge.timing.skip import Skipper
from ge.timing.steps import Code
from ge.timing.walk import BUDGET, Core


class NoMemory:
    """Scalar loads read 0: what a program does must not depend on them."""

    def read(self, at: Addr, *tile: object) -> tuple[int]:
        return (0,)

    out = read

    def host(self, routine: Routine, places: tuple[int, ...]) -> None:
        """Nothing: what it computes takes the same time."""


class Estimate(NamedTuple):
    """Cycles of a program, its launch included, and the clocks of the cores that were followed."""

    cycles: int
    launch_cycles: int
    clocks: tuple[Clock, ...]


def estimate(program: Program, cores: Iterable[int] | None = None) -> Estimate:
    """Time `program` on `cores`, all of them by default.

    The others are taken to use the memory as the program says, and to arrive no later.
    """
    target = targets.load(program.target)
    meetings = meetings_of(program, target)
    model = CostModel(target)
    code = Code(program, target, symbols(program))
    quick, skipper = QuickCode(code, alone=True), Skipper(code)
    clocks, followed = [], []
    for number in range(program.cores) if cores is None else cores:
        clock = Clock(model, meetings, program.cores, trace=False)
        core = Core(code, number, NoMemory(), [clock], BUDGET)
        core.entries, core.skipper = quick.entries, skipper
        clock.follow(core)
        clocks.append(clock)
        followed.append(core)
    walk(followed)
    return Estimate(max(clock.end for clock in clocks), meetings.start, tuple(clocks))


def meetings_of(program: Program, target: Target) -> Meetings:
    """The meetings of a program that the host starts once, or as often as it says itself."""
    return Meetings(target, any(inst.instr is sync.launch for inst in program.code))
