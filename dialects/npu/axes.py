"""Affine maps from a kernel's dimensions to the axes of a tensor or a buffer."""

from __future__ import annotations

import re
from typing import NamedTuple

_TERM = re.compile(r"\s*([+-]?)\s*(?:(?:(\d+)\s*\*\s*)?([A-Za-z_]\w*)(?:\s*\*\s*(\d+))?|(\d+))\s*")


class Axis(NamedTuple):
    """One axis: the sum of `coefficient * dimension` over `terms`, plus `offset`."""

    terms: tuple[tuple[str, int], ...]
    offset: int = 0

    def extent(self, sizes: dict[str, int]) -> int:
        """How many places the axis spans when its dimensions have these sizes."""
        return 1 + sum(abs(step) * (sizes[dim] - 1) for dim, step in self.terms)

    def __str__(self) -> str:
        parts = [d if c == 1 else f"{c}*{d}" for d, c in self.terms]
        text = "+".join(parts)
        if self.offset or not parts:
            text += f"{self.offset:+d}" if parts else str(self.offset)
        return text.replace("+-", "-")


Axes = tuple[Axis, ...]


def axes(text: str) -> Axes:
    """The map written as `b, 2*y+ky-1, k`; raises ValueError where it is not one."""
    return tuple(_axis(part) for part in text.split(",")) if text.strip() else ()


def _axis(text: str) -> Axis:
    terms: list[tuple[str, int]] = []
    offset, at = 0, 0
    while at < len(text) or not text:
        match = _TERM.match(text, at)
        if match is None or (at and not match[1]):
            raise ValueError(f"'{text}' must be a sum like 2*y+ky-1")
        sign, before, dim, after, number = match.groups()
        factor = -1 if sign == "-" else 1
        if dim:
            terms.append((dim, int(before or after or 1) * factor))
        else:
            offset += int(number) * factor
        at = match.end()
    return Axis(tuple(terms), offset)


def identity(dims: tuple[str, ...]) -> Axes:
    """One axis a dimension."""
    return tuple(Axis(((d, 1),)) for d in dims)


def dims_of(maps: Axes) -> tuple[str, ...]:
    """The dimensions a map reads, in order of appearance."""
    return tuple(dict.fromkeys(d for axis in maps for d, _ in axis.terms))


def text_of(maps: Axes) -> str:
    """The map as `axes` reads it."""
    return ", ".join(map(str, maps))
