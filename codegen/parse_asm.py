"""Assembly text to a program.

Header directives and code come first, `.section .rodata` and the weights last. A line that was
seen before costs one look-up; a new one is read by `quick_line`, and by the grammar if need be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ge.codegen.asm_lines import Line, Mistake, is_local_label, quick_line
from ge.codegen.asm_program import Builder, Weights
from ge.codegen.check import Fault, check
from ge.codegen.encoding import LABEL_OF
from ge.dialects.diagnostics import InputError, pointed
from ge.dialects.npu.instr import Inst, Instr
from ge.dialects.npu.operands import Name
from ge.dialects.npu.program import Program

_DEFINING = (".input", ".output", ".routine", ".kernel", ".function")
"""Directives whose first argument is a symbol that they define or announce."""


def parse_asm(text: str, path: str = "<asm>", weights: Weights | None = None) -> Program:
    """The program that `text` writes. Raises InputError with line, column, source and caret.

    `weights` finds the blobs that stand in files; a `WeightsFolder` does.
    """
    reader = _Reader(path, text.split("\n"), weights)
    numbered = enumerate(reader.lines, 1)
    reader.read_code(numbered)
    for number, line in numbered:
        reader.read_line(number, line)
    return reader.finished()


class _Reader:
    """Reads the lines of one text, and says where a mistake is."""

    def __init__(self, path: str, lines: list[str], weights: Weights | None) -> None:
        self.path = path
        self.lines = lines
        self.builder = Builder(weights)

    def read_code(self, numbered: Iterator[tuple[int, str]]) -> None:
        """Read up to `.section .rodata`; instructions of equal lines are one object."""
        builder = self.builder
        append = builder.program.code.append
        known: dict[str, Inst] = {}
        # Branches by their lines without the label: every loop has labels of its own.
        branches: dict[str, tuple[Instr, tuple[Any, ...], int]] = {}
        for number, line in numbered:
            if builder.awaited is None and builder.sources is None:
                if (inst := known.get(line)) is not None:
                    append(inst)
                    continue
                head, _, tail = line.rpartition(" ")
                if (branch := branches.get(head)) is not None and is_local_label(tail):
                    row, args, index = branch
                    append(Inst(row, (*args[:index], Name(tail), *args[index + 1 :])))
                    continue
            added = self.read_line(number, line)
            if added is not None and ":" not in line and ";" not in line:
                head, _, tail = line.rpartition(" ")
                index = LABEL_OF.get(added.instr, -1)
                if index >= 0 and added.args[index] == tail:
                    branches[head] = (added.instr, added.args, index)
                else:
                    known[line] = added
            if builder.in_data:
                return

    def read_line(self, number: int, line: str) -> Inst | None:
        """Read one line; the instruction it holds, if it holds one."""
        try:
            return self.builder.add(quick_line(line) or self.slow_line(number, line))
        except Mistake as e:
            raise self.mistaken(number, e) from e

    def slow_line(self, number: int, line: str) -> Line:
        from ge.codegen.asm_grammar import ColumnMistake, grammar_line

        try:
            return grammar_line(line)
        except ColumnMistake as e:
            raise self.placed(number, e.column, e.message) from e

    def finished(self) -> Program:
        """The program, once all lines are read and the whole is checked."""
        try:
            self.builder.finish()
            check(self.builder.program)
        except InputError as e:
            raise InputError(e.message, self.path) from e
        except Fault as e:
            raise self.located(e) from e
        return self.builder.program

    def mistaken(self, number: int, mistake: Mistake) -> InputError:
        """A mistake in line `number`, which is well-formed."""
        from ge.codegen.asm_grammar import column_of

        return self.placed(number, column_of(self.lines[number - 1], mistake), mistake.message)

    def placed(self, number: int, column: int, message: str) -> InputError:
        detail = pointed(self.lines[number - 1], column)
        return InputError(message, f"{self.path}:{number}:{column}", detail)

    def located(self, fault: Fault) -> InputError:
        """A fault of the whole program, at the line of the instruction or symbol it names."""
        from ge.codegen.asm_grammar import grammar_line

        code = 0
        found = InputError(fault.message, self.path)
        known: dict[str, Line] = {}
        for number, text in enumerate(self.lines, 1):
            line = known.get(text)
            if line is None:
                line = known[text] = quick_line(text) or grammar_line(text)
            if line.op is not None and line.op[0] != ".":
                if code == fault.at:
                    return self.mistaken(number, Mistake(1 + len(line.args), fault.message))
                code += 1
            place = _place_of(line, fault.at)
            if place is not None:  # The last one: of two definitions the second is at fault.
                found = self.mistaken(number, Mistake(place, fault.message))
        return found


def _place_of(line: Line, subject: int | str | None) -> int | None:
    """Which part of a line defines `subject`: a symbol, or what a directive says."""
    if not isinstance(subject, str):
        return None
    if line.label == subject:
        return 0
    if line.op == subject:
        return 1
    return 2 if line.op in _DEFINING and subject in line.args[:1] else None
