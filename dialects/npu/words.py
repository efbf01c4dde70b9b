"""The words of enumerated operands: roundings, comparisons, activations."""

from __future__ import annotations

from enum import Enum


class Round(Enum):
    """How a conversion rounds to an integer or to fewer bits."""

    NEAREST = "rint"
    ZERO = "trunc"
    DOWN = "floor"
    UP = "ceil"

    def __str__(self) -> str:
        return self.value


class Compare(Enum):
    """A comparison of a vector instruction."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"

    def __str__(self) -> str:
        return self.value


class Activation(Enum):
    """What the way out of the accumulators applies."""

    NONE = "plain"
    RELU = "relu"

    def __str__(self) -> str:
        return self.value
