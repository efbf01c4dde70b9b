"""What the tools that compile models are told about them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ge.dialects.diagnostics import InputError

T = TypeVar("T")
MODEL_OPTIONS = ("shape", "value", "precision", "target", "cores", "cache")


def add_model_options(parser: argparse.ArgumentParser, precisions: Sequence[str] | None) -> None:
    """The options of a tool that compiles; None for precisions that are checked later."""
    add = parser.add_argument_group("model and machine").add_argument
    add(
        *("--shape",),
        metavar="NAME:1,3,224,224",
        action="append",
        default=[],
        type=_sizes,
        help="the shape of an input with open dimensions",
    )
    add(
        *("--value",),
        metavar="NAME:1,2",
        action="append",
        default=[],
        type=_numbers,
        help="make an input a constant",
    )
    add("--precision", choices=precisions, default="origin", help="default: the model's own types")
    add("--target", default="ascend910b1", metavar="NAME|FILE.toml", help="the machine")
    add("--cores", type=count, default=0, metavar="N", help="default: all that the target has")
    add(
        "--cache",
        metavar="DIR",
        default="",
        help="keep programs in DIR for other runs; default: $GE_CACHE_DIR if set, else nowhere",
    )


def given_of(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[str]:
    """The options of `add_model_options` that a command line gives."""
    return [name for name in MODEL_OPTIONS if getattr(args, name) != parser.get_default(name)]


def once(given: Sequence[tuple[str, Any]], what: str) -> dict[str, Any]:
    """Values by name; raises InputError for one given twice."""
    names = [name for name, _ in given]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the {what} of '{name}' must be given once")
    return dict(given)


def named(text: str, parse: Callable[[str], T], what: str) -> tuple[str, T]:
    """The name before the last colon and what is parsed behind it; `parse` raises ValueError."""
    name, _, rest = text.rpartition(":")
    try:
        value = parse(rest)
    except ValueError:
        name = ""
    if not name:
        raise argparse.ArgumentTypeError(f"must be {what}, got '{text}'")
    return name, value


def _list(text: str, parse: Callable[[str], T]) -> tuple[T, ...]:
    return tuple(parse(word) for word in text.split(",")) if text else ()


def _sizes(text: str) -> tuple[str, tuple[int, ...]]:
    return named(text, lambda rest: _list(rest, _size), "NAME:SIZE,SIZE,...")


def _size(word: str) -> int:
    if not word.strip().isdecimal():
        raise ValueError(word)
    return int(word)


def _numbers(text: str) -> tuple[str, tuple[float, ...]]:
    return named(text, lambda rest: _list(rest, _number), "NAME:NUMBER,NUMBER,...")


def _number(word: str) -> int | float:
    try:
        return int(word)
    except ValueError:
        return float(word)


def count(text: str) -> int:
    """A number of 1 or more."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a number of 1 or more, got '{text}'")
    return int(text)
