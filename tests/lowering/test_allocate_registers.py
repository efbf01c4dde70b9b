"""Registers hold what they held before they had numbers: both programs are interpreted."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from ge.dialects.diagnostics import DoesNotFit
from ge.dialects.npu.isa import INSTRS
from ge.dialects.npu.operands import REGISTERS, Addr, Name, Reg
from ge.dialects.npu.places import Space
from ge.lowering.allocate_registers import KEPT, allocate
from ge.lowering.scalars import Line, Scalar, ScalarWriter, Virtual

COMPUTE: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
}
ARGUMENTS = 3


class _Machine:
    """Runs scalar lines; what any other instruction is given is its trace."""

    def __init__(self, lines: list[Line], registers: dict[Any, int]) -> None:
        self.lines = lines
        self.registers = registers
        self.trace: list[Any] = []
        self.places = {line.args[0]: at for at, line in enumerate(lines) if line.row is None}

    def value(self, arg: Any) -> Any:
        if isinstance(arg, Reg | Virtual):
            return self.registers[arg]
        if isinstance(arg, Addr):
            return arg.offset + (self.registers[arg.base] if arg.base is not None else 0)
        return tuple(map(self.value, arg)) if type(arg) is tuple else arg

    def run(self, start: int = 0, end: int | None = None) -> None:
        at = start
        while at < (len(self.lines) if end is None else end):
            row, args = self.lines[at]
            at += 1
            if row is None:
                continue
            if row.mnemonic == "loop":
                place = self.places[str(args[1])]
                for _ in range(self.value(args[0])):
                    self.run(at, place)
                at = place
            elif row.mnemonic == "bz":
                at = self.places[str(args[1])] if self.value(args[0]) == 0 else at
            else:
                self.step(row.mnemonic, args)

    def step(self, mnemonic: str, args: tuple[Any, ...]) -> None:
        if mnemonic == "li":
            self.registers[args[0]] = args[1]
        elif mnemonic in COMPUTE:
            self.registers[args[0]] = COMPUTE[mnemonic](self.value(args[1]), self.value(args[2]))
        else:
            self.trace.append((mnemonic, *map(self.value, args)))


class _Writer:
    """Random code with loops, guarded parts, variables and values used far from where they are."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.out = ScalarWriter()
        self.arguments = [self.out.register() for _ in range(ARGUMENTS)]
        self.block(list(self.arguments), [], depth=0)

    def block(self, values: list[Scalar], variables: list[Virtual], depth: int) -> None:
        for _ in range(self.rng.randrange(3, 8)):
            kind = self.rng.choice(("compute",) * 4 + ("use",) * 3 + ("variable", "loop", "guard"))
            if kind == "compute":
                a, b = self.rng.choice(values), self.rng.choice([*values, 3, -7])
                values.append(self.out.compute(self.rng.choice(list(COMPUTE)), a, b))
            elif kind == "use":
                self.use(values)
            elif kind == "variable":
                variables = [*variables, self.out.variable(self.rng.choice(values))]
                values.append(variables[-1])
            elif depth < 3:
                self.part(values, variables, depth, kind)

    def use(self, values: list[Scalar]) -> None:
        base = self.rng.choice([v for v in values if isinstance(v, Virtual)])
        at = Addr(Space.UB, 64, base)  # type: ignore[arg-type]  # virtual until allocated
        size = tuple(self.rng.choice(values) for _ in range(3))
        self.out.emit("vfill", at, 0.0, size, size, None)

    def part(self, values: list[Scalar], variables: list[Virtual], depth: int, kind: str) -> None:
        end = self.out.label()
        if kind == "loop":
            self.out.emit("loop", self.rng.randrange(3), Name(end))
        else:
            self.out.emit("bz", self.rng.choice(values), Name(end))
        with self.out.scope():
            self.block(list(values), variables, depth + 1)
            for variable in variables:
                self.out.emit("add", variable, variable, self.rng.choice(values))
        self.out.place(end)


@pytest.mark.parametrize("seed", range(60))
def test_every_use_sees_its_definition(seed: int) -> None:
    written = _Writer(seed)
    numbers = [5, -2, 11]
    before = _Machine(written.out.lines, dict(zip(written.arguments, numbers, strict=True)))
    before.run()
    places = {v: Reg(i) for i, v in enumerate(written.arguments)}
    lines = allocate(written.out.lines, places, "test")
    after = _Machine(lines, {Reg(i): n for i, n in enumerate(numbers)})
    after.run()
    assert after.trace == before.trace


def test_too_many_values_at_once_are_refused() -> None:
    out = ScalarWriter()
    start = out.register()
    values = [out.add(start, n) for n in range(1, REGISTERS + 2)]
    for value in values:
        at = Addr(Space.UB, 0, value)  # type: ignore[arg-type]
        out.emit("vfill", at, 0.0, (1,), (1,), None)
    with pytest.raises(
        DoesNotFit, match=f"test needs more than {REGISTERS - KEPT} scalar registers at once"
    ):
        allocate(out.lines, {start: Reg(0)}, "test")


def test_what_nothing_reads_is_left_out() -> None:
    out = ScalarWriter()
    start = out.register()
    out.add(out.mul(start, 3), 1)
    out.emit("ret")
    assert allocate(out.lines, {start: Reg(0)}, "test") == [Line(INSTRS["ret"], ())]
