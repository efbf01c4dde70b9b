"""Lines of assembly to a program, one by one: what each may say, and where."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ge.codegen.asm_lines import Keyed, Line, Mistake
from ge.codegen.encoding import LABEL_OF
from ge.dialects.diagnostics import InputError, did_you_mean
from ge.dialects.dtypes import BY_NAME
from ge.dialects.npu.instr import Inst, Instr
from ge.dialects.npu.isa import INSTRS
from ge.dialects.npu.isa.scalar import call
from ge.dialects.npu.operands import Name, OperandError
from ge.dialects.npu.program import WEIGHTS, Arena, Blob, Kernel, Program, Tensor
from ge.dialects.npu.routine import Routine
from ge.dialects.weights_file import digest_of

Weights = Callable[[str, str], memoryview]
"""Finds the blob of a digest in a weights file of a name; raises InputError."""


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


class Builder:
    """A program in the making. Lines that are wrong, or stand wrong, raise Mistake.

    The methods named after directives are those.
    """

    def __init__(self, weights: Weights | None) -> None:
        self.program = Program(target="", cores=0)
        self.in_data = False
        self.awaited: str | None = None
        """The function that a directive announced and whose label is to come."""
        self.sources: tuple[str, ...] | None = None
        """What a directive said of the call that is to come."""
        self._weights = weights
        self._weights_seen = False
        self._arena_seen = False
        self._kernel: Kernel | None = None
        self._code_statements: dict[str, Callable[..., None]] = {
            ".target": self._target,
            ".input": lambda *args: self._tensor(self.program.inputs, *args),
            ".output": lambda *args: self._tensor(self.program.outputs, *args),
            ".arena": self._arena,
            ".kernel": self._open_kernel,
            ".function": self._function,
            ".source": self._source,
            ".routine": self._routine,
            ".section": self._section,
        }
        self._data_statements: dict[str, Callable[..., None]] = {
            ".incbin": self._incbin,
            ".hex": self._hex,
            ".absent": self._absent,
        }

    def add(self, line: Line) -> Inst | None:
        """Take one line in; the instruction it holds, if it holds one."""
        if line.label is not None:
            self._label(line.label)
        if line.op is None:
            return None
        if line.op[0] == ".":
            self._directive(line.op, line.args)
            return None
        if self.in_data:
            raise Mistake(1, "'.rodata' must hold weights only, got an instruction")
        self._settle()
        inst = instruction(line.op, line.args)
        if self.sources is not None:
            if inst.instr is not call:
                raise Mistake(1, f"a call must follow '.source', got '{line.op}'")
            self.program.calls[len(self.program.code)] = self.sources
            self.sources = None
        self.program.code.append(inst)
        return inst

    def finish(self) -> None:
        """Take note of the end of the text."""
        if self.sources is not None:
            raise InputError("a call must follow '.source', got the end of the text")
        self._close_kernel()
        if not self.program.target:
            raise InputError("a program must say its '.target'")
        if self.in_data and not self._weights_seen:
            raise InputError(f"'.rodata' must begin with label '{WEIGHTS}'")

    def _directive(self, op: str, args: tuple[Any, ...]) -> None:
        if op in (self._code_statements if self.in_data else self._data_statements):
            where = "before" if self.in_data else "behind"
            raise Mistake(1, f"'{op}' must stand {where} '.section .rodata'")
        if self.sources is not None:
            raise Mistake(1, f"a call must follow '.source', got '{op}'")
        (self._data_statements if self.in_data else self._code_statements)[op](*args)

    def _label(self, name: str) -> None:
        if self.in_data:
            if name != WEIGHTS or self._weights_seen:
                raise Mistake(0, f"'.rodata' must have one label, '{WEIGHTS}', got '{name}'")
            self._weights_seen = True
            return
        if name in self.program.labels:
            raise Mistake(0, f"label '{name}' must be defined once")
        self.program.labels[name] = len(self.program.code)
        if name == self.awaited:
            self.awaited = None

    def _settle(self) -> None:
        """An instruction comes: a kernel or function announced before it must have its label."""
        if self.awaited is not None:
            raise Mistake(1, f"label '{self.awaited}' must stand before the first instruction")

    def _close_kernel(self) -> None:
        if self._kernel is not None:
            kernel = self._kernel._replace(end=len(self.program.code))
            self.program.kernels.append(kernel)
            self._kernel = None

    def _target(self, name: str, cores: int) -> None:
        if self.program.target:
            raise Mistake(1, "'.target' must be given once")
        self.program.target, self.program.cores = name, cores

    def _tensor(
        self, tensors: list[Tensor], symbol: str, name: str, dtype: str, shape: tuple[int, ...]
    ) -> None:
        if dtype not in BY_NAME:
            raise Mistake(4, f"unknown element type '{dtype}'{did_you_mean(dtype, BY_NAME)}")
        tensors.append(Tensor(symbol, name, BY_NAME[dtype], shape))

    def _arena(self, size: int, lower_bound: int = 0, no_reuse: int = 0) -> None:
        if self._arena_seen:
            raise Mistake(1, "'.arena' must be given once")
        self._arena_seen = True
        self.program.arena = Arena(size, lower_bound, no_reuse)

    def _open_kernel(self, symbol: str, kind: str, *sources: str) -> None:
        self._function(symbol)
        self._kernel = Kernel(symbol, kind, sources, len(self.program.code), 0)

    def _function(self, symbol: str) -> None:
        self._settle()
        self._close_kernel()
        self.awaited = symbol
        if symbol in self.program.labels:
            raise Mistake(2, f"label '{symbol}' must stand behind this line")

    def _source(self, *sources: str) -> None:
        self._settle()
        self.sources = sources

    def _routine(self, symbol: str, text: str) -> None:
        self._settle()
        self.program.routines.append(Routine(symbol, text))

    def _section(self, _name: str) -> None:
        self._settle()
        self.in_data = True

    def _incbin(self, name: str, digest: str, size: int) -> None:
        if self._weights is None:
            raise Mistake(2, "weights in a file need a text that is a file too")
        try:
            data = self._weights(name, digest)
        except InputError as e:
            raise Mistake(2, f"{e.where}: {e.message}" if e.where else e.message) from e
        if data.nbytes != size:
            raise Mistake(4, f"the blob has {data.nbytes} bytes, got {size}")
        self.program.weights.append(Blob(digest, size, data))

    def _hex(self, data: bytes) -> None:
        self.program.weights.append(Blob(digest_of(data), len(data), memoryview(data)))

    def _absent(self, digest: str, size: int) -> None:
        self.program.weights.append(Blob(digest, size, None))
