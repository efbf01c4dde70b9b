"""A program made ready to run: each instruction as a function of the register file, made once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from operator import itemgetter
from typing import Any

from ge.dialects.diagnostics import InputError, did_you_mean
from ge.dialects.npu.instr import Inst
from ge.dialects.npu.operands import (
    Addr,
    Kind,
    LabelKind,
    NumKind,
    Reg,
    RoutineKind,
    Sym,
    SymKind,
    Value,
)
from ge.dialects.npu.places import Unit
from ge.dialects.npu.program import Program
from ge.dialects.npu.routine import Routine
from ge.dialects.npu.target import Target

Registers = list[int]
Entry = Callable[[Any, Registers], Any]
"""What the walk calls for an instruction: with the core and its registers."""

QUEUES = tuple(Unit)
NUMBER = {unit: number for number, unit in enumerate(QUEUES)}
SCALAR = NUMBER[Unit.S]
MAIN = "main"


class Step:
    """An instruction of a program, its operands turned into code when that is first needed."""

    def __init__(self, index: int, inst: Inst, args: tuple[Value, ...], queue: int) -> None:
        self.index = index
        self.inst = inst
        self.works = inst.instr.work is not None
        self.queue = queue
        """The queue it runs in; flags are sent to one when they run."""
        self.costs: dict[Any, Any] = {}
        """What the clock remembers of it, by the values of `sizes`."""
        self.sizes = _sizes(args)
        """The registers that decide its cost; None if there are none."""
        self._args = args

    @cached_property
    def run(self) -> Entry:
        """Runs the body on a core."""
        return self._bind(self.inst.instr.execute)

    def arguments(self, registers: Registers) -> tuple[Value, ...]:
        """The operands as numbers and absolute addresses."""
        found: tuple[Value, ...] = self._bind(lambda _, *args: args)(None, registers)
        return found

    def sized(self, registers: Registers) -> tuple[Value, ...]:
        """The operands as numbers, but for addresses: those decide no cost."""
        found: list[Value] = []
        for value in self._args:
            if type(value) is Addr:
                value = None
            elif type(value) is Reg:
                value = registers[value.number]
            elif type(value) is tuple and self.sizes:
                value = tuple([registers[n.number] if type(n) is Reg else n for n in value])
            found.append(value)
        return tuple(found)

    def _bind(self, execute: Callable[..., Any]) -> Entry:
        shape = _Shape()
        kinds = self.inst.instr.operands.values()
        text = ", ".join(map(shape.operand, kinds, self._args))
        return _factory(text, len(shape.values))(execute, tuple.__new__, Addr, *shape.values)

    def issue(self, core: Any, registers: Registers) -> None:
        core.issue(self, registers)

    def scalar(self, core: Any, registers: Registers) -> None:
        core.scalar(self, registers)


class _Shape:
    """Writes operands as Python source; the values themselves stay out of it."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def constant(self, value: Value) -> str:
        self.values.append(value)
        return f"c{len(self.values) - 1}"

    def number(self, value: Value) -> str:
        if isinstance(value, Reg):
            return f"r[{self.constant(value.number)}]"
        return self.constant(value)

    def operand(self, kind: Kind, value: Value) -> str:
        if isinstance(value, Addr) and value.base is not None:
            space, base = self.constant(value.space), self.number(value.base)
            return f"new(Addr, ({space}, {base} + {self.constant(value.offset)}, None))"
        if type(value) is tuple and any(isinstance(v, Reg) for v in value):
            return f"({', '.join(map(self.number, value))},)"
        return self.number(value) if isinstance(kind, NumKind) else self.constant(value)


@cache
def _factory(shape: str, constants: int) -> Callable[..., Entry]:
    """Code for all instructions whose operands look alike; a program has few such shapes.

    The source consists of fixed words and numbered names only, never of a program's text.
    """
    names = "".join(f", c{i}" for i in range(constants))
    made: Callable[..., Entry] = eval(
        f"lambda execute, new, Addr{names}: lambda m, r: execute(m{', ' if shape else ''}{shape})"
    )
    return made


def _sizes(args: tuple[Value, ...]) -> Callable[[Registers], Any] | None:
    numbers: list[int] = []
    for value in args:
        if isinstance(value, Reg):
            numbers.append(value.number)
        elif type(value) is tuple:
            numbers += [v.number for v in value if isinstance(v, Reg)]
    return itemgetter(*numbers) if numbers else None


