"""The allocated `npu` level, written by hand as text, gives the program that assembly gives."""

from __future__ import annotations

from io import StringIO

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.parser import Parser
from xdsl.printer import Printer

from ge.codegen.from_npu import program_of
from ge.codegen.objects import read_object, write_object
from ge.codegen.parse_asm import parse_asm
from ge.codegen.print_asm import print_asm
from ge.dialects.diagnostics import InputError
from ge.dialects.fused import Fused
from ge.dialects.graph import Graph
from ge.dialects.npu import Npu
from ge.dialects.npu.ops import ProgramOp
from ge.dialects.weights import make_weights_dialect

MLIR = """
npu.program "tiny" cores 2 native 1 attributes {arena = #ge.ints<512, 512, 1024>} {
  %x = npu.tensor "input" {label = "x"} : !npu.hbm<[4], [1], f32>
  %w = npu.tensor "weight" {value = #ge.weights<"0x00112233">} : !npu.hbm<[1], [1], f32>
  npu.kernel @k0 "Add" attributes {sources = ["/0/Add", "/0/Relu"]} {
  ^bb0(%a : !npu.hbm<[4], [1], f32>):
    npu.loop x1, .Lk0_end
    npu.vadd ub[0], ub[64], ub[128], size=[4], ds=[1], sa=[1], sb=[1], f32
    npu.label ".Lk0_end"
    npu.ret
  }
  %t = npu.tensor "temp" {address = 0 : i64} : !npu.hbm<[4], [1], f32>
  // The values of the first weight again, and of one that is not here.
  %same = npu.tensor "weight" {value = #ge.weights<"0x00112233">} : !npu.hbm<[1], [1], f32>
  %far = npu.tensor "weight" {value = #ge.weights<"0123456789abcdef0123456789abcdef", 2000>}
    : !npu.hbm<[500], [1], f32>
  %y = npu.tensor "output" {label = "y"} : !npu.hbm<[2, 2], [2, 1], f32>
  npu.function @main {
    npu.la x4, in0+0x4
    npu.source ["/0/Add", "/0/Relu"]
    npu.call k0
    npu.la x4, weights+0x200
    npu.source ["/1/Add"]
    npu.call k0
    npu.source []
    npu.call k0
    npu.halt
  }
}
"""
ASM = """.target tiny, cores=2
.input in0, "x", f32, 4
.output out0, "y", f32, 2x2
.arena 512, lower_bound=512, no_reuse=1024
.kernel k0, "Add", "/0/Add", "/0/Relu"
k0:
  loop x1, .Lk0_end
  vadd ub[0], ub[64], ub[128], size=[4], ds=[1], sa=[1], sb=[1], f32
.Lk0_end:
  ret
.function main
main:
  la x4, in0+0x4
  .source "/0/Add", "/0/Relu"
  call k0
  la x4, weights+0x200
  .source "/1/Add"
  call k0
  call k0
  halt
.section .rodata
weights: .hex "00112233"
  .absent sha256:0123456789abcdef0123456789abcdef, 2000
"""


def _program(text: str) -> ProgramOp:
    context = Context()
    for dialect in (Builtin, Func, Graph, Fused, Npu, make_weights_dialect()):
        context.load_dialect(dialect)
    module = Parser(context, text, "p.mlir").parse_module()
    module.verify()
    (op,) = module.ops
    assert isinstance(op, ProgramOp)
    return op


def test_ir_gives_what_assembly_gives() -> None:
    op = _program(MLIR)
    program = program_of(op)
    expected = parse_asm(ASM)
    assert program == expected
    assert print_asm(program) == print_asm(expected)
    assert write_object(program) == write_object(expected)
    assert read_object(write_object(program)).calls == program.calls
    printed = StringIO()
    Printer(printed).print_op(op)
    assert program_of(_program(printed.getvalue())) == program


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "    npu.halt",
            '    npu.set "mte2" to "vec" base 0 copies 1',
            "'npu.set' must have become instructions: run emit-instructions",
        ),
        ('npu.label ".Lk0_end"', 'npu.label "k0"', "label 'k0' must be defined once"),
        (
            "  npu.function @main {",
            "  npu.invoke @k0 %x outs 1 offsets <0> {sources = []} "
            ": !npu.hbm<[4], [1], f32>\n  npu.function @main {",
            "'npu.invoke' must have become instructions",
        ),
    ],
)
def test_what_is_no_program_yet_is_named(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        program_of(_program(MLIR.replace(old, new, 1)))
