"""Memories and execution units of one core: the words everything else uses for them."""

from __future__ import annotations

from enum import Enum


class Space(Enum):
    """A memory; the value is its name in assembly."""

    GM = "gm"
    L1 = "l1"
    L0A = "l0a"
    L0B = "l0b"
    L0C = "l0c"
    UB = "ub"

    # Members are equal only to themselves; Enum hashes their names, in Python, at each look-up.
    __hash__ = object.__hash__

    def __str__(self) -> str:
        return self.value


class Unit(Enum):
    """An in-order execution queue; the value is its name in assembly."""

    S = "s"
    MTE2 = "mte2"
    MTE2V = "mte2v"
    MTE1 = "mte1"
    M = "m"
    FIX = "fix"
    V = "v"
    MTE3 = "mte3"

    __hash__ = object.__hash__

    def __str__(self) -> str:
        return self.value


SPACES = {s.value: s for s in Space}
UNITS = {u.value: u for u in Unit}
