"""One line of assembly text: what it holds, and the quick way to read what the printer writes.

`asm_grammar.py` reads every line and gives every message; `quick_line` takes a strict subset.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ge.dialects.npu.isa import INSTRS
from ge.dialects.npu.operands import Addr, Name, Reg, Sym, Value
from ge.dialects.npu.places import SPACES

MOST_DIGITS = 20
"""Digits of the longest integers: those of 64 bits."""


class Keyed(NamedTuple):
    """An operand written `key=value`."""

    key: str
    value: Value


class Line(NamedTuple):
    """A line as written: its label, its mnemonic or directive and its arguments.

    `columns` are those of the label, the mnemonic and each argument, counted from 1; lines that
    were read the quick way have none.
    """

    label: str | None
    op: str | None
    args: tuple[Any, ...]
    columns: tuple[int, ...] = ()


class Mistake(Exception):
    """Something wrong with a line: with its label (0), its mnemonic (1) or argument n - 2."""

    def __init__(self, place: int, message: str) -> None:
        super().__init__(message)
        self.place = place
        self.message = message


_WORD = r"[A-Za-z_][A-Za-z0-9_.]*(?!\w)"
_LOCAL = r"\.L[A-Za-z0-9_]+(?![\w.])"
_REG = r"x(?:0|[1-9][0-9]{0,2})(?![\w.])"
_INT = r"-?(?:0x[0-9a-fA-F]+|[0-9]+)(?![\w.])"
_REAL = r"(?:-?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|-?[0-9]+[eE][-+]?[0-9]+|-inf)(?![\w.])"
_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMA = r"[ \t]*,[ \t]*"
_END = r"[ \t]*(?:;.*)?"

_HEAD = re.compile(
    rf"[ \t]*(?:({_WORD}|{_LOCAL})[ \t]*:[ \t]*)?(\.?{_WORD})?(?=[ \t;]|\Z)[ \t]*"
).match
_OPERAND = re.compile(
    rf"(?:({_WORD})=)?"  # 1 key
    rf"(?:({_REG})|({_REAL})|({_INT})"  # 2 register, 3 real, 4 integer
    rf"|({_WORD})\[(?:({_REG})(?:\+({_INT}))?|({_INT}))\]"  # 5 memory, 6 base, 7 and 8 offset
    rf"|\[((?:{_REG}|{_INT})(?:,(?:{_REG}|{_INT}))*)\]"  # 9 list
    rf"|({_WORD}|{_LOCAL})(?:\+({_INT}))?)"  # 10 name, 11 addend
    rf"[ \t]*(,[ \t]*|(?=;)|\Z)"  # 12 what follows
).match
_IS_REG = re.compile(_REG).fullmatch
is_local_label = re.compile(_LOCAL).fullmatch
_KEYS = {name for row in INSTRS.values() for name in row.operands}


def integer(text: str) -> int:
    """The integer that `text` writes; raises ValueError if it has more digits than 64 bits."""
    if len(text) > MOST_DIGITS:
        raise ValueError
    return int(text, 16) if "x" in text else int(text)


def real(text: str) -> float:
    """The number that `text` writes; raises ValueError if only its digits are finite."""
    value = float(text)
    if math.isinf(value) and text != "-inf":
        raise ValueError
    return value


def string(text: str) -> str:
    """The string that a JSON literal writes; raises ValueError."""
    value: str = json.loads(text)
    return value


def shape(text: str) -> tuple[int, ...]:
    """The shape that `16x128` or `scalar` writes; raises ValueError."""
    return () if text == "scalar" else tuple(integer(n) for n in text.split("x"))


def hexadecimal(text: str) -> bytes:
    """The bytes that the string `text` writes; raises ValueError."""
    return bytes.fromhex(string(text))


def register(text: str) -> Reg:
    """The register that `text` names."""
    return Reg(int(text[1:]))


Convert = Callable[[str], Any]
_WORD_ARG: tuple[str, Convert] = (_WORD, str)
_STRING_ARG: tuple[str, Convert] = (_STRING, string)
_INT_ARG: tuple[str, Convert] = (_INT, integer)
_DIGEST_ARG: tuple[str, Convert] = (r"sha256:[0-9a-f]{32}(?![\w.])", lambda t: t[7:])
_SHAPE_ARG: tuple[str, Convert] = (r"(?:scalar|[0-9]+(?:x[0-9]+)*)(?![\w.])", shape)


def _keyed(key: str) -> tuple[str, Convert]:
    return rf"{key}[ \t]*=[ \t]*{_INT}", lambda text: integer(text.partition("=")[2].strip(" \t"))


_TENSOR = (_WORD_ARG, _STRING_ARG, _WORD_ARG, _SHAPE_ARG)
_DIRECTIVES: dict[str, tuple[tuple[str, Convert], ...]] = {
    ".target": (_WORD_ARG, _keyed("cores")),
    ".input": _TENSOR,
    ".output": _TENSOR,
    ".arena": (_INT_ARG, _keyed("lower_bound"), _keyed("no_reuse")),
    ".function": (_WORD_ARG,),
    ".routine": (_WORD_ARG, _STRING_ARG),
    ".section": ((r"\.rodata(?![\w.])", str),),
    ".incbin": (_STRING_ARG, _DIGEST_ARG, _INT_ARG),
    ".hex": ((_STRING, hexadecimal),),
    ".absent": (_DIGEST_ARG, _INT_ARG),
}
_ARGUMENTS = {
    name: re.compile(_COMMA.join(f"({pattern})" for pattern, _ in parts) + _END).fullmatch
    for name, parts in _DIRECTIVES.items()
}
_LIST = rf"({_STRING}(?:{_COMMA}{_STRING})*){_END}"
_KERNEL = re.compile(rf"({_WORD}){_COMMA}{_LIST}").fullmatch
_SOURCE = re.compile(_LIST).fullmatch
_STRINGS = re.compile(_STRING).findall
DIRECTIVES = (*_DIRECTIVES, ".kernel", ".source")


def quick_line(line: str) -> Line | None:
    """The line, if it is written as the printer writes; None if the grammar has to look at it."""
    head = _HEAD(line)
    if head is None:
        return None
    label, op = head.groups()
    rest = line[head.end() :]
    try:
        if op is None:
            args: tuple[Any, ...] | None = None if rest and rest[0] != ";" else ()
        elif op[0] == ".":
            args = _directive(op, rest)
        else:
            args = _operands(rest)
    except ValueError:
        return None
    return None if args is None else Line(label, op, args)


def _directive(op: str, rest: str) -> tuple[Any, ...] | None:
    if op == ".kernel":
        found = _KERNEL(rest)
        return found and (found[1], *map(string, _STRINGS(found[2])))
    if op == ".source":
        found = _SOURCE(rest)
        return found and tuple(map(string, _STRINGS(found[1])))
    match = _ARGUMENTS.get(op)
    found = match and match(rest)
    if not found:
        return None
    texts = found.groups()
    return tuple(convert(t) for t, (_, convert) in zip(texts, _DIRECTIVES[op], strict=True))


def _operands(rest: str) -> tuple[Any, ...] | None:
    if not rest or rest[0] == ";":
        return ()
    args = []
    at = 0
    while True:
        found = _OPERAND(rest, at)
        if found is None or (value := _value(found)) is None:
            return None
        if (key := found[1]) is not None:
            if key not in _KEYS:
                return None
            value = Keyed(key, value)
        args.append(value)
        if not found[12]:
            return tuple(args)
        at = found.end()


def _value(found: re.Match[str]) -> Value | None:
    _, reg, real_, int_, space, base, offset, place, items, name, addend, _ = found.groups()
    if name is not None:
        return _named(name, addend)
    if space is not None:
        if space not in SPACES:
            return None
        at = integer(place if base is None else offset or "0")
        return Addr(SPACES[space], at, register(base) if base else None)
    if items is not None:
        return tuple(register(i) if i[0] == "x" else integer(i) for i in items.split(","))
    if reg is not None:
        return register(reg)
    return integer(int_) if int_ is not None else real(real_)


def _named(name: str, addend: str | None) -> Value | None:
    if _IS_REG(name) or (name[0] == "." and addend is not None):
        return None
    return Name(name) if addend is None else Sym(name, integer(addend))
