"""Models that cannot be imported whole at once: their shapes depend on values, or on the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from xdsl.ir import Block, SSAValue

from ge.dialects.diagnostics import UnsupportedError
from ge.dialects.graph.base import shape_of

DECIDING_MOST = 64
"""Elements of an input that may decide a shape."""


class NeedsValues(UnsupportedError):
    """A model whose shapes depend on the values of these inputs."""

    def __init__(self, why: UnsupportedError, names: Sequence[str]) -> None:
        self.names = sorted(names)
        given = " ".join(f"--value {name}:1,2,..." for name in self.names)
        detail = f"{why.detail}\n  works: values that are known when compiling, {given}; ge-run"
        super().__init__(why.message, why.where, detail)


Pending = dict[str, dict[str, "int | None"]]
"""By node, called after its first result: its results, each with the axis that ends early.

None is for a result that is whole; one whose value decides shapes stands for itself.
"""


def counted(node: str) -> str:
    """What the number is called that says how long a node's results are."""
    return f"{node}.count"


class NeedsStage(UnsupportedError):
    """A model with operators whose results are as long as the data say."""

    def __init__(self, pending: Pending, where: str) -> None:
        what = ", ".join(f"'{n}'" for n in pending)
        super().__init__(
            f"shapes in one program must not depend on the data, that of {what} does; ge-run and "
            "ge.compile run such a model in parts",
            where,
        )
        self.pending = pending


class Bounded(Exception):
    """The results of an operator whose length is not known, and the axes along which they end."""

    def __init__(self, results: Sequence[SSAValue], axes: Sequence[int | None]) -> None:
        super().__init__()
        self.results = results
        self.axes = axes


@dataclass(frozen=True)
class Stage:
    """A part of a model: up to the results of some nodes, or from known values on."""

    until: Sequence[str] = ()
    """The nodes whose results, as long as they can get, are the outputs."""
    known: Mapping[str, Any] = field(default_factory=dict)
    """Values by name: an array for a constant, a shape with an element type for an input."""


def arguments_behind(value: SSAValue) -> set[SSAValue]:
    """The arguments that a value is computed from; none if one of them is large."""
    found: set[SSAValue] = set()
    seen, rest = {value}, [value]
    while rest:
        owner = rest[-1].owner
        last = rest.pop()
        if isinstance(owner, Block):
            found.add(last)
            continue
        rest += [v for v in owner.operands if v not in seen]
        seen |= set(owner.operands)
    return found if all(prod(shape_of(v)) <= DECIDING_MOST for v in found) else set()
