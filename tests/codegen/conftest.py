"""Random programs made from the instruction table: a new row is in all tests at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from ge.codegen.encoding import LABEL_OF, SYMBOL_OF
from ge.dialects.dtypes import DTYPES
from ge.dialects.npu.instr import Inst, Instr
from ge.dialects.npu.isa import INSTRS
from ge.dialects.npu.isa.host import aicpu
from ge.dialects.npu.isa.scalar import call
from ge.dialects.npu.operands import DimsKind, Kind, Name, Sym
from ge.dialects.npu.program import Arena, Blob, Kernel, Program, Tensor
from ge.dialects.npu.routine import Routine
from ge.dialects.weights_file import digest_of

NODES = ('/a/"b"', "é\\\n\x9b;", "卷积", "")
ROUTINE = Routine("r0", "%y0 = graph.det %x0 : (tensor<3x3xf32>) -> tensor<f32>")
REALS = (0.0, -0.0, 0.1, 3.0, -1e-05, 1e22, float("inf"), float("-inf"), float("nan"))


def operand(kind: Kind, rank: int, rng: random.Random) -> Any:
    """What random bits mean: any kind can say, so no kind has to be known here."""
    while True:
        try:
            value, _ = kind.decode(rng.getrandbits(512), 0)
        except ValueError:
            continue
        if isinstance(value, float) and rng.random() < 0.7:
            return rng.choice(REALS)
        if not isinstance(kind, DimsKind) or len(value) == rank:
            return value


def make_inst(row: Instr, rng: random.Random, label: str = "main") -> Inst:
    """An instance with random operands, some of them at their default."""
    rank = rng.randint(1, 4)
    args = [operand(kind, rank, rng) for kind in row.operands.values()]
    if row in LABEL_OF:
        args[LABEL_OF[row]] = Name(label)
    if row is aicpu:
        args = [Sym(ROUTINE.symbol, 0), operand(row.operands["at"], 2, rng)]
    elif row in SYMBOL_OF:
        args[SYMBOL_OF[row]] = Sym("weights", 0)
    named = dict(zip(row.operands, args, strict=True))
    given = {n: v for n, v in named.items() if n not in row.defaults or rng.random() < 0.6}
    return row.with_defaults(given)


def _code(program: Program, rng: random.Random) -> None:
    """One to four functions with labels, branches among them and instructions of every kind."""
    rows = list(INSTRS.values())
    names = [f"f{i}" for i in range(rng.randint(1, 4))]
    for name in names:
        start = len(program.code)
        program.labels[name] = start
        count = rng.randint(1, 25)
        local = [f".L{name}_{i}" for i in range(rng.randint(0, 3))]
        program.labels |= {label: start + rng.randrange(count) for label in local}
        for _ in range(count):
            row = call if rng.random() < 0.1 else rng.choice(rows)
            if row is call and rng.random() < 0.7:
                nodes = rng.choices(NODES, k=rng.randint(1, 3))
                program.calls[len(program.code)] = tuple(nodes)
            program.code.append(make_inst(row, rng, rng.choice([*local, *names])))
        if rng.random() < 0.6:
            sources = tuple(rng.choices(NODES, k=rng.randint(0, 3)))
            program.kernels.append(Kernel(name, "MatMulRelu", sources, start, len(program.code)))


def make_program(seed: int) -> Program:
    """A valid program; the same for the same seed."""
    rng = random.Random(seed)
    program = Program(target=rng.choice(["ascend910b1", "tiny", "my chip.toml"]), cores=2)
    for tensors, name in ((program.inputs, "in"), (program.outputs, "out")):
        for i in range(rng.randint(0, 3)):
            shape = tuple(rng.choice([0, 1, 3, 16]) for _ in range(rng.randint(0, 4)))
            tensors.append(Tensor(f"{name}{i}", f'a "{i}"\n;', rng.choice(DTYPES), shape))
    program.arena = Arena(rng.randrange(1 << 20), rng.randrange(1 << 20), rng.randrange(1 << 40))
    for _ in range(rng.randint(0, 4)):
        data = rng.randbytes(rng.choice([0, 3, 512, 1024, 1025, 3000]))
        kept = memoryview(data) if rng.random() < 0.8 else None
        program.weights.append(Blob(digest_of(data), len(data), kept))
    program.routines.append(ROUTINE)
    _code(program, rng)
    return program


@pytest.fixture(scope="session")
def random_program() -> Callable[[int], Program]:
    return make_program


@pytest.fixture(scope="session")
def random_inst() -> Callable[..., Inst]:
    return make_inst
