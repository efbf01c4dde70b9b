"""`docs/isa.md`, generated from the instruction table."""

from __future__ import annotations

from ge.dialects.npu.instr import LENGTH_BITS, OPCODE_BITS, WORD_BYTES, Instr
from ge.dialects.npu.isa import INSTRS
from ge.dialects.npu.operands import Kind
from ge.dialects.npu.places import Unit

EXAMPLE = """\
        .target ascend910b1, cores=1
        .input  a, "a", f32, 64
        .input  b, "b", f32, 64
        .output y, "y", f32, 64
        .kernel k0, "Hypot", "by hand"
k0:     ld.ub   ub[0], gm[x0], size=[64], strides=[1], f32
        ld.ub   ub[0x100], gm[x1], size=[64], strides=[1], f32
        set_flag mte2v, v, 0             ; V waits for both loads
        wait_flag mte2v, v, 0
        vmul    ub[0], ub[0], ub[0], size=[64], ds=[1], sa=[1], sb=[1], f32
        vmul    ub[0x100], ub[0x100], ub[0x100], size=[64], ds=[1], sa=[1], sb=[1], f32
        vadd    ub[0], ub[0], ub[0x100], size=[64], ds=[1], sa=[1], sb=[1], f32
        vsqrt   ub[0], ub[0], size=[64], ds=[1], sa=[1], f32
        set_flag v, mte3, 0              ; MTE3 waits for V
        wait_flag v, mte3, 0
        st.gm   gm[x2], ub[0], size=[64], ds=[1], ss=[1], f32
        ret
        .function main
main:   la      x0, a
        la      x1, b
        la      x2, y
        call    k0
        halt
"""
"""A whole program: the page shows it, and a test runs it."""

_HEAD = f"""<!-- Generated from dialects/npu/isa by ge.codegen.manual: do not edit. -->
# Instructions

The language and the encoding are this project's own; the vendor publishes none. "Counterpart" says
what does the work on the real machine, "rate" names the row of the target file that prices it.

## Text

One line holds a label, an instruction or a directive, or nothing; `;` begins a comment. Operands
are written in the order below; those shown as `name=` by name, and those with a default may be left
out. A label that begins with `.L` is a place inside a function; every other label begins one.

| directive | says |
|---|---|
| `.target ascend910b1, cores=24` | the machine, and how many of its cores run the program |
| `.input in0, "x", f16, 16x128` | an input: symbol, the model's name, type, shape (or `scalar`) |
| `.output out0, "y", f16, 16x128` | an output |
| `.arena 65536, lower_bound=65536, no_reuse=131072` | bytes for intermediates: planned, the \
largest live sum, without reuse |
| `.routine r0, "%y0 = graph.det %x0 : (tensor<3x3xf32>) -> tensor<f32>"` | what `aicpu` can have \
computed: one operator of the `graph` dialect |
| `.kernel k0, "MatMulRelu", "/mlp/MatMul"` | function `k0` follows, a kernel: its rule, the \
model's nodes in it |
| `.function main` | function `main` follows, which is no kernel |
| `.source "/mlp/0/MatMul", "/mlp/0/Relu"` | the model's nodes that the call on the next line \
stands for |
| `.section .rodata` | the end of the code; label `weights:` and the weights follow |
| `.incbin "m.weights", sha256:..., 4096` | a blob of a safetensors file in the text's folder |
| `.hex "00ff"` | a blob of up to 1 KiB |
| `.absent sha256:..., 4096` | a blob whose values were left out |

Addresses are bytes of a memory. `size` is the shape of a tile, and each list of strides tells how
many elements apart its neighbours are along each dimension, outermost first: `ds` in the
destination, `ss`, `sa`, `sb` in the sources, `strides` in the source of a load, whose destination
is dense. A stride of 0 repeats an element. Units run side by side: what one makes and another
reads needs a flag, and `ge-run --check-hazards` tells where one is missing.

## A program

```
{EXAMPLE}```

## Encoding

An instruction is 1 to {(1 << LENGTH_BITS) - 1} little-endian words of {WORD_BYTES} bytes. Read as
one number, it has from bit 0 up: the opcode ({OPCODE_BITS} bits), its length in words
({LENGTH_BITS} bits), its operands in order, and zeros. Every operand takes the bits of its kind; a
register or an integer begins with one bit that tells which it is, a label is the distance in bytes
from the instruction, and a symbol is zeros that a relocation fills.

"""


def isa_page() -> str:
    """The page: a section for each instruction, by unit and opcode."""
    parts = [_HEAD]
    units = [unit.value for unit in Unit]
    rows = sorted(INSTRS.values(), key=lambda r: (units.index(_home(r)), r.opcode))
    unit = ""
    for row in rows:
        if _home(row) != unit:
            unit = _home(row)
            parts.append(f"## Unit {unit.upper()}\n\n")
        parts.append(_section(row))
    return "".join(parts).rstrip() + "\n"


def _home(row: Instr) -> str:
    return (row.unit if isinstance(row.unit, Unit) else Unit.S).value


def _section(row: Instr) -> str:
    facts = [f"opcode `{row.opcode:#x}`"]
    if not isinstance(row.unit, Unit):
        facts.append(f"runs in the queue that `{row.unit}` names")
    if row.rate:
        facts.append(f"rate `{row.rate}`")
    if row.hardware:
        facts.append(f"counterpart: {row.hardware}")
    lines = [f"### `{_usage(row)}`\n", row.doc, f"\n{'; '.join(facts)}.\n"]
    if row.operands:
        lines += ["| operand | is | default |", "|---|---|---|"]
        lines += [_operand(row, name, kind) for name, kind in row.operands.items()]
        lines.append("")
    return "\n".join(lines) + "\n"


def _usage(row: Instr) -> str:
    names = [f"{name}=" if row.is_keyed(name) else name for name in row.operands]
    return f"{row.mnemonic} {', '.join(names)}".rstrip()


def _operand(row: Instr, name: str, kind: Kind) -> str:
    default = f"`{kind.text(row.defaults[name])}`" if name in row.defaults else ""
    return f"| `{name}` | {kind.what} | {default} |"
