"""Assembly text: messages with their place, and the quick way of reading against the grammar."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ge.codegen.asm_grammar import ColumnMistake, grammar_line
from ge.codegen.asm_lines import DIRECTIVES, Line, quick_line
from ge.codegen.manual import isa_page
from ge.codegen.parse_asm import parse_asm
from ge.codegen.print_asm import print_asm
from ge.dialects.diagnostics import InputError
from ge.dialects.npu.program import Program
from ge.dialects.weights_file import WeightsFolder, digest_of, write_weights

GOOD = """.target ascend910b1, cores=24
.input in0, "x", f16, 16x128
.output out0, "y", f16, scalar
.arena 4096
.kernel k0, "MatMulRelu", "/mlp/0/MatMul"
k0: li x1, 0    ; a comment
  loop x1, .Lend
  ld.l1 l1[x4], gm[x5], size=[1,2], strides=[2,1], f16
  mmad l0c[x9], l0a[x7], l0b[x8], m=128, n=256, k=64, init=1, f16
  vadds ub[0], ub[0], -inf, size=[1], ds=[1], sa=[1], f16
.Lend: ret
.function main
main: la x5, weights+0x4
  .source "/mlp/0/MatMul", "k0"
  call k0
  halt
.section .rodata
weights: .hex "00112233"
  .absent sha256:00000000000000000000000000000000, 5000
