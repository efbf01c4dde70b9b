"""Object files: what others read in them, and files that mean harm."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from ge.codegen import elf
from ge.codegen.check import Fault
from ge.codegen.encoding import DecodeError, decode, encode
from ge.codegen.objects import read_object, write_object
from ge.codegen.parse_asm import parse_asm
from ge.dialects.diagnostics import InputError
from ge.dialects.npu.program import Kernel, Program

MakeProgram = Callable[[int], Program]

TEXT = """.target tiny, cores=2
.input in0, "x", f32, 4
.kernel k0, "Add", "/add"
k0: loop x1, .Lend
  vadd ub[0], ub[64], ub[128], size=[4], ds=[1], sa=[1], sb=[1], f32
.Lend: ret
.function main
main: la x5, in0+0x4
  la x6, weights
  .source "/add"
  call k0
  halt
.section .rodata
weights: .hex "00112233"
"""


def test_other_tools_read_an_object() -> None:
    file = ELFFile(io.BytesIO(write_object(parse_asm(TEXT))))
    assert file.header.e_machine == elf.MACHINE
    sections: dict[str, Any] = {s.name: s for s in file.iter_sections()}
    names = list(sections)
    assert names == [
        *("", ".text", ".rodata", ".note.ge", ".ge.srcmap"),
        *(".symtab", ".strtab", ".rela.text", ".shstrtab"),
    ]
    symbols = {s.name: s.entry for s in sections[".symtab"].iter_symbols()}
    assert list(symbols) == ["", "k0", "main", "weights", "arena", "in0"]
    assert symbols["main"].st_value == symbols["k0"].st_size
    assert symbols["weights"].st_shndx == names.index(".rodata")
    assert symbols["in0"].st_shndx == "SHN_UNDEF"
    assert symbols["in0"].st_size == 16
    relocations = list(sections[".rela.text"].iter_relocations())
    assert [r["r_addend"] for r in relocations] == [4, 0]
    (note,) = sections[".note.ge"].iter_notes()
    assert note.n_name == "GE"


@pytest.mark.parametrize("seed", range(300))
def test_damaged_objects_are_refused_or_read(seed: int, random_program: MakeProgram) -> None:
    """Truncated or changed bytes give one line of message, or a program; never anything else."""
    rng = random.Random(seed)
    data = bytearray(write_object(random_program(seed % 30)))
    if seed % 3 == 0:
        del data[rng.randrange(len(data)) :]
    for _ in range(rng.randint(1, 8) if data and seed % 3 else 0):
        # Headers and tables lie at both ends: half of the changes go there.
        near = rng.choice([len(data), 64])
        at = rng.randrange(near) if rng.random() < 0.5 else len(data) - 1 - rng.randrange(near)
        data[at] = rng.choice([rng.randrange(256), data[at] ^ 1 << rng.randrange(8), 0, 255])
    message = _outcome(bytes(data))
    assert "\n" not in message
    assert message == "" or message.startswith("p.o: ")


def _outcome(data: bytes) -> str:
    """The message that reading gives; none if the object is good, so that it can be written."""
    try:
        write_object(read_object(data, "p.o"))
    except InputError as e:
        return str(e)
    return ""


HOSTILE = [
    (b'"cores":2', b'"cores":9', "cores must be 1 to 2, got 9"),
    (b'"cores":2', b'"cores":x', "'.note.ge' must hold JSON"),
    (b'"version":1', b'"version":2', "must be of object version 1, got 2"),
    (b'"f32"', b'"f33"', "dtype must be an element type, got 'f33'"),
    (b'"shape":[4]', b'"shape":"a"', "shape must be a list"),
    (b'"shape":[4]', b'"shape":{1}', "'.note.ge' must hold JSON"),
    (b'"shape":[4]', b'"shape":[-]', "'.note.ge' must hold JSON"),
    (b'"here":true', b'"here":null', "'here' of a blob must be true or false"),
    (b'"symbol":"in0"', b'"symbol":"in1"', "symbols must be functions and the areas"),
    (b'"start":0', b'"start":1', "kernel 'k0' must begin with its label"),
    (b'"at":', b'"ad":', "at must be a number of 0 or more"),
    (b'"at":88', b'"at":56', "what stands for nodes of the model must be a call"),
    (b"\x00\x11\x22\x33", b"\x00\x11\x22\x34", "'.rodata' must hold blob"),
    (b"\x00\x11\x22\x33\0", b"\x00\x11\x22\x331", "'.rodata' must hold zeros between blobs"),
    (b"\0main\0", b"\0ma n\0", "a symbol must be a word that is no register, got 'ma n'"),
    (b"\0.rodata\0", b"\0.rodato\0", "unknown section '.rodato'"),
]


@pytest.mark.parametrize(("old", "new", "message"), HOSTILE)
def test_hostile_objects_are_named(old: bytes, new: bytes, message: str) -> None:
    data = write_object(parse_asm(TEXT))
    assert old in data
    assert len(old) == len(new)
    with pytest.raises(InputError) as caught:
        read_object(data.replace(old, new), "p.o")
    assert message in str(caught.value)


def test_huge_claims_are_refused() -> None:
    data = write_object(parse_asm(TEXT.replace("f32, 4", "f32, 1x1x1x1x1x1x1x1x1")))
    shape = b"[1,1,1,1,1,1,1,1,1]"
    for claim in (b"[9999999999,9999,0]", b"[99999999999999999]", b"[1e9,1e9]"):
        with pytest.raises(InputError):
            read_object(data.replace(shape, claim.ljust(len(shape))), "p.o")


def test_instructions_are_checked_bit_by_bit() -> None:
    inst = parse_asm(TEXT).code[0]
    good = encode(inst)
    assert decode(good, 0)[0].instr is inst.instr
    cases = {
        good[:4]: "must have 8 bytes at least",
        b"\xff\xff" + good[2:]: "unknown opcode 0x3ff",
        good[:1] + b"\xfc" + good[2:]: "must end inside the code, claims 504 bytes",
        good[:1] + b"\x00" + good[2:]: "must end inside the code, claims 0 bytes",
        good[:-1] + b"\x80": "wrong length or stray bits",
        bytes([good[0], good[1] + 4]) + good[2:] + bytes(8): "wrong length or stray bits",
    }
    for code, message in cases.items():
        with pytest.raises(DecodeError, match=message):
            decode(code, 0)


def test_faults_of_the_compiler_are_no_user_errors() -> None:
    """A program in memory that breaks a rule is a bug of its maker."""
    program = parse_asm(TEXT)
    program.kernels.append(Kernel("main", "Add", (), 0, 3))
    with pytest.raises(Fault, match="kernel 'main' must begin with its label"):
        write_object(program)
