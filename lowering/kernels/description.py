"""A kernel's description: dimensions, operands seen through affine maps, and statements on tiles.

One lowering (`build_tree`) turns any description into loops, buffers, moves and instructions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from math import prod
from typing import NamedTuple

from xdsl.ir import SSAValue

from ge.dialects.dtypes import DType
from ge.dialects.npu.axes import Axes, Axis, dims_of


class DimKind(Enum):
    """What the iterations of a dimension have to do with each other."""

    PARALLEL = "parallel"
    """Nothing: any order, any core."""
    REDUCE = "reduce"
    """They add up in the matrix unit."""
    SEQUENTIAL = "sequential"
    """Each continues where the one before stopped."""
    WHOLE = "whole"
    """A tile always spans all of them."""


@dataclass(frozen=True)
class Dim:
    """A dimension of the kernel."""

    name: str
    extent: int
    kind: DimKind


class Indexed(NamedTuple):
    """An axis of an operand that has one place a tile, which another operand names."""

    by: str
    """The operand that holds the indices."""
    axes: Axes
    """Where the current tile's index stands in it."""
    extent: int
    """Places of the axis: a negative index counts from behind the last one."""
    stride: int


@dataclass(frozen=True)
class Operand:
    """A tensor of device memory: a strided view, and where each of its axes is read or written."""

    name: str
    axes: Axes
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    pad: float = 0.0
    """What a load finds outside the shape."""
    indexed: Indexed | None = None

    @property
    def dims(self) -> tuple[str, ...]:
        """The dimensions of a tile."""
        return dims_of(self.axes)

    @property
    def depends(self) -> tuple[str, ...]:
        """The dimensions whose tiles decide what a load brings."""
        return dims_of((*self.axes, *self.indexed.axes)) if self.indexed else self.dims

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.dtype.bytes


@dataclass(frozen=True)
class Value:
    """A tile that a statement makes: the dimensions it has, and its element type."""

    dims: tuple[str, ...]
    dtype: DType


@dataclass(frozen=True)
class Step:
    """One vector instruction; `out` may be a value that exists already and is written in place."""

    instr: str
    out: str
    ins: tuple[str, ...]
    numbers: tuple[float, ...] = ()
    words: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    """Dimensions that the step is repeated over, one place at a time."""
    when: Axis | None = None
    """Tiles on which this is nowhere above 0 go without the step."""


@dataclass(frozen=True)
class Vector:
    """Vector instructions that run one after the other on a tile."""

    steps: tuple[Step, ...]
    stage: int = 0
    when: Axis | None = None
    """Tiles on which this is nowhere above 0 go without the statement."""
    last: bool = False
    """Only the last tile of the sequential dimension has the statement."""


@dataclass(frozen=True)
class Matrix:
    """`out += a . b`, summed over the dimensions `over`."""

    out: str
    a: str
    b: str
    over: tuple[str, ...]
    stage: int = 0
    ahead: int = 0
    """How many iterations before the product its operands are loaded."""


@dataclass(frozen=True)
class HandOver:
    """A product, as it leaves the accumulators, is the value `out`."""

    out: str
    source: str
    stage: int = 0
    when: Axis | None = None
    """Tiles on which this is nowhere above 0 go without it."""


Statement = Vector | Matrix | HandOver


@dataclass(frozen=True)
class Description:
    """All that a kernel computes. Two equal descriptions are one kernel."""

    kind: str
    dims: tuple[Dim, ...]
    operands: tuple[Operand, ...]
    results: tuple[Operand, ...]
    body: tuple[Statement, ...]
    init: tuple[Vector, ...] = ()
    final: tuple[Vector, ...] = ()
    values: tuple[tuple[str, Value], ...] = ()
    """Every tile by name: matrix results, carried values and what the vector steps make."""
    carried: tuple[str, ...] = ()
    """Values that live across the iterations of the sequential dimension."""
    until: Axis | None = None
    """The highest place of the sequential dimension that the current tiles need; all if unsaid."""

    @cached_property
    def extents(self) -> dict[str, int]:
        return {d.name: d.extent for d in self.dims}

    @property
    def single(self) -> frozenset[str]:
        """Dimensions that a tile has one place of, because an index names it."""
        indexed = (o.indexed for o in (*self.operands, *self.results) if o.indexed)
        return frozenset(d for i in indexed for d in dims_of(i.axes))

    @property
    def ordered(self) -> tuple[str, ...]:
        """Dimensions that one core goes through in order: their places may be written twice."""
        named = {x for o in self.results if o.indexed for x in dims_of(o.indexed.axes)}
        return tuple(d.name for d in self.dims if d.name in named)

    def dims_with(self, kind: DimKind) -> tuple[str, ...]:
        return tuple(d.name for d in self.dims if d.kind is kind)

    @property
    def statements(self) -> Iterator[Statement]:
        yield from self.init
        yield from self.body
        yield from self.final

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        return tuple(s for s in self.body if isinstance(s, Matrix))


class Part(NamedTuple):
    """One of the kernels that a fused operation is."""

    description: Description
    ins: tuple[SSAValue, ...]
    """What it reads, in the order of its operands."""
    offset: int = 0
    """Elements of the result in front of what it writes."""
    brings: bool = False
    """Whether it only brings its operand to where the result lies."""


def in_turns(description: Description) -> Description:
    """The same kernel with every statement in one stage: units do not work ahead of each other."""
    body = tuple(
        replace(s, stage=0, ahead=0) if isinstance(s, Matrix) else replace(s, stage=0)
        for s in description.body
    )
    init, final = (
        tuple(replace(s, stage=0) for s in part) for part in (description.init, description.final)
    )
    return replace(description, body=body, init=init, final=final)