class Code:
    """All steps of a program, the walk's entries, and names for places."""

    def __init__(self, program: Program, target: Target, symbols: Mapping[str, int]) -> None:
        self.program = program
        self.target = target
        self._symbols = symbols
        self._routines = {routine.symbol: routine for routine in program.routines}
        self.queue_of = queues(target)
        self.steps: dict[int, Step] = {}
        """The steps that have been made so far."""
        self.entries: list[Entry] = [self._first_time] * len(program.code)
        """What to call for an instruction. A step is made when it is first reached."""
        self.entries.append(lambda core, _: core.ran_past())
        self.kernel_of = [-1] * (len(program.code) + 1)
        for number, kernel in enumerate(program.kernels):
            self.kernel_of[kernel.start : kernel.end] = [number] * (kernel.end - kernel.start)
        named = {place: name for name, place in program.labels.items() if name[0] != "."}
        self._places = sorted(named)
        self._names = [named[place] for place in self._places]
        self.main = self.label(MAIN)

    def where(self, index: int) -> str:
        """`k0+12`: the function an instruction is in, and its number there."""
        found = bisect_right(self._places, index) - 1
        if found < 0:
            return f"+{index}"
        return f"{self._names[found]}+{index - self._places[found]}"

    def sources(self, kernel: int, call: int) -> tuple[str, ...]:
        """The model's nodes that a run of a kernel stands for: those of its call, or its own."""
        if kernel < 0:
            return ()
        return self.program.calls.get(call, self.program.kernels[kernel].sources)

    def text(self, index: int) -> str:
        """An instruction with its place, for messages."""
        return f"'{self.program.code[index]}' ({self.where(index)})"

    def step(self, index: int) -> Step:
        """The step of an instruction."""
        found = self.steps.get(index)
        if found is None:
            found = self.steps[index] = self._step(self.program.code[index], index)
        return found

    def entry(self, step: Step) -> Entry:
        """What runs a step: work is handed to its unit, the rest the scalar unit does itself."""
        if step.inst.instr.work is None:
            return step.run
        return step.scalar if step.queue == SCALAR else step.issue

    def _step(self, inst: Inst, index: int) -> Step:
        row = inst.instr
        args = tuple(
            self._bound(kind, value)
            for kind, value in zip(row.operands.values(), inst.args, strict=True)
        )
        queue = self.queue_of[row.unit] if isinstance(row.unit, Unit) else SCALAR
        return Step(index, inst, args, queue)

    def _first_time(self, core: Any, registers: Registers) -> None:
        """Make the step that `core` has come to, and run it."""
        index = core.place - 1
        entry = self.entries[index] = self.entry(self.step(index))
        entry(core, registers)

    def operand(self, inst: Inst, index: int) -> Value:
        """An operand of an instruction, labels and symbols as numbers."""
        return self._bound(list(inst.instr.operands.values())[index], inst.args[index])

    def _bound(self, kind: Kind, value: Value) -> Value:
        if isinstance(kind, LabelKind):
            return self.label(value)
        if isinstance(kind, RoutineKind):
            return self._routine(value)
        if isinstance(kind, SymKind):
            return self._address(value)
        return value

    def label(self, name: str) -> int:
        """The instruction that a label stands for."""
        place = self.program.labels.get(name)
        if place is None:
            raise InputError(f"unknown label '{name}'{did_you_mean(name, self.program.labels)}")
        if not 0 <= place <= len(self.program.code):
            raise InputError(f"label '{name}' must lie in the code, got instruction {place}")
        return place

    def _routine(self, symbol: Sym) -> Routine:
        if symbol.name not in self._routines:
            hint = did_you_mean(symbol.name, self._routines)
            raise InputError(f"unknown routine '{symbol.name}'{hint}")
        return self._routines[symbol.name]

    def _address(self, symbol: Sym) -> int:
        if symbol.name not in self._symbols:
            hint = did_you_mean(symbol.name, self._symbols)
            raise InputError(f"unknown symbol '{symbol.name}'{hint}")
        return self._symbols[symbol.name] + symbol.addend


def queues(target: Target) -> dict[Unit, int]:
    """The queue of each unit: where the two kinds of loads share one, they have one number."""
    numbers = dict(NUMBER)
    if target.shared_mte2:
        numbers[Unit.MTE2V] = numbers[Unit.MTE2]
    return numbers
