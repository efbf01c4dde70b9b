"""Assembly text to a program.

Header directives and code come first, `.section .rodata` and the weights last. A line that was
seen before costs one look-up; a new one is read by `quick_line`, and by the grammar if need be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from ge.codegen.asm_lines import Keyed, Line, Mistake, is_local_label, quick_line
from ge.codegen.check import Fault, check
from ge.codegen.encoding import LABEL_OF
from ge.dialects.diagnostics import InputError, did_you_mean
from ge.dialects.dtypes import BY_NAME
from ge.dialects.npu.instr import Inst, Instr
from ge.dialects.npu.isa import INSTRS
from ge.dialects.npu.operands import Name, OperandError
from ge.dialects.npu.program import WEIGHTS, Arena, Blob, Kernel, Program, Tensor
from ge.dialects.weights_file import digest_of

Weights = Callable[[str, str], memoryview]
"""Finds the blob of a digest in a weights file of a name; raises InputError."""


def parse_asm(text: str, path: str = "<asm>", weights: Weights | None = None) -> Program:
    """The program that `text` writes. Raises InputError with line, column, source and caret."""
    return _Reader(path, text.split("\n"), weights).program()


def instruction(op: str, args: tuple[Any, ...]) -> Inst:
    """The instruction a line writes: positional operands in order, the others by name."""
    row = INSTRS.get(op)
    if row is None:
        raise Mistake(1, f"unknown mnemonic '{op}'{did_you_mean(op, INSTRS)}")
    given: dict[str, Any] = {}
    places: dict[str, int] = {}
    free = iter(_positional(row))
    for place, arg in enumerate(args, 2):
        if isinstance(arg, Keyed):
            name, value = arg
            if name not in row.operands or not row.is_keyed(name):
                keys = [n for n in row.operands if row.is_keyed(n)]
                hint = did_you_mean(name, keys)
                raise Mistake(place, f"'{op}' has no operand '{name}='{hint}")
        else:
            value = arg
            name = next(free, "")
            if not name:
                raise Mistake(place, f"'{op}' takes {_count(row)} without a name, got more")
        if name in given:
            raise Mistake(place, f"'{name}' of '{op}' must be given once")
        given[name], places[name] = value, place
    return _checked(row, given, places)


@cache
def _positional(row: Instr) -> tuple[str, ...]:
    return tuple(name for name in row.operands if not row.is_keyed(name))


def _count(row: Instr) -> str:
    names = _positional(row)
    return f"{len(names)} operands ({', '.join(names)})" if names else "no operands"


def _checked(row: Instr, given: dict[str, Any], places: dict[str, int]) -> Inst:
    try:
        inst = row.with_defaults(given)
    except OperandError as e:
        raise Mistake(places.get(list(row.operands)[e.index], 1), str(e)) from e
    except ValueError as e:
        raise Mistake(1, str(e)) from e
    index = LABEL_OF.get(row)
    if index is not None and not isinstance(inst.args[index], Name):
        name = list(row.operands)[index]
        what = row.operands[name].what
        raise Mistake(
            places[name], f"'{name}' of '{row.mnemonic}' must be {what}, got {inst.args[index]}"
        )
    return inst


class _Reader:
    """Builds the program line by line; the methods named after directives are those."""

    def __init__(self, path: str, lines: list[str], weights: Weights | None) -> None:
        self.path = path
        self.lines = lines
        self.weights = weights
        self.result = Program(target="", cores=0)
        self.open_kernel: Kernel | None = None
        self.number = 0
        self.in_data = False
        self.weights_seen = False
        self.awaited: str | None = None
        self.arena_seen = False
        self.statements: dict[str, Callable[..., None]] = {
            ".target": self.target,
            ".input": lambda *args: self.tensor(self.result.inputs, *args),
            ".output": lambda *args: self.tensor(self.result.outputs, *args),
            ".arena": self.arena,
            ".kernel": self.kernel,
            ".function": self.function,
            ".section": self.section,
        }
        self.data_statements: dict[str, Callable[..., None]] = {
            ".incbin": self.incbin,
            ".hex": self.hex,
            ".absent": self.absent,
        }

    def program(self) -> Program:
        numbered = enumerate(self.lines, 1)
        self.read_code(numbered)
        for self.number, line in numbered:
            self.statement(line)
        self.close_kernel()
        self.number = len(self.lines)
        if not self.result.target:
            raise InputError("a program must say its '.target'", self.path)
        if self.in_data and not self.weights_seen:
            raise InputError(f"'.rodata' must begin with label '{WEIGHTS}'", self.path)
        try:
            check(self.result)
        except Fault as e:
            raise self.located(e) from e
        return self.result

    def read_code(self, numbered: Iterator[tuple[int, str]]) -> None:
        """Read up to `.section .rodata`; instructions of equal lines are one object."""
        code = self.result.code
        append = code.append
        known: dict[str, Inst] = {}
        branches: dict[str, tuple[Instr, tuple[Any, ...], int]] = {}
        for self.number, line in numbered:
            inst = known.get(line)
            if inst is not None and self.awaited is None:
                append(inst)
                continue
            head, _, tail = line.rpartition(" ")
            branch = branches.get(head)
            if branch is not None and self.awaited is None and is_local_label(tail):
                row, args, index = branch
                append(Inst(row, (*args[:index], Name(tail), *args[index + 1 :])))
                continue
            inst = self.statement(line)
            if inst is not None and ":" not in line:
                index = LABEL_OF.get(inst.instr, -1)
                if index >= 0 and inst.args[index] == tail and ";" not in line:
                    branches[head] = (inst.instr, inst.args, index)
                else:
                    known[line] = inst
            if self.in_data:
                return

    def statement(self, line: str) -> Inst | None:
        """Read one line; the instruction it holds, if it holds one."""
        try:
            parsed = quick_line(line) or self.slow_line(line)
            if parsed.label is not None:
                self.label(parsed.label)
            if parsed.op is None:
                return None
            if parsed.op[0] == ".":
                self.directive(parsed)
                return None
            if self.in_data:
                raise Mistake(1, "'.rodata' must hold weights only, got an instruction")
            self.settle()
            inst = instruction(parsed.op, parsed.args)
        except Mistake as e:
            raise self.error(self.number, e) from e
        except Fault as e:
            raise self.error(self.number, Mistake(1, e.message)) from e
        self.result.code.append(inst)
        return inst

    def slow_line(self, line: str) -> Line:
        from ge.codegen.asm_grammar import ColumnMistake, grammar_line

        try:
            return grammar_line(line)
        except ColumnMistake as e:
            raise self.placed(self.number, e.column, e.message) from e

    def directive(self, line: Line) -> None:
        op = line.op or ""
        if op in (self.statements if self.in_data else self.data_statements):
            where = "before" if self.in_data else "behind"
            raise Mistake(1, f"'{op}' must stand {where} '.section .rodata'")
        (self.data_statements if self.in_data else self.statements)[op](*line.args)

    def label(self, name: str) -> None:
        if self.in_data:
            if name != WEIGHTS or self.weights_seen:
                raise Mistake(0, f"'.rodata' must have one label, '{WEIGHTS}', got '{name}'")
            self.weights_seen = True
            return
        if name in self.result.labels:
            raise Mistake(0, f"label '{name}' must be defined once")
        self.result.labels[name] = len(self.result.code)
        if name == self.awaited:
            self.awaited = None

    def settle(self) -> None:
        """An instruction comes: a kernel or function announced before it must have its label."""
        if self.awaited is not None:
            raise Mistake(1, f"label '{self.awaited}' must stand before the first instruction")

    def close_kernel(self) -> None:
        if self.open_kernel is not None:
            kernel = self.open_kernel._replace(end=len(self.result.code))
            self.result.kernels.append(kernel)
            self.open_kernel = None

    def target(self, name: str, cores: int) -> None:
        if self.result.target:
            raise Mistake(1, "'.target' must be given once")
        self.result.target, self.result.cores = name, cores

    def tensor(
        self, tensors: list[Tensor], symbol: str, name: str, dtype: str, shape: tuple[int, ...]
    ) -> None:
        if dtype not in BY_NAME:
            raise Mistake(4, f"unknown element type '{dtype}'{did_you_mean(dtype, BY_NAME)}")
        tensors.append(Tensor(symbol, name, BY_NAME[dtype], shape))

    def arena(self, size: int, lower_bound: int = 0, no_reuse: int = 0) -> None:
        if self.arena_seen:
            raise Mistake(1, "'.arena' must be given once")
        self.arena_seen = True
        self.result.arena = Arena(size, lower_bound, no_reuse)

    def kernel(self, symbol: str, kind: str, *sources: str) -> None:
        self.function(symbol)
        self.open_kernel = Kernel(symbol, kind, sources, len(self.result.code), 0)

    def function(self, symbol: str) -> None:
        self.settle()
        self.close_kernel()
        self.awaited = symbol
        if symbol in self.result.labels:
            raise Mistake(2, f"label '{symbol}' must stand behind this line")

    def section(self, _name: str) -> None:
        self.settle()
        self.in_data = True

    def incbin(self, name: str, digest: str, size: int) -> None:
        if self.weights is None:
            raise Mistake(2, "weights in a file need a text that is a file too")
        try:
            data = self.weights(name, digest)
        except InputError as e:
            raise Mistake(2, f"{e.where}: {e.message}" if e.where else e.message) from e
        if data.nbytes != size:
            raise Mistake(4, f"the blob has {data.nbytes} bytes, got {size}")
        self.result.weights.append(Blob(digest, size, data))

    def hex(self, data: bytes) -> None:
        self.result.weights.append(Blob(digest_of(data), len(data), memoryview(data)))

    def absent(self, digest: str, size: int) -> None:
        self.result.weights.append(Blob(digest, size, None))

    def error(self, number: int, mistake: Mistake) -> InputError:
        """A mistake in line `number`, which is well-formed."""
        from ge.codegen.asm_grammar import column_of

        return self.placed(number, column_of(self.lines[number - 1], mistake), mistake.message)

    def placed(self, number: int, column: int, message: str) -> InputError:
        line = self.lines[number - 1]
        indent = "".join("\t" if c == "\t" else " " for c in line[: column - 1])
        return InputError(message, f"{self.path}:{number}:{column}", f"{line}\n{indent}^")

    def located(self, fault: Fault) -> InputError:
        """A fault of the whole program, at the line of the instruction or symbol it names."""
        from ge.codegen.asm_grammar import grammar_line

        code = 0
        found = InputError(fault.message, self.path)
        for number, text in enumerate(self.lines, 1):
            line = quick_line(text) or grammar_line(text)
            if line.op is not None and line.op[0] != ".":
                if code == fault.at:
                    return self.error(number, Mistake(1 + len(line.args), fault.message))
                code += 1
            place = _place_of(line, fault.at)
            if place is not None:  # The last one: of two definitions the second is at fault.
                found = self.error(number, Mistake(place, fault.message))
        return found


def _place_of(line: Line, subject: int | str | None) -> int | None:
    """Which part of a line defines `subject`: a symbol, or what a directive says."""
    if not isinstance(subject, str):
        return None
    if line.label == subject:
        return 0
    if line.op == subject:
        return 1
    return 2 if line.op and line.op[0] == "." and subject in line.args[:1] else None
