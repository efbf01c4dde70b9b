"""Writes the vector steps of a kernel: tiles by name, numbers folded into the instructions."""

from __future__ import annotations

import operator
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from math import frexp, inf
from typing import TYPE_CHECKING, NamedTuple

from ge.dialects import dtypes
from ge.dialects.diagnostics import UnsupportedError
from ge.dialects.dtypes import B8, F16, F32, I32, DType
from ge.dialects.lazy import lazy
from ge.dialects.npu.axes import Axis
from ge.dialects.npu.geometry import REPEAT_BYTES
from ge.lowering.accesses import FOLDS
from ge.lowering.kernels.description import Step, Value
from ge.lowering.kernels.join_products import join_products
from ge.lowering.kernels.narrow_product import narrow_product

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy("numpy")

WIDE = 32
"""Elements side by side from which on whole rows are quicker than single elements far apart."""
EXACT_MOST = 1 << 53
"""Whole numbers up to this are numbers of an instruction; larger ones must be tensors."""


class Tile(NamedTuple):
    """A value of the region on the current tile."""

    name: str
    dims: tuple[str, ...]
    dtype: DType


Arg = Tile | float
"""A tile, or a number that is known when the kernel is compiled."""


class VectorWriter:
    """Appends steps; results are new values.

    Floats are computed in f32, or `narrow` in their own type where one rounding an operation is
    what the operator means.
    """

    def __init__(self, extents: Mapping[str, int], stem: str = "t", narrow: bool = False) -> None:
        """`extents` are those of the kernel's dimensions, in its order."""
        self.narrow = narrow
        self.extents = extents
        self.stem = stem
        self.steps: list[Step] = []
        self.values: dict[str, Value] = {}
        self.converted: dict[tuple[str, DType], Tile] = {}

    def new(self, dims: Sequence[str], dtype: DType) -> Tile:
        tile = Tile(f"{self.stem}{len(self.values)}", self.sorted(dims), dtype)
        self.values[tile.name] = Value(tile.dims, dtype)
        return tile

    def sorted(self, dims: Sequence[str]) -> tuple[str, ...]:
        return tuple(d for d in self.extents if d in dims)

    def step(
        self,
        instr: str,
        out: Tile,
        *ins: Tile,
        numbers: Sequence[float] = (),
        words: Sequence[str] = (),
        when: Axis | None = None,
    ) -> Tile:
        names = tuple(t.name for t in ins)
        step = Step(instr, out.name, names, tuple(numbers), tuple(words), when=when)
        self.steps.append(step)
        return out

    def convert(self, tile: Tile, dtype: DType, how: str = "rint") -> Tile:
        """The tile as another element type; the same tile is converted once."""
        if tile.dtype is dtype:
            return tile
        key = (tile.name, dtype)
        if key not in self.converted:
            out = self.new(tile.dims, dtype)
            self.converted[key] = self.step("vconv", out, tile, words=(how,))
        return self.converted[key]

    def wide(self, arg: Arg) -> Arg:
        """Floats as the type that everything is computed in."""
        if isinstance(arg, Tile) and arg.dtype is F16 and self.narrow:
            return arg
        if isinstance(arg, Tile) and arg.dtype is dtypes.F64:
            raise UnsupportedError(f"the vector unit must not be given {arg.dtype} elements")
        if isinstance(arg, Tile) and arg.dtype.is_float:
            return self.convert(arg, F32)
        return arg

    # Instructions

    def one(self, instr: str, a: Tile) -> Tile:
        return self.step(instr, self.new(a.dims, a.dtype), a)

    def scalar(self, instr: str, a: Tile, number: float) -> Tile:
        if not a.dtype.is_float and number % 1 != 0:
            raise UnsupportedError(f"the vector unit must not be given {a.dtype} and a fraction")
        return self.step(instr, self.new(a.dims, a.dtype), a, numbers=(number,))

    def rounded(self, arg: Arg, how: str) -> Tile:
        """A float without its fraction."""
        x = self.tile(self.wide(arg), F32)
        return self.step("vconv", self.new(x.dims, x.dtype), x, words=(how,))

    def tile(self, arg: Arg, dtype: DType) -> Tile:
        """The argument as a tile, a number as one of `dtype`."""
        return arg if isinstance(arg, Tile) else self.fill(arg, (), dtype)

    def tiles(self, instr: str, a: Tile, b: Tile) -> Tile:
        return self.step(instr, self.new((*a.dims, *b.dims), a.dtype), a, b)

    def fill(self, number: float, dims: Sequence[str], dtype: DType) -> Tile:
        return self.step("vfill", self.new(dims, dtype), numbers=(number,))

    def count(self, dim: str) -> Tile:
        """The places 0, 1, 2 ... along a dimension that is whole."""
        return self.step("viota", self.new((dim,), I32), numbers=(0.0, 1.0))

    def reduce(self, instr: str, a: Tile, over: Sequence[str]) -> Tile:
        """Reduce the dimensions `over`, the last one first; none of them gives the tile itself.

        Long rows get a tile to fold them into: halves are added faster than a row is summed. What
        lies row by row is taken in row by row: elements far apart would cost a block each.
        """
        for dim in reversed(self.sorted(over)):
            if dim not in a.dims:
                continue
            inner = a.dims[-1]
            if dim != inner and self.extents[inner] >= WIDE and a.dtype.bits <= 32:
                a = self.across(instr, a, dim)
            else:
                rest = tuple(d for d in a.dims if d != dim)
                long = self.extents[dim] >= 2 * REPEAT_BYTES // a.dtype.bytes
                folded = (self.new(a.dims, a.dtype),) if long else ()
                a = self.step(instr, self.new(rest, a.dtype), a, *folded)
        return a

    def across(self, instr: str, a: Tile, dim: str) -> Tile:
        """Reduce a dimension that is not the innermost one, a place at a time."""
        low, high = -inf, inf
        if not a.dtype.is_float:
            info = np.iinfo(a.dtype.numpy)
            low, high = float(info.min), float(info.max)
        first = {"vrsum": 0.0, "vrprod": 1.0, "vrmax": low, "vrmin": high}[instr]
        out = self.fill(first, [d for d in a.dims if d != dim], a.dtype)
        self.steps.append(Step(FOLDS[instr], out.name, (out.name, a.name), over=(dim,)))
        return out

    def compare(self, how: str, a: Arg, b: Arg) -> Tile:
        a, b = self.wide(a), self.wide(b)
        if not isinstance(a, Tile):
            if not isinstance(b, Tile):
                return self.fill(float(getattr(operator, how)(a, b)), (), B8)
            flipped = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(how, how)
            return self.compare(flipped, b, a)
        if isinstance(b, Tile):
            out = self.new((*a.dims, *b.dims), B8)
            return self.step("vcmp", out, a, b, words=(how,))
        return self.step("vcmps", self.new(a.dims, B8), a, numbers=(b,), words=(how,))

    def select(self, mask: Tile, a: Arg, b: Arg) -> Tile:
        a, b = self.wide(a), self.wide(b)
        dtype = next((x.dtype for x in (a, b) if isinstance(x, Tile)), F32)
        left, right = (x if isinstance(x, Tile) else self.fill(x, (), dtype) for x in (a, b))
        dims = (*mask.dims, *left.dims, *right.dims)
        return self.step("vsel", self.new(dims, dtype), mask, left, right)

    # Arithmetic on tiles and numbers

    def add(self, a: Arg, b: Arg) -> Arg:
        return self.commuting("vadd", "vadds", a, b)

    def mul(self, a: Arg, b: Arg) -> Arg:
        return self.commuting("vmul", "vmuls", a, b)

    def maximum(self, a: Arg, b: Arg) -> Arg:
        return self.commuting("vmax", "vmaxs", a, b)

    def minimum(self, a: Arg, b: Arg) -> Arg:
        return self.commuting("vmin", "vmins", a, b)

    def commuting(self, instr: str, with_number: str, a: Arg, b: Arg) -> Arg:
        a, b = self.wide(a), self.wide(b)
        if isinstance(a, Tile) and isinstance(b, Tile):
            return self.tiles(instr, a, b)
        if isinstance(a, Tile):
            assert not isinstance(b, Tile)
            return a if (instr, b) == ("vmul", 1.0) else self.scalar(with_number, a, b)
        if isinstance(b, Tile):
            return self.commuting(instr, with_number, b, a)
        fold = {"vadd": a + b, "vmul": a * b, "vmax": max(a, b), "vmin": min(a, b)}
        return fold[instr]

    def sub(self, a: Arg, b: Arg) -> Arg:
        a, b = self.wide(a), self.wide(b)
        if not isinstance(b, Tile):
            return self.add(a, -b)
        if isinstance(a, Tile):
            return self.tiles("vsub", a, b)
        return self.add(self.mul(b, -1.0), a)

    def div(self, a: Arg, b: Arg) -> Arg:
        a, b = self.wide(a), self.wide(b)
        if isinstance(a, Tile) and isinstance(b, Tile):
            return self.tiles("vdiv", a, b)
        if not isinstance(b, Tile):
            dtype = a.dtype if isinstance(a, Tile) else F32
            return self.div(a, self.fill(b, (), dtype)) if _inexact(b) else self.mul(a, 1.0 / b)
        assert not isinstance(a, Tile)
        return self.div(self.fill(a, (), b.dtype), b)

    def unary(self, instr: str, a: Arg) -> Tile:
        a = self.wide(a)
        return self.one(instr, a if isinstance(a, Tile) else self.fill(a, (), F32))

    def exp(self, a: Arg) -> Tile:
        return self.unary("vexp", a)

    def reciprocal(self, a: Arg) -> Tile:
        return self.unary("vrec", a)

    def polynomial(self, x: Tile, coefficients: Sequence[float]) -> Arg:
        """Horner's rule, highest power first."""
        value: Arg = coefficients[0]
        for c in coefficients[1:]:
            value = self.add(self.mul(value, x), c)
        return value

    def done(self, keep: Container[str] = (), halves: bool = False) -> tuple[Step, ...]:
        """The steps, products joined with what is added to them; others read the values `keep`.

        With `halves` a last product that is rounded to f16 is one of numbers of f16.
        """
        steps = narrow_product(self.steps, self.values, keep) if halves else self.steps
        return join_products(steps, self.values, keep)

    def finish(self, value: Arg, name: str, dims: Sequence[str], dtype: DType) -> None:
        """Leave `value` in the tile `name`, with all of `dims` and as `dtype`."""
        if not isinstance(value, Tile):
            value = self.fill(value, (), dtype)
        out = Tile(name, self.sorted(dims), dtype)
        self.values[name] = Value(out.dims, dtype)
        if value.dtype is not dtype:
            self.step("vconv", out, value, words=("rint" if dtype.is_float else "trunc",))
        elif value.dims != out.dims or not self.renamed(value, name):
            self.step("vcopy", out, value)

    def renamed(self, value: Tile, name: str) -> bool:
        """Let the last step write `name` instead, if it alone makes `value`."""
        last = self.steps[-1] if self.steps else None
        named = sum(value.name in (s.out, *s.ins) for s in self.steps)
        if last is None or last.out != value.name or named != 1:
            return False
        self.steps[-1] = replace(last, out=name)
        del self.values[value.name]
        return True


def _inexact(divisor: float) -> bool:
    """Whether multiplying by the reciprocal rounds differently: not for powers of two."""
    return divisor == 0 or abs(frexp(divisor)[0]) != 0.5
