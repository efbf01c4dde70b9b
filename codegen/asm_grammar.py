"""The assembly grammar at work: reads any line, and says what is wrong with a wrong one."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, v_args

from ge.codegen import asm_lines
from ge.codegen.asm_lines import DIRECTIVES, Keyed, Line, Mistake
from ge.dialects.diagnostics import did_you_mean
from ge.dialects.npu.operands import Addr, Name, Reg, Sym
from ge.dialects.npu.places import SPACES

T = TypeVar("T")

_VALUES = {"REG", "INT", "REAL", "WORD", "LOCAL", "LSQB"}
_WORDS = {
    "REG": "a register",
    "INT": "an integer",
    "REAL": "a number",
    "WORD": "a name",
    "LOCAL": "a label",
    "STRING": "a string in double quotes",
    "SHAPE": "a shape like 16x128 or 'scalar'",
    "DIGEST": "'sha256:' and 32 hexadecimal digits",
    "CORES": "'cores'",
    "LOWER_BOUND": "'lower_bound'",
    "NO_REUSE": "'no_reuse'",
    "RODATA": "'.rodata'",
    "COLON": "':'",
    "COMMA": "','",
    "EQUAL": "'='",
    "PLUS": "'+'",
    "LSQB": "'['",
    "RSQB": "']'",
    "$END": "the end of the line",
    "<END-OF-FILE>": "the end of the line",
}


class _At(NamedTuple):
    """A value and the column it starts at."""

    value: Any
    column: int


class ColumnMistake(Exception):
    """Something wrong at a column of a line."""

    def __init__(self, column: int, message: str) -> None:
        super().__init__(message)
        self.column = column
        self.message = message


def _read(token: Token, convert: Callable[[str], T], what: str) -> T:
    try:
        return convert(str(token))
    except ValueError as e:
        raise ColumnMistake(_column(token), f"{what}, got {token}") from e


def _column(token: Token) -> int:
    return token.column or 1


def _integer(token: Token) -> int:
    return _read(token, asm_lines.integer, "an integer must fit 64 bits")


def _string(token: Token) -> str:
    return _read(token, asm_lines.string, "a string must use the escapes of JSON")


@v_args(inline=True)
class _ToLine(Transformer[Token, Line]):
    """Turns a line's tokens into a Line; every argument travels with its column."""

    def line(self, *parts: Any) -> Line:
        label = parts[0] if parts and isinstance(parts[0], _At) else None
        statement = parts[1:] if label else parts
        op, args = statement[0] if statement else (None, ())
        columns = (x.column if x else 1 for x in (label, op))
        return Line(
            label.value if label else None,
            op.value if op else None,
            tuple(a.value for a in args),
            (*columns, *(a.column for a in args)),
        )

    def label(self, name: Token) -> _At:
        return _At(str(name), _column(name))

    def instruction(self, mnemonic: Token, *operands: _At | None) -> tuple[_At, list[_At]]:
        return _At(str(mnemonic), _column(mnemonic)), [o for o in operands if o]

    def keyed(self, key: Token, value: _At) -> _At:
        return _At(Keyed(str(key), value.value), _column(key))

    def register(self, token: Token) -> _At:
        return _At(asm_lines.register(token), _column(token))

    def number(self, token: Token) -> _At:
        return _At(_integer(token), _column(token))

    def real(self, token: Token) -> _At:
        return _At(_read(token, asm_lines.real, "a number must be finite"), _column(token))

    def name(self, token: Token) -> _At:
        return _At(Name(token), _column(token))

    def symbol(self, name: Token, addend: Token) -> _At:
        return _At(Sym(str(name), _integer(addend)), _column(name))

    def address(self, space: Token, *place: Token) -> _At:
        if space not in SPACES:
            known = ", ".join(SPACES)
            raise ColumnMistake(_column(space), f"unknown memory '{space}'; known: {known}")
        base: Reg | None = None
        if place[0].type == "REG":
            base = asm_lines.register(place[0])
            place = place[1:]
        offset = _integer(place[0]) if place else 0
        return _At(Addr(SPACES[space], offset, base), _column(space))

    def numbers(self, *items: _At) -> _At:
        return _At(tuple(i.value for i in items), items[0].column - 1)

    def word(self, token: Token) -> _At:
        return _At(str(token), _column(token))

    def string(self, token: Token) -> _At:
        return _At(_string(token), _column(token))

    def shape(self, token: Token) -> _At:
        value = _read(token, asm_lines.shape, "a dimension must fit 64 bits")
        return _At(value, _column(token))

    def digest(self, token: Token) -> _At:
        return _At(token.partition(":")[2], _column(token))

    def hex(self, op: Token, token: Token) -> tuple[_At, list[_At]]:
        what = "must be pairs of hexadecimal digits"
        data = _read(token, asm_lines.hexadecimal, what)
        return self._directive(op, _At(data, _column(token)))

    def _directive(self, op: Token, *args: _At | Token | None) -> tuple[_At, list[_At]]:
        """A directive: its arguments are values already, integers, or fixed words."""
        values = []
        for arg in args:
            if isinstance(arg, _At):
                values.append(arg)
            elif arg is not None and arg.type == "INT":
                values.append(self.number(arg))
            elif arg is not None and arg.type == "RODATA":
                values.append(self.word(arg))
        return _At(str(op), _column(op)), values

    target = area = arena = kernel = function = source = routine = _directive
    section = incbin = absent = _directive


@cache
def _grammar() -> Lark:
    return Lark.open(
        "asm.lark", rel_to=__file__, start="line", parser="lalr", transformer=_ToLine()
    )


def grammar_line(line: str) -> Line:
    """The line, with columns; raises ColumnMistake if it is malformed."""
    try:
        return _grammar().parse(line)  # type: ignore[return-value]
    except UnexpectedInput as e:
        raise _explained(line, e) from None


def column_of(line: str, mistake: Mistake) -> int:
    """The column of the part of a well-formed line that a Mistake is about."""
    columns = grammar_line(line).columns
    return columns[min(mistake.place, len(columns) - 1)]


def _explained(line: str, error: UnexpectedInput) -> ColumnMistake:
    column = error.column if error.column and error.column > 0 else len(line) + 1
    if getattr(getattr(error, "token", None), "type", "") == "$END":
        column = len(line) + 1
    found = re.match(r'"[^"]*"?|[\w.]+|.', line[column - 1 :])
    text = found[0] if found else ""
    before = line[: column - 1].strip()
    if text.startswith(".") and not text.startswith(".L") and (not before or before[-1] == ":"):
        hint = did_you_mean(text, DIRECTIVES)
        return ColumnMistake(column, f"unknown directive '{text}'{hint}")
    got = f"'{text}'" if text and text != ";" else "the end of the line"
    allowed = error.allowed if isinstance(error, UnexpectedCharacters) else error.accepts  # type: ignore[attr-defined]
    return ColumnMistake(column, f"{_expected(set(allowed or ()))} must stand here, got {got}")


def _expected(terminals: set[str]) -> str:
    if "KERNEL" in terminals:
        return "a label, an instruction or a directive"
    if terminals >= _VALUES:
        terminals = terminals - _VALUES
        rest = [_WORDS[t] for t in sorted(terminals)]
        return " or ".join(["an operand", *rest])
    return " or ".join(_WORDS[t] for t in sorted(terminals)) or "nothing else"
