"""Errors a user can cause, by family. Every tool turns a family into its exit status."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_CONTROLS = {c: f"\\x{c:02x}" for c in (*range(32), *range(127, 160), 0x2028, 0x2029)} | {
    ord("\n"): "\\n",
    ord("\t"): "\\t",
}
"""Names come from files: none may end the first line of a message or steer a terminal."""


WIDTH = 160
"""Columns of a line that a message shows."""


class GeError(Exception):
    """`where: error: what must hold, what was found`; `status` is the exit status of a tool."""

    status = 3

    def __init__(self, message: str, where: str = "", detail: str = "") -> None:
        head = f"{where}: error: {message}" if where else f"error: {message}"
        head = head.translate(_CONTROLS)
        super().__init__(f"{head}\n{detail}" if detail else head)
        self.message = message
        self.where = where
        self.detail = detail


class InputError(GeError):
    """A model, text, object, target file or a name given for one is at fault."""


class UnsupportedError(GeError):
    """An operator or a feature that this project does not have."""

    status = 4


class DoesNotFit(GeError):
    """A program needs more than the target has."""

    status = 5


class CheckFailed(GeError):
    """Numbers, hazards or a program that faulted."""

    status = 6


def pointed(line: str, column: int) -> str:
    """A line of a file with a caret under a column, from 1; of a long line the part around it."""
    start = max(0, min(column - 1 - WIDTH // 2, len(line) - WIDTH))
    seen = line[start : start + WIDTH]
    shown = "".join(c if c == "\t" or c.isprintable() else " " for c in seen)
    indent = "".join("\t" if c == "\t" else " " for c in seen[: column - 1 - start])
    return f"{shown}\n{indent}^"


def shape_advice(name: str, example: str) -> str:
    """What gives an input a shape, like `1,3,224`, on the command line and in Python."""
    return f"give --shape {name}:{example}, in Python shapes={{'{name}': ({example})}}"


def check_inputs(given: Iterable[str], known: Iterable[str], of: str) -> None:
    """Raise InputError for an input that a model or a program, said by `of`, does not have."""
    known = list(known)
    for name in given:
        if name not in known:
            names = ", ".join(f"'{n}'" for n in known) or "none"
            hint = did_you_mean(name, known)
            raise InputError(f"unknown input '{name}'{hint}; the {of}'s inputs: {names}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the known word closest to `word`, or nothing."""
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""
