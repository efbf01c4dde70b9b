import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ge.dialects.diagnostics import CheckFailed, UnsupportedError
from ge.dialects.npu.instr import Inst
from ge.dialects.npu.isa import INSTRS
from ge.dialects.npu.operands import (
    Addr,
    AtKind,
    DimsKind,
    Kind,
    LabelKind,
    Name,
    NumKind,
    RealKind,
    Reg,
    RegKind,
    RoutineKind,
    Sym,
    SymKind,
    WideKind,
    WordKind,
)
from ge.dialects.npu.places import Space
from ge.dialects.npu.program import Arena, Program
from ge.dialects.npu.routine import Routine
from ge.runtime.simulator import simulate

REGISTERS = 6
PLACES = 8


def number(rng: random.Random) -> Any:
    return Reg(rng.randrange(REGISTERS)) if rng.random() < 0.3 else rng.choice([-1, 0, 1, 2, 4, 7])


def address(kind: Kind, rng: random.Random) -> Addr:
    assert isinstance(kind, AtKind)
    base = Reg(0) if kind.space is Space.GM else None
    return Addr(kind.space, rng.choice([0, 0, 64, 0x1000, 2, 1 << 30]), base)


MAKE: dict[type, Callable[[Any, random.Random], Any]] = {
    RegKind: lambda _, rng: Reg(rng.randrange(1, REGISTERS)),
    NumKind: lambda _, rng: number(rng),
    WideKind: lambda _, rng: rng.choice([0, 1, 5, -(1 << 63), (1 << 63) - 1]),
    RealKind: lambda _, rng: rng.choice([0.0, 1.5, float("nan"), float("inf"), -1e30]),
    AtKind: address,
    LabelKind: lambda _, rng: Name(f".L{rng.randrange(PLACES)}"),
    RoutineKind: lambda _, rng: Sym("r0", 0),
    SymKind: lambda _, rng: Sym("arena", rng.choice([0, 64, 1 << 20])),
    WordKind: lambda kind, rng: rng.choice(kind.rows)[1],
}


def some_inst(rng: random.Random) -> Inst:
    row = rng.choice(list(INSTRS.values()))
    rank = rng.randint(1, 3)
    args = []
    for kind in row.operands.values():
        if isinstance(kind, DimsKind):
            args.append(tuple(number(rng) for _ in range(rank)))
        else:
            args.append(MAKE[type(kind)](kind, rng))
    return row(*args)


def some_program(seed: int) -> Program:
    rng = random.Random(seed)
    program = Program("tiny", 2, arena=Arena(1 << 16))
    program.code = [INSTRS["la"](Reg(0), Sym("arena", 0x100))]
    program.code += [some_inst(rng) for _ in range(rng.randint(1, 12))]
    program.code.append(INSTRS["halt"]())
    text = "%y0 = graph.det %x0 : (tensor<1x2x2xf32>) -> tensor<1xf32>"
    program.routines = [Routine("r0", text)]
    program.labels = {f".L{i}": rng.randrange(len(program.code)) for i in range(PLACES)}
    program.labels["main"] = 0
    return program


def outcome(seed: int) -> str:
    try:
        simulate(some_program(seed), check_hazards=True, trace=True, budget=300)
    except (CheckFailed, UnsupportedError) as e:
        return str(e)
    return "done"


@pytest.mark.parametrize("start", range(0, 3000, 500))
def test_no_program_is_more_than_a_fault(start: int) -> None:
    found = Counter(outcome(seed) == "done" for seed in range(start, start + 500))
    assert found[True] > 20
    assert found[False] > 20
