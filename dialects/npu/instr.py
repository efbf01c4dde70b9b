"""`@instr`: turns one annotated function into a row of the instruction table."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, get_type_hints

from ge.dialects.npu.operands import DimsKind, Kind, OperandError, Value, written
from ge.dialects.npu.places import Unit

OPCODE_BITS = 10
LENGTH_BITS = 6
WORD_BYTES = 8

INSTRS: dict[str, Instr] = {}
"""Every instruction by mnemonic. Filled by the `isa` package: import it from there."""


class Work(NamedTuple):
    """What an instruction asks of its unit; the target says what that costs."""

    items: int = 0
    """Cube tiles, or vector repeats of 256 bytes."""
    bytes: int = 0
    """Bytes moved, whole lines counted."""
    rows: int = 0
    """Contiguous runs."""
    hbm: int = 0
    """Bytes of those moved that device memory has to deliver or take."""
    stored: int = 0
    """Bytes of those that are written, by an instruction that reads device memory, too."""


@dataclass(frozen=True, eq=False)
class Instr:
    """One instruction of the ISA."""

    mnemonic: str
    opcode: int
    unit: Unit | str
    """The queue it runs in; a string names the operand that says which."""
    operands: dict[str, Kind]
    defaults: dict[str, Value]
    execute: Callable[..., None]
    work: Callable[..., Work] | None
    rate: str
    """The target's rate that its cost is looked up under; empty where only issuing costs."""
    hardware: str
    """The counterpart on the real machine, and where its cost comes from."""
    doc: str

    def __call__(self, *args: Value) -> Inst:
        """Check `args` against the operand kinds and build the instance."""
        if len(args) != len(self.operands):
            names = ", ".join(self.operands)
            n = len(self.operands)
            raise ValueError(f"'{self.mnemonic}' takes {n} operands ({names}), got {len(args)}")
        values = []
        rank = None
        for index, (name, kind) in enumerate(self.operands.items()):
            try:
                values.append(value := kind.read(args[index]))
            except ValueError:
                message = (
                    f"'{name}' of '{self.mnemonic}' must be {kind.what}, got {written(args[index])}"
                )
                raise OperandError(index, message) from None
            if isinstance(kind, DimsKind):
                rank = rank or len(value)
                if len(value) != rank:
                    message = (
                        f"'{name}' of '{self.mnemonic}' must have {rank} dimensions like the "
                        f"lists before it, got {kind.text(value)}"
                    )
                    raise OperandError(index, message)
        return Inst(self, tuple(values))

    def with_defaults(self, given: dict[str, Value]) -> Inst:
        """The instance with `given` operands by name and the defaults of the others.

        A list that is left out repeats its default's one number as often as `size` has numbers.
        """
        args = []
        for name in self.operands:
            if name in given:
                args.append(given[name])
            elif name not in self.defaults:
                raise ValueError(f"'{self.mnemonic}' needs operand '{name}'")
            else:
                args.append(self.default(name, given))
        return self(*args)

    def default(self, name: str, given: dict[str, Value]) -> Value:
        """The value of operand `name` when it is left out."""
        value = self.defaults[name]
        size = given.get("size")
        if isinstance(self.operands[name], DimsKind) and isinstance(size, tuple):
            return tuple(value) * len(size)
        return value

    def is_keyed(self, name: str) -> bool:
        """Whether operand `name` is written `name=value`."""
        return self.operands[name].keyed or name in self.defaults


class Inst(NamedTuple):
    """An instruction with its operand values: what `.s`, `.o` and the simulator all carry."""

    instr: Instr
    args: tuple[Value, ...]

    def named(self) -> dict[str, Value]:
        """The operands by name."""
        return dict(zip(self.instr.operands, self.args, strict=True))

    def operands_text(self) -> str:
        """The operands as assembly writes them; those at their default are left out."""
        named = self.named()
        parts = []
        for name, kind in self.instr.operands.items():
            text = kind.text(named[name])
            # Texts are compared because -0.0 equals 0.0 but has other bits.
            if name in self.instr.defaults and text == kind.text(self.instr.default(name, named)):
                continue
            parts.append(f"{name}={text}" if self.instr.is_keyed(name) else text)
        return ", ".join(parts)

    def __str__(self) -> str:
        operands = self.operands_text()
        return f"{self.instr.mnemonic} {operands}" if operands else self.instr.mnemonic


def instr(
    opcode: int,
    unit: Unit | str = Unit.S,
    *,
    rate: str = "",
    work: Callable[..., Work] | None = None,
    hardware: str = "",
) -> Callable[[Callable[..., None]], Instr]:
    """Register the decorated function as an instruction; its signature is the operand list.

    The name is the mnemonic: `__` stands for `.`, and a trailing `_` keeps clear of Python's own
    words. A parameter with a default may be left out in assembly and is written `name=value`.
    """

    def register(execute: Callable[..., None]) -> Instr:
        mnemonic = execute.__name__.replace("__", ".").rstrip("_")
        hints: dict[str, Any] = get_type_hints(execute, include_extras=True)
        params = list(inspect.signature(execute).parameters.values())[1:]
        row = Instr(
            mnemonic=mnemonic,
            opcode=opcode,
            unit=unit,
            operands={p.name: hints[p.name].__metadata__[0] for p in params},
            defaults={p.name: p.default for p in params if p.default is not p.empty},
            execute=execute,
            work=work,
            rate=rate,
            hardware=hardware,
            doc=inspect.getdoc(execute) or "",
        )
        _check(row)
        INSTRS[mnemonic] = row
        return row

    return register


def _check(row: Instr) -> None:
    if not 0 < row.opcode < 1 << OPCODE_BITS:
        raise ValueError(
            f"'{row.mnemonic}': opcode {row.opcode:#x} needs more than {OPCODE_BITS} bits"
        )
    for other in INSTRS.values():
        if other.opcode == row.opcode or other.mnemonic == row.mnemonic:
            raise ValueError(
                f"'{row.mnemonic}' and '{other.mnemonic}' share opcode {row.opcode:#x}"
            )
    if (row.rate == "") != (row.work is None):
        raise ValueError(f"'{row.mnemonic}': rate and work go together")
