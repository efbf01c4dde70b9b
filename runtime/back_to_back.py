"""One inference after the other in one launch: each begins while the one before still computes.

The second of two finds its intermediates and outputs in places of its own, so that its first calls
need nothing of the first one's last. Their loads then run beside its work: only the units of one
core wait for each other, as between calls that do not depend on each other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ge.dialects.npu import target as targets
from ge.dialects.npu.instr import Inst
from ge.dialects.npu.isa import INSTRS, sync
from ge.dialects.npu.isa.sync import FLAGS
from ge.dialects.npu.operands import Sym
from ge.dialects.npu.program import ALIGNMENT, ARENA, Program
from ge.lowering.between_calls import BOTH_WAYS, MEETING, leaving
from ge.runtime.simulator import Simulator

MAIN = "main"
AGAIN = "_again"
"""Ends the symbols and names of the second outputs."""
LAST = FLAGS - 1
"""The flag between two inferences: kernels count theirs from the first."""
MOST = 12
"""Inferences that are timed before the time of one more is taken as it then is."""

_PLAIN = frozenset({"la", "call", "launch", "sync.arrive", "sync.wait", "set_flag", "wait_flag"})
"""What `main` of a compiled program is made of."""


class Series(NamedTuple):
    """How long several inferences take."""

    inferences: int
    cycles: int
    cycles_each: int
    """Of one more, once they follow each other."""
    clock_mhz: int

    @property
    def us(self) -> float:
        return self.cycles / self.clock_mhz

    @property
    def us_each(self) -> float:
        return self.cycles_each / self.clock_mhz

    def __str__(self) -> str:
        return f"{self.inferences} on end: {self.us:.1f} us, {self.us_each:.1f} us for one more"


def series(program: Program, count: int) -> Series:
    """Time `count` inferences on end; one launch each where their code cannot be put together."""
    cycles, steps = [_cycles(program)], []
    if not _joins(program):
        steps = cycles
    while steps is not cycles and len(cycles) < min(count, MOST) and len({*steps[-3:]}) != 1:
        cycles.append(_cycles(back_to_back(program, len(cycles) + 1)))
        steps.append(cycles[-1] - cycles[-2])
    each = steps[-1] if steps else cycles[0]
    total = cycles[-1] + (count - len(cycles)) * each
    return Series(count, total, each, targets.load(program.target).clock_mhz)


def _cycles(program: Program) -> int:
    return Simulator(program).run(mode="timing").stats.cycles or 0


def back_to_back(program: Program, count: int) -> Program:
    """A program of `count` inferences on the same inputs; its code must be compiled code.

    The outputs of every second one have names that end in `_again`.
    """
    start = program.labels[MAIN]
    body = program.code[start:-1]
    arena = -(-program.arena.bytes // ALIGNMENT) * ALIGNMENT
    outputs = [t._replace(symbol=t.symbol + AGAIN, name=t.name + AGAIN) for t in program.outputs]
    second = {t.symbol: t.symbol + AGAIN for t in program.outputs}
    made = replace(
        program,
        outputs=[*program.outputs, *outputs],
        arena=program.arena._replace(bytes=2 * arena),
        code=program.code[:start],
        calls={place: names for place, names in program.calls.items() if place < start},
    )
    for number in range(count):
        made.code += _between(program, number)
        for place, inst in enumerate(body, start):
            if names := program.calls.get(place):
                made.calls[len(made.code)] = names
            made.code.append(_moved(inst, second, arena) if number % 2 else inst)
    made.code.append(program.code[-1])
    return made


def _between(program: Program, number: int) -> list[Inst]:
    """What stands in front of an inference.

    The next but one writes to the same places again: somewhere between the two the cores must meet.
    """
    body = program.code[program.labels[MAIN] :]
    if number == 0 or any(inst.instr is sync.launch for inst in body):
        return []
    meets = number % 2 or any(inst.instr is sync.sync__wait for inst in body)
    steps = leaving(dict.fromkeys(BOTH_WAYS, LAST)) if meets and _leaves(program) else MEETING
    return [INSTRS[name](*args) for name, *args in steps]


def _leaves(program: Program) -> bool:
    """Whether its units may be ordered by flags: the last one of each pair must be free.

    What the AI CPU computes is no work of a unit.
    """
    used = {inst.args for inst in program.code if inst.instr in (sync.set_flag, sync.wait_flag)}
    taken = any((*pair, LAST) in used for pair in BOTH_WAYS)
    return not taken and not program.routines


def _joins(program: Program) -> bool:
    """Whether `main` is the last function, and nothing but calls, meetings and flags.

    What one inference writes over its inputs the next one reads.
    """
    *body, last = program.code[program.labels[MAIN] :]
    plain = all(inst.instr.mnemonic in _PLAIN for inst in body)
    return plain and last.instr.mnemonic == "halt" and not program.state


def _moved(inst: Inst, second: dict[str, str], arena: int) -> Inst:
    """An instruction of the second inference: other intermediates, other outputs."""
    args = []
    for value in inst.args:
        if isinstance(value, Sym) and value.name == ARENA:
            value = Sym(ARENA, value.addend + arena)
        elif isinstance(value, Sym):
            value = Sym(second.get(value.name, value.name), value.addend)
        args.append(value)
    return Inst(inst.instr, tuple(args))
