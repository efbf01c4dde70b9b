"""The instruction that has the AI CPU compute: values, order, time, and texts that mean harm."""

from __future__ import annotations

import random
import re
from contextlib import suppress

import numpy as np
import pytest

from ge.codegen.objects import read_object, write_object
from ge.codegen.parse_asm import parse_asm
from ge.codegen.print_asm import print_asm
from ge.dialects.diagnostics import CheckFailed, InputError
from ge.dialects.npu import target as targets
from ge.dialects.npu.program import Program
from ge.dialects.npu.routine import MOST_CHARACTERS, Routine, text_of
from ge.runtime.hazards import Hazard
from ge.runtime.simulator import simulate
from tests.machine_programs import machine_program

DET = "%y0 = graph.det %x0 : (tensor<2x2xf32>) -> tensor<f32>"
HEADER = f"""
.input in0, "x", f32, 2x2
.output out0, "y", f32, scalar
.arena 65536
.routine r0, "{DET}"
"""
CALL = "la x1, in0\n la x2, out0\n aicpu r0, at=[x1,x2]\n"


def program(body: str = CALL, header: str = HEADER, cores: int = 1) -> Program:
    return machine_program(body, cores=cores, header=header)


def hazards(ran: Program) -> tuple[Hazard, ...]:
    given = {"x": np.eye(2, dtype=np.float32)}
    return simulate(ran, given, mode="functional", check_hazards=True).hazards


def test_it_computes_and_takes_its_time() -> None:
    x = np.array([[1, 2], [3, 5]], np.float32)
    result = simulate(program(), {"x": x}, check_hazards=True)
    assert not result.hazards
    assert result.outputs["y"] == np.float32(-1)
    target = targets.load("tiny")
    rate = target.rates["aicpu"]
    launch = round(target.launch_us * target.clock_mhz)
    busy = int(np.ceil(rate.start + 5 * rate.item)) + rate.latency
    assert result.stats.cycles == launch + 3 * target.issue + busy + target.issue
    assert (result.stats.hbm_read, result.stats.hbm_write) == (16, 4)


def test_its_time_needs_no_values() -> None:
    body = f"li x9, 0\n loop 7, .Le\n {CALL} add x9, x9, 1\n .Le: halt"
    timed = simulate(program(body), {"x": np.eye(2, dtype=np.float32)}).stats
    for skip in (True, False):
        assert simulate(program(body), mode="timing", skip=skip).stats.cycles == timed.cycles


def test_what_it_reads_must_be_there() -> None:
    store = "la x1, arena\n la x2, out0\n st.gm gm[x1], ub[0], size=[4], ds=[1], ss=[1], f32\n"
    call = "aicpu r0, at=[x1,x2]\n"
    for order, count in (("", 1), ("barrier\n", 0)):
        found = hazards(program(store + order + call))
        assert len(found) == count


def test_what_it_writes_must_be_waited_for_by_other_cores() -> None:
    body = """
    la x1, arena
    la x2, arena+0x200
    core x3
    bnz x3, .Lother
    aicpu r0, at=[x1,x2]
    {}
    jump .Lend
.Lother:
    {}
    ld.ub ub[0], gm[x2], size=[1], strides=[1], f32
.Lend: halt"""
    meet = "sync.arrive\n sync.wait"
    for order, count in (("", 1), (meet, 0)):
        ran = program(body.format(order, order), cores=2)
        found = hazards(ran)
        assert len(found) == count


def test_wrong_places_are_faults() -> None:
    with pytest.raises(CheckFailed, match="of 'in0' must only be read"):
        hazards(program("la x1, in0\n aicpu r0, at=[x1,x1]"))
    with pytest.raises(CheckFailed, match="nothing lies there"):
        hazards(program("aicpu r0, at=[x1,x1]"))


def test_values_without_a_result_are_faults() -> None:
    text = "%y0 = graph.reverse_sequence %x0, %x1 : (tensor<4x1xf32>, tensor<1xi64>) -> "
    header = f'.arena 4096\n.routine r0, "{text}tensor<4x1xf32>"'
    body = "la x1, arena\n aicpu r0, at=[x1,x1,x1]"
    with pytest.raises(CheckFailed, match="ReverseSequence has no result: lengths must be 0 to 4"):
        simulate(program(body, header), mode="functional")


