"""What a compile writes: texts of modules, assembly and objects, each with weights beside it."""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ge.codegen.objects import MOST_WEIGHTS_BYTES, write_object
from ge.codegen.print_asm import print_asm
from ge.dialects.diagnostics import InputError
from ge.dialects.module_text import large_weights, print_module, save_weights
from ge.dialects.npu.program import Program
from ge.dialects.weights_file import INLINE_BYTES, Data, write_weights


def module_text(module: ModuleOp, out: Path | None, weights: Path | None) -> str:
    """The text of a module that goes to `out`; its large constants are written to a file.

    That is `weights`, or stands beside `out`. Raises InputError without either.
    """
    if large_weights(module):
        file, name = _place(out, weights)
        save_weights(module, file, name)
    return print_module(module)


def assembly_text(program: Program, out: Path | None, weights: Path | None) -> str:
    """The assembly of a program, as `module_text` gives the text of a module."""
    large = _large(program)
    if not large:
        return print_asm(program)
    file, name = _place(out, weights)
    write_weights(file, large)
    return print_asm(program, name)


def object_bytes(program: Program, out: Path, weights: Path | None) -> bytes:
    """The object that goes to `out`; large weights are outside it when a file for them is given.

    Above 2 GiB they always are.
    """
    if weights is None and program.weights_bytes > MOST_WEIGHTS_BYTES:
        weights = out.with_suffix(".weights")
    if weights is not None:
        write_weights(weights, _large(program))
    return write_object(program, external_weights=weights is not None)


def _large(program: Program) -> list[tuple[str, Data]]:
    return [(b.digest, b.data) for b in program.weights if b.data and b.bytes > INLINE_BYTES]


def _place(out: Path | None, weights: Path | None) -> tuple[Path, str]:
    """The weights file of a text, and what the text calls it."""
    if weights is None and out is None:
        raise InputError(
            f"text with constants above {INLINE_BYTES} bytes needs a file for them, got none; "
            "give --weights FILE or -o OUT"
        )
    if weights is None or out is None:
        file = weights or (out or Path()).with_suffix(".weights")
        return file, file.name
    folder = out.parent.resolve()
    if folder not in weights.resolve().parents:
        raise InputError(f"weights must lie in the folder of the text '{out}'", str(weights))
    return weights, weights.resolve().relative_to(folder).as_posix()