"""

MISTAKES = [
    ("main: la", "main: lb", "13:7: error: unknown mnemonic 'lb'"),
    ("vadds ", "vads ", "10:3: error: unknown mnemonic 'vads'; did you mean 'vadds'?"),
    ("call k0", "call k1", "15:8: error: unknown label 'k1'"),
    ("x1, .Lend", "x1, .Lent", "7:12: error: unknown label '.Lent'; did you mean '.Lend'?"),
    ("x1, .Lend", "x1, 5", "7:12: error: 'label' of 'loop' must be a label, got 5"),
    ("halt", "jump .Lend", "16:8: error: label '.Lend' must be in the same function"),
    ("weights+0x4", "weight+0x4", "13:14: error: unknown symbol 'weight'; did you mean 'weights'?"),
    ("+0x4", "+0x4000", "13:14: error: an offset to 'weights' must be 0 to 5632, got 16384"),
    ('"x", f16', '"x", f17', "2:18: error: unknown element type 'f17'; did you mean 'f16'?"),
    ("m=128", "mm=128", "9:35: error: 'mmad' has no operand 'mm='; did you mean 'm'?"),
    ("m=128", "m=128, m=1", "9:42: error: 'm' of 'mmad' must be given once"),
    ("k=64, ", "", "9:3: error: 'mmad' needs operand 'k'"),
    ("l0c[x9]", "ub[9]", "9:8: error: 'c' of 'mmad' must be an address l0c[0..0xffffffff], got "),
    ("strides=[2,1]", "strides=[2]", "8:37: error: 'strides' of 'ld.l1' must have 2 dimensions "),
    ("size=[1,2]", "size=3", "8:25: error: 'size' of 'ld.l1' must be a list of 1 to 8 registers"),
    (
        "size=[1,2]",
        "size=[1,2",
        "8:36: error: an integer or a register must stand here",
    ),
    ("halt", "halt x3", "16:8: error: 'halt' takes no operands without a name, got more"),
    ("li x1, 0", "li x1 0", "6:11: error: the end of the line or ',' must stand here, got '0'"),
    ("li x1, 0", "li x128, 0", "6:8: error: 'dst' of 'li' must be a register x0..x127, got x128"),
    ("li x1, 0 ", f"li x1, {1 << 70} ", "6:12: error: an integer must fit 64 bits, got 11805"),
    ("li x1, 0 ", "li x1, @ ", "6:12: error: an operand must stand here, got '@'"),
    ("l1[x4]", "l9[x4]", "8:9: error: unknown memory 'l9'; known: gm, l1, l0a, l0b, l0c, ub"),
    ("-inf", "1e999", "10:23: error: a number must be finite, got 1e999"),
    (".hex", ".hax", "18:10: error: unknown directive '.hax'; did you mean '.hex'?"),
    ('"00112233"', '"0"', "18:15: error: must be pairs of hexadecimal digits"),
    ("weights: .hex", "weight: .hex", "18:1: error: '.rodata' must have one label, 'weights'"),
    (".section .rodata", "", "18:10: error: '.hex' must stand behind '.section .rodata'"),
    (".absent sha256", "halt ; ", "19:3: error: '.rodata' must hold weights only"),
    ("16x128", "16x0x", "2:23: error: a shape like 16x128 or 'scalar' must stand here"),
    ("16x128", "99999999999x128", "2:8: error: 'in0' must fit the 68719476736 bytes"),
    ("16x128", "16}", "2:25: error: the end of the line must stand here, got '}'"),
    ("out0", "in0", "3:9: error: 'in0' must be written over by an output of its type and shape"),
    ("in0", "x1", "2:8: error: a symbol must be a word that is no register"),
    ("ascend910b1", "tinny", "1:1: error: unknown target 'tinny'; did you mean 'tiny'?"),
    ("cores=24", "cores=25", "1:1: error: cores must be 1 to 24, got 25"),
    (".target ascend910b1, cores=24", "", "error: a program must say its '.target'"),
    (".arena 4096", ".arena -1", "4:1: error: sizes of the arena must be"),
    (".arena 4096", ".arena 4\n.arena 4", "5:1: error: '.arena' must be given once"),
    ("main: la", "mani: la", "13:7: error: label 'main' must stand before the first instruction"),
    ("  halt", "  halt\n.Lz:", "17:1: error: label '.Lz' must stand before an instruction"),
    ("main: la", "main: k0: la", "13:9: error: "),
    (".function main", ".function k0", "12:11: error: label 'k0' must stand behind this line"),
    ("  call k0", "  ret", "15:3: error: a call must follow '.source', got 'ret'"),
    ("  call k0", ".section .rodata", "15:1: error: a call must follow '.source', got '.section'"),
    ('"/mlp/0/MatMul", "k0"', "", "14:11: error: a string in double quotes must stand here"),
    ('"MatMulRelu"', '"\\q"', "5:13: error: a string must use the escapes of JSON"),
]


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES)
def test_mistakes_are_named(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(InputError) as caught:
        parse_asm(GOOD.replace(old, new, 1), "p.s")
    assert f"p.s:{message}" in str(caught.value) or f"p.s: {message}" in str(caught.value)


def test_a_message_shows_line_and_caret() -> None:
    with pytest.raises(InputError) as caught:
        parse_asm(".target tiny, cores=1\nmain:\tli\tx1, yes", "p.s")
    assert str(caught.value).split("\n") == [
        "p.s:2:14: error: 'value' of 'li' must be an integer of 64 bits, got yes",
        "main:\tli\tx1, yes",
        "     \t  \t    ^",
    ]


def test_comments_never_decide_a_branch() -> None:
    """Lines that differ in a label behind a comment sign are one instruction."""
    text = ".target tiny, cores=1\nmain:\n.La:\n jump .La ; .La\n.Lb:\n jump .La ; .Lb\n jump .Lb"
    assert [i.args for i in parse_asm(text).code] == [(".La",), (".La",), (".Lb",)]


def test_text_of_examples_in_the_manual_is_read() -> None:
    examples = [line.split("`")[1] for line in isa_page().split("\n") if line.startswith("| `.")]
    assert {e.split()[0] for e in examples} == set(DIRECTIVES)
    for example in examples:
        assert grammar_line(example.replace("...", "0" * 32)).op == example.split()[0]


def _same(quick: Line, line: str) -> bool:
    slow = grammar_line(line)
    types = [[type(a) for a in x.args] for x in (quick, slow)]
    return repr(quick[:3]) == repr(slow[:3]) and types[0] == types[1]


def test_the_quick_way_is_the_grammar(random_program: Callable[[int], Program]) -> None:
    """What `quick_line` takes, the grammar takes with equal values, mutated lines too."""
    rng = random.Random(7)
    lines = GOOD.split("\n")
    for seed in range(12):
        lines += print_asm(random_program(seed), "a.weights").split("\n")
    printed = [quick_line(line) for line in lines]
    assert all(p is None or _same(p, line) for p, line in zip(printed, lines, strict=True))
    alphabet = ' \t,;:.[]=+-"\\xXLe0159afé_#{}\r\x0b'
    taken = 0
    for _ in range(6000):
        line = rng.choice(lines)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(line) + 1)
            line = (
                line[:at] + rng.choice(["", rng.choice(alphabet)]) + line[at + rng.randint(0, 1) :]
            )
        quick = quick_line(line)
        if quick is not None:
            taken += 1
            assert _same(quick, line), line
    assert taken > 1500


def test_printed_lines_never_need_the_grammar(
    random_program: Callable[[int], Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(line: str) -> Line:
        raise ColumnMistake(1, f"needs the grammar: {line}")

    monkeypatch.setattr("ge.codegen.asm_grammar.grammar_line", refuse)
    for seed in range(12):
        program = random_program(seed)
        if program.target.isidentifier():
            parse_asm(print_asm(program))


def test_weights_stay_in_the_folder(tmp_path: Path) -> None:
    data = bytes(range(256)) * 8
    folder = tmp_path / "in"
    folder.mkdir()
    write_weights(tmp_path / "out.weights", [(digest_of(data), data)])
    write_weights(folder / "m.weights", [(digest_of(data), data)])
    (folder / "link.weights").symlink_to(tmp_path / "out.weights")
    (folder / "bad.weights").write_bytes((folder / "m.weights").read_bytes()[:-1] + b"\0")
    (folder / "cut.weights").write_bytes(b"\xff" * 9)

    def read(name: str, digest: str = digest_of(data), size: int = 2048) -> Program:
        text = f'.target tiny, cores=1\n.section .rodata\nweights:\n.incbin "{name}", '
        return parse_asm(f"{text}sha256:{digest}, {size}", "p.s", WeightsFolder(folder))

    assert bytes(read("m.weights").weights[0].data or b"") == data
    messages = {
        "../out.weights": "4:9: error: a weights file must lie in the text's own folder",
        "link.weights": "must lie in the text's own folder",
        "/etc/passwd": "must lie in the text's own folder",
        "no.weights": "a weights file must be readable",
        "bad.weights": "must have that digest",
        "cut.weights": "header must lie in the file",
    }
    for name, message in messages.items():
        with pytest.raises(InputError, match=message):
            read(name)
    with pytest.raises(InputError, match="must hold a blob"):
        read("m.weights", "0" * 32)
    with pytest.raises(InputError, match="the blob has 2048 bytes, got 7"):
        read("m.weights", size=7)