def test_forms_of_a_program_keep_its_routines() -> None:
    made = program()
    data = write_object(made)
    again = read_object(data)
    assert again.routines == made.routines
    assert write_object(again) == data
    assert write_object(parse_asm(print_asm(again))) == data


WRONG = {
    "": "operation",
    "%y0 = graph.det": "Expected ':'",
    '"builtin.module"() ({^bb0:}) : () -> ()': "must be an operator that the AI CPU computes",
    '%y0 = "test.op"() : () -> tensor<f32>': "not registered",
    DET + "\n" + DET: "must end behind one operation",
    DET.replace("x0", "z"): "must be as it is printed: %y0 = graph.det %x0",
    DET.replace("det", "relu"): "must be an operator|result must be",
    DET.replace("2x2", "2x3"): "must be square",
    DET.replace("2x2", "?x2"): "static shape",
    DET.replace("f32>)", "tf32>)"): "element type",
    DET.replace("2x2", "2x2x2"): "result must be tensor<2xf32>",
    "(" * 5000: "operation",
    "%y0 = graph.det %x0 {a = "
    + "[" * 5000
    + "} : (tensor<2x2xf32>) -> tensor<f32>": "nested|Expected|expected",
    "x" * (MOST_CHARACTERS + 1): f"at most {MOST_CHARACTERS} characters",
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_texts_that_are_no_routine_are_refused(text: str) -> None:
    made = program()
    data = write_object(made)
    made.routines = [Routine("r0", text)]
    with pytest.raises(ValueError, match=WRONG[text]):
        write_object(made)
    if len(text.encode()) <= len(DET):
        spoilt = data.replace(DET.encode(), text.encode().ljust(len(DET)))
        with pytest.raises(InputError, match="error: routine 'r0': "):
            read_object(spoilt, "p.o")


CONV = (
    '%y0 = graph.conv %x0, %x1 {strides = [2, 2], source = "a"} '
    ": (tensor<1x2x9x9xf64>, tensor<4x2x3x3xf64>) -> tensor<1x4x4x4xf64>"
)
ODD = ("", "0", "-1", "9223372036854775808", "1e999", '"', "[", "}", "f16", "graph.det", "_", "\n")


def test_texts_edited_at_random_are_read_or_refused() -> None:
    rng = random.Random(5)
    tokens = list(re.finditer(r"[A-Za-z_.]+|-?\d+|[^\sA-Za-z_\d]", CONV))
    for _ in range(300):
        old = rng.choice(tokens)
        new = rng.choice([*ODD, rng.choice(tokens)[0]])
        routine = Routine("r0", CONV[: old.start()] + new + CONV[old.end() :])
        with suppress(ValueError):
            assert text_of(routine.operation) == routine.text


def test_routines_have_their_place_in_the_text() -> None:
    lines = {
        "aicpu r01, at=[x1,x2]": "unknown routine 'r01'; did you mean 'r0'",
        "aicpu r0, at=[x1]": "'r0' must be given 2 addresses, got 1",
        "aicpu r0+0x4, at=[x1,x2]": "'routine' of 'aicpu' must be a routine, got r0\\+0x4",
        "la x1, r0": "unknown symbol 'r0'",
        "call r0": "unknown label 'r0'",
    }
    for line, message in lines.items():
        with pytest.raises(InputError, match=message):
            program(line)
    with pytest.raises(InputError, match="<asm>:6:10: error: routine 'r1': "):
        program(CALL, f'{HEADER}.routine r1, "nothing"'.lstrip())
    with pytest.raises(InputError, match="'r0' must stand for one thing, is defined twice"):
        program(CALL, f'{HEADER}.routine r0, "{DET}"')


def test_sections_of_routines_are_checked() -> None:
    data = write_object(program())
    for old, new, message in (
        (DET.encode(), DET.encode().replace(b"det", b"\xff\xff\xff"), "must be text"),
        (b"\0.ge.routines", b"\0.ge.routinez", "unknown section"),
    ):
        with pytest.raises(InputError, match=message):
            read_object(data.replace(old, new), "p.o")
