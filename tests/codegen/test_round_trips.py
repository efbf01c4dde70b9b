"""Every form of a program leads back to every other."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ge.codegen.encoding import LABEL_OF, PENDING, SYMBOL_OF, decode, encode
from ge.codegen.manual import isa_page
from ge.codegen.objects import attach_weights, read_object, write_object
from ge.codegen.parse_asm import parse_asm
from ge.codegen.print_asm import print_asm, save_asm
from ge.dialects.diagnostics import InputError
from ge.dialects.npu.instr import Inst, Instr
from ge.dialects.npu.isa import INSTRS
from ge.dialects.npu.places import Unit
from ge.dialects.npu.program import Blob, Program
from ge.dialects.weights_file import WeightsFile, WeightsFolder, digest_of, write_weights
from tests.codegen.conftest import ROUTINE

rows = pytest.mark.parametrize("row", INSTRS.values(), ids=INSTRS.keys())
seeds = pytest.mark.parametrize("seed", range(25))
HEAD = f'.target tiny, cores=1\n.routine {ROUTINE.symbol}, "{ROUTINE.text}"\n'
MakeProgram = Callable[[int], Program]


@rows
def test_every_instruction_is_documented(row: Instr) -> None:
    assert row.doc.endswith(".")
    assert row.hardware or row.unit is Unit.S


@rows
def test_every_instruction_round_trips(row: Instr, random_inst: Callable[..., Inst]) -> None:
    rng = random.Random(row.opcode)
    for _ in range(20):
        inst = random_inst(row, rng)
        text = f'{HEAD}main: {inst}\n.section .rodata\nweights: .hex "00"'
        (parsed,) = parse_asm(text).code
        assert str(parsed) == str(inst)
        assert encode(parsed) == encode(inst)
        decoded, end = decode(b"\xff" * 8 + encode(inst), 8)
        assert end == 8 + len(encode(inst))
        assert encode(decoded) == encode(inst)
        if row not in LABEL_OF and row not in SYMBOL_OF:
            assert str(decoded) == str(inst)
        if row in SYMBOL_OF:
            assert decoded.args[SYMBOL_OF[row]] is PENDING


@seeds
def test_text_round_trips(seed: int, random_program: MakeProgram, tmp_path: Path) -> None:
    program = random_program(seed)
    save_asm(program, tmp_path / "p.s")
    text = (tmp_path / "p.s").read_text("utf-8")
    again = parse_asm(text, "p.s", WeightsFolder(tmp_path))
    assert print_asm(again, "p.weights") == text
    assert again.labels == program.labels
    assert (again.kernels, again.calls) == (program.kernels, program.calls)
    assert again.routines == program.routines
    assert (again.inputs, again.outputs, again.arena) == (
        program.inputs,
        program.outputs,
        program.arena,
    )
    assert again.weights == program.weights
    assert write_object(again) == write_object(program)


@seeds
def test_objects_round_trip(seed: int, random_program: MakeProgram, tmp_path: Path) -> None:
    program = random_program(seed)
    data = write_object(program)
    again = read_object(data)
    assert write_object(again) == data
    assert (again.kernels, again.calls) == (program.kernels, program.calls)
    assert again.weights == program.weights
    save_asm(again, tmp_path / "p.s")
    text = (tmp_path / "p.s").read_text("utf-8")
    assert write_object(parse_asm(text, "p.s", WeightsFolder(tmp_path))) == data


@seeds
def test_external_weights_leave_digests(seed: int, random_program: MakeProgram) -> None:
    program = random_program(seed)
    again = read_object(write_object(program, external_weights=True))
    assert [(b.digest, b.bytes) for b in again.weights] == [
        (b.digest, b.bytes) for b in program.weights
    ]
    assert all(b.data is None for b in again.weights if b.bytes > 1024)
    # Text without a weights file leaves the same values out.
    assert write_object(parse_asm(print_asm(program))) == write_object(program, True)


def test_weights_come_back_from_their_file(random_program: MakeProgram, tmp_path: Path) -> None:
    program = random_program(3)
    data = bytes(5000)
    program.weights = [Blob(digest_of(data), len(data), memoryview(data))]
    write_weights(tmp_path / "p.weights", [(digest_of(data), data)])
    outside = read_object(write_object(program, external_weights=True))
    assert outside.weights[0].data is None
    attach_weights(outside, WeightsFile(tmp_path / "p.weights").__getitem__)
    assert write_object(outside) == write_object(program)
    outside.weights[0] = Blob(digest_of(data), 4000, None)
    with pytest.raises(InputError, match="must have 4000 bytes, has 5000"):
        attach_weights(outside, WeightsFile(tmp_path / "p.weights").__getitem__)


def test_too_many_weights_stay_outside(
    random_program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = random_program(3)
    monkeypatch.setattr("ge.codegen.objects.MOST_WEIGHTS_BYTES", 0)
    program.weights = [Blob(digest_of(b"x" * 2000), 2000, memoryview(b"x" * 2000))]
    assert read_object(write_object(program)).weights[0].data is None


def test_words_are_opcode_length_and_operands() -> None:
    """Encodings counted by hand: 16 bits of head, 7 of a register, 64 of a constant."""
    li, loop, halt = parse_asm(".target tiny, cores=1\nmain: li x3, -2\nloop x5, main\nhalt").code
    assert int.from_bytes(encode(li), "little") == (
        0x01 | 2 << 10 | 3 << 16 | ((1 << 64) - 2) << 23
    )
    assert encode(loop) == (0x07 | 1 << 10 | 1 << 16 | 5 << 17).to_bytes(8, "little")
    assert encode(halt) == (0x0A | 1 << 10).to_bytes(8, "little")


def test_the_manual_is_fresh() -> None:
    page = Path(__file__).parents[2] / "docs" / "isa.md"
    assert page.read_text("utf-8") == isa_page()


def test_a_long_instruction_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ge.codegen.encoding.MOST_WORDS", 1)
    with pytest.raises(ValueError, match="must fit 1 words of 8 bytes, takes 2"):
        encode(parse_asm(".target tiny, cores=1\nmain: li x1, 5").code[0])
