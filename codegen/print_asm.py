"""A program as assembly text; `parse_asm` reads it back into the same object, byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from ge.codegen.check import check, functions
from ge.dialects.npu.instr import Inst
from ge.dialects.npu.program import WEIGHTS, Blob, Kernel, Program, Tensor
from ge.dialects.weights_file import INLINE_BYTES, write_weights

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*").fullmatch


def print_asm(program: Program, weights_name: str | None = None) -> str:
    """The text of a program whose larger weights stand in file `weights_name`, or are left out."""
    check(program)
    parts = [_header(program), *_code(program)]
    if program.weights:
        parts += ["", _line(".section", ".rodata"), f"{WEIGHTS}:"]
        parts += [_blob(b, weights_name) for b in program.weights]
    return "\n".join(parts) + "\n"


def save_asm(program: Program, path: Path) -> None:
    """Write the text to `path`, and its larger weights, if any, to `.weights` beside it."""
    weights = path.with_suffix(".weights")
    large = [(b.digest, b.data) for b in program.weights if b.data is not None and not _small(b)]
    text = print_asm(program, weights.name)
    if large:
        write_weights(weights, large)
    path.write_text(text, "utf-8")


def _line(op: str, *operands: str) -> str:
    return f"        {op:<7} {', '.join(operands)}".rstrip()


def _header(program: Program) -> str:
    target, arena = program.target, program.arena
    if not _WORD(target):
        target = _string(target)
    lines = [_line(".target", target, f"cores={program.cores}")]
    lines += [_tensor(".input", t) for t in program.inputs]
    lines += [_tensor(".output", t) for t in program.outputs]
    bounds = f"lower_bound={arena.lower_bound}", f"no_reuse={arena.no_reuse}"
    lines.append(_line(".arena", str(arena.bytes), *bounds))
    lines += [_line(".routine", r.symbol, _string(r.text)) for r in program.routines]
    return "\n".join(lines)


def _tensor(op: str, tensor: Tensor) -> str:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    return _line(op, tensor.symbol, _string(tensor.name), str(tensor.dtype), shape)


def _string(text: str) -> str:
    """A JSON literal that shows what can be shown; control characters of any kind are escaped."""
    literal = json.dumps(text, ensure_ascii=False)
    if literal.isprintable():
        return literal
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in literal)


def _code(program: Program) -> Iterator[str]:
    """The lines of the code. Equal instructions that are one object are written once."""
    heads = _heads(program)
    written: dict[int, str] = {}
    for number, inst in enumerate(program.code):
        if number in heads:
            yield heads[number]
        text = written.get(id(inst))
        if text is None:
            text = written[id(inst)] = _instruction(inst)
        yield text


def _instruction(inst: Inst) -> str:
    return _line(inst.instr.mnemonic, inst.operands_text())


def _heads(program: Program) -> dict[int, str]:
    """What stands before an instruction: what begins there, its labels and its sources."""
    labels: dict[int, list[str]] = {}
    for label, place in program.labels.items():
        labels.setdefault(place, []).append(label)
    heads = {
        place: "".join(f"\n{n}:" for n in sorted(names))[1:] for place, names in labels.items()
    }
    kernels = {k.start: k for k in program.kernels}
    end = 0
    for place, name in functions(program).items():
        kernel = kernels.get(place)
        if kernel is not None:
            end = kernel.end
            heads[place] = f"\n{_kernel(kernel)}\n{heads[place]}"
        elif place >= end:
            heads[place] = f"\n{_line('.function', name)}\n{heads[place]}"
    for place, sources in program.calls.items():
        line = _line(".source", *map(_string, sources))
        heads[place] = f"{heads[place]}\n{line}" if place in heads else line
    return heads


def _kernel(kernel: Kernel) -> str:
    return _line(".kernel", kernel.symbol, *map(_string, (kernel.kind, *kernel.sources)))


def _small(blob: Blob) -> bool:
    return blob.bytes <= INLINE_BYTES


def _blob(blob: Blob, weights_name: str | None) -> str:
    claim = f"sha256:{blob.digest}", str(blob.bytes)
    if blob.data is None or (weights_name is None and not _small(blob)):
        return _line(".absent", *claim)
    if _small(blob):
        return _line(".hex", f'"{blob.data.hex()}"')
    return _line(".incbin", _string(weights_name or ""), *claim)
