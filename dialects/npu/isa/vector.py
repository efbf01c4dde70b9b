"""The vector unit: one pass over strided tiles of `ub`."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ge.dialects import dtypes
from ge.dialects.dtypes import DType
from ge.dialects.lazy import lazy
from ge.dialects.npu.geometry import repeats
from ge.dialects.npu.instr import Instr, Work, instr
from ge.dialects.npu.operands import (
    Compare,
    Comparison,
    Dims,
    Real,
    Round,
    Rounding,
    Type,
    Ub,
)
from ge.dialects.npu.places import Unit
from ge.dialects.npu.state import State

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy("numpy")

Sizes = tuple[int, ...]
Ufunc = Callable[..., Any]


class Passes(NamedTuple):
    """How often an instruction passes over integers that the unit has no lanes for."""

    wide: int = 1
    """Those of 64 bits, worked on as two words: carries, cross products, two comparisons."""
    narrow: int = 1
    """Those of 8 bits, widened and narrowed again."""
    unsigned: int = 1
    """Those without sign, of 16 bits and more, whose first bits are flipped for it."""

    def on(self, dt: DType) -> int:
        """The passes over elements of `dt`."""
        if dt.is_float or dt is dtypes.B8:
            return 1
        if dt.bytes == 1:
            return self.narrow
        wide = self.wide if dt.bytes == WIDE_BYTES else 1
        return wide * (self.unsigned if dt.name[0] == "u" else 1)


WIDE_BYTES = 8
BITS = Passes()
SUM = Passes(wide=2, narrow=3)
PRODUCT = Passes(wide=6, narrow=3)
ORDER = Passes(wide=3, narrow=3, unsigned=2)
SHIFT = Passes(wide=4, narrow=3)


def _pass(size: Sizes, dt: DType, **strides: Any) -> Work:
    views = [v for name, v in strides.items() if name in ("ds", "sa", "sb", "sm")]
    return Work(items=repeats(size, dt.bytes, *views) if prod(size) else 0)


def _passes(passes: Passes) -> Callable[..., Work]:
    def work(size: Sizes, dt: DType, **named: Any) -> Work:
        return Work(items=_pass(size, dt, **named).items * passes.on(dt))

    return work


def number_as(s: float, dt: DType) -> Any:
    """A number as an element; integers wrap."""
    return dt.numpy.type(s) if dt.is_float else np.asarray(int(s)).astype(dt.numpy)[()]


def _convert(size: Sizes, ds: Sizes, sa: Sizes, dt: DType, to: DType, **_: Any) -> Work:
    wider = max(dt.bytes, to.bytes)
    return Work(items=repeats(size, wider, ds, sa) if prod(size) else 0)


def _shrink(size: Sizes, sa: Sizes, dt: DType, **_: Any) -> Work:
    return Work(items=repeats(size, dt.bytes, sa) * ORDER.on(dt) if prod(size) else 0)


def _elements(size: Sizes, **_: Any) -> Work:
    return Work(items=prod(size))


_UFUNCS: dict[Instr, Ufunc] = {}


class Row(NamedTuple):
    """An elementwise instruction: what a line of the tables below says."""

    opcode: int
    name: str
    rate: str
    passes: Passes
    hardware: str
    ufunc: Ufunc
    meaning: str


def _row(row: Row, execute: Callable[..., None], doc: str) -> Instr:
    execute.__name__ = row.name
    execute.__doc__ = doc
    work = _passes(row.passes)
    made = instr(row.opcode, Unit.V, rate=row.rate, work=work, hardware=row.hardware)(execute)
    _UFUNCS[made] = row.ufunc
    return made


def _two(row: Row) -> Instr:
    def execute(
        m: State, dst: Ub, a: Ub, b: Ub, size: Dims, ds: Dims, sa: Dims, sb: Dims, dt: Type
    ) -> None:
        left, right = m.read(a, size, sa, dt), m.read(b, size, sb, dt)
        row.ufunc(left, right, out=m.out(dst, size, ds, dt))

    return _row(row, execute, f"Elementwise: `dst = {row.meaning}`.")


def _one(row: Row) -> Instr:
    def execute(m: State, dst: Ub, a: Ub, size: Dims, ds: Dims, sa: Dims, dt: Type) -> None:
        value = m.read(a, size, sa, dt)
        row.ufunc(value, out=m.out(dst, size, ds, dt))

    return _row(row, execute, f"Elementwise: `dst = {row.meaning}`.")


def _scalar(row: Row) -> Instr:
    def execute(
        m: State, dst: Ub, a: Ub, s: Real, size: Dims, ds: Dims, sa: Dims, dt: Type
    ) -> None:
        value = m.read(a, size, sa, dt)
        row.ufunc(value, number_as(s, dt), out=m.out(dst, size, ds, dt))

    return _row(row, execute, f"Elementwise with a number: `dst = {row.meaning}`.")


def _reduce(opcode: int, name: str, hardware: str, ufunc: str, meaning: str) -> Instr:
    def execute(m: State, dst: Ub, a: Ub, size: Dims, ds: Dims, sa: Dims, dt: Type) -> None:
        value = m.read(a, size, sa, dt)
        out = m.out(dst, size[:-1], ds[:-1], dt)
        getattr(np, ufunc).reduce(value, axis=-1, out=out)

    execute.__name__ = name
    execute.__doc__ = (
        f"Row by row: `dst[i] = {meaning}` over the last dimension, whose stride in `dst` is 0."
    )
    return instr(opcode, Unit.V, rate="vreduce", work=_shrink, hardware=hardware)(execute)


def _copy(value: Any, out: Any) -> None:
    out[...] = value


def _rsqrt(value: Any, out: Any) -> None:
    np.sqrt(value, out=out)
    np.reciprocal(out, out=out)


def _shift(ufunc: str) -> Ufunc:
    def shift(a: Any, b: Any, out: Any) -> None:
        """A shift by the width or more leaves nothing, or the sign alone."""
        width = a.dtype.itemsize * 8
        getattr(np, ufunc)(a, np.minimum(b, a.dtype.type(width - 1)), out=out)
        if ufunc == "left_shift" or a.dtype.kind == "u":
            out[...] = np.where(b >= a.dtype.type(width), 0, out)

    return shift


class _Lazy:
    """A numpy function found at its first use, so that listing the table loads no numpy."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, out: Any) -> Any:
        return self.found(*args, out=out)

    @property
    def found(self) -> Ufunc:
        """The function itself."""
        function: Ufunc = getattr(np, self._name)
        return function


def ufunc_of(row: Instr) -> Ufunc | None:
    """What the body of an elementwise instruction does with tiles, and a number as an element."""
    ufunc = _UFUNCS.get(row)
    return ufunc.found if isinstance(ufunc, _Lazy) else ufunc


TWO = tuple(
    _two(Row(*row))
    for row in (
        (0x80, "vadd", "varith", SUM, "Add", _Lazy("add"), "a + b"),
        (0x81, "vsub", "varith", SUM, "Sub", _Lazy("subtract"), "a - b"),
        (0x82, "vmul", "varith", PRODUCT, "Mul", _Lazy("multiply"), "a * b"),
        (0x83, "vdiv", "vdiv", BITS, "Div", _Lazy("divide"), "a / b (floats)"),
        (0x84, "vmax", "varith", ORDER, "Max", _Lazy("maximum"), "the larger of a and b; nan wins"),
        (
            0x85,
            "vmin",
            "varith",
            ORDER,
            "Min",
            _Lazy("minimum"),
            "the smaller of a and b; nan wins",
        ),
        (0x86, "vand", "varith", BITS, "And", _Lazy("bitwise_and"), "a and b, bit by bit"),
        (0x87, "vor", "varith", BITS, "Or", _Lazy("bitwise_or"), "a or b, bit by bit"),
        (
            0x88,
            "vxor",
            "varith",
            BITS,
            "two of And, Or, Not",
            _Lazy("bitwise_xor"),
            "a xor b, bit by bit",
        ),
        (0x89, "vshl", "varith", SHIFT, "ShiftLeft", _shift("left_shift"), "a shifted left by b"),
        (
            0x8A,
            "vshr",
            "varith",
            SHIFT,
            "ShiftRight",
            _shift("right_shift"),
            "a shifted right by b",
        ),
    )
)

ONE = tuple(
    _one(Row(*row))
    for row in (
        (0x90, "vcopy", "vunary", BITS, "Copy", _copy, "a"),
        (0x91, "vabs", "vunary", ORDER, "Abs", _Lazy("absolute"), "|a|"),
        (0x92, "vexp", "vexp", BITS, "Exp", _Lazy("exp"), "e^a"),
        (0x93, "vln", "vexp", BITS, "Ln", _Lazy("log"), "the natural logarithm of a"),
        (0x94, "vsqrt", "vexp", BITS, "Sqrt", _Lazy("sqrt"), "the square root of a"),
        (0x95, "vrsqrt", "vunary", BITS, "Rsqrt", _rsqrt, "1 / sqrt(a)"),
        (0x96, "vrec", "vunary", BITS, "Reciprocal", _Lazy("reciprocal"), "1 / a (floats)"),
        (0x97, "vnot", "vunary", BITS, "Not", _Lazy("invert"), "not a, bit by bit"),
    )
)

SCALAR = tuple(
    _scalar(Row(*row))
    for row in (
        (0xA0, "vadds", "vunary", SUM, "Adds", _Lazy("add"), "a + s"),
        (0xA1, "vmuls", "vunary", PRODUCT, "Muls", _Lazy("multiply"), "a * s"),
        (
            0xA2,
            "vmaxs",
            "vunary",
            ORDER,
            "Maxs",
            _Lazy("maximum"),
            "the larger of a and s; nan wins",
        ),
        (
            0xA3,
            "vmins",
            "vunary",
            ORDER,
            "Mins",
            _Lazy("minimum"),
            "the smaller of a and s; nan wins",
        ),
    )
)

REDUCE = tuple(
    _reduce(*row)
    for row in (
        (0xB0, "vrsum", "WholeReduceSum", "add", "the sum of a[i, :]"),
        (0xB1, "vrmax", "WholeReduceMax", "maximum", "the largest of a[i, :]"),
        (0xB2, "vrmin", "WholeReduceMin", "minimum", "the smallest of a[i, :]"),
        (0xB3, "vrprod", "no counterpart: priced as a sum", "multiply", "the product of a[i, :]"),
    )
)


@instr(0xA8, Unit.V, rate="vmla", work=_pass, hardware="MulAddDst")
def vmla(
    m: State, dst: Ub, a: Ub, b: Ub, size: Dims, ds: Dims, sa: Dims, sb: Dims, dt: Type
) -> None:
    """Multiply and add: `dst = dst + a * b`."""
    product = m.read(a, size, sa, dt) * m.read(b, size, sb, dt)
    m.read(dst, size, ds, dt)
    out = m.out(dst, size, ds, dt)
    out += product


@instr(0xAB, Unit.V, rate="vmla", work=_pass, hardware="FusedMulAdd")
def vfma(
    m: State, dst: Ub, a: Ub, b: Ub, size: Dims, ds: Dims, sa: Dims, sb: Dims, dt: Type
) -> None:
    """Scale and add: `dst = dst * a + b`."""
    factor, term = m.read(a, size, sa, dt), m.read(b, size, sb, dt)
    m.read(dst, size, ds, dt)
    out = m.out(dst, size, ds, dt)
    out *= factor
    out += term


@instr(0xA9, Unit.V, rate="vfill", work=_pass, hardware="Duplicate")
def vfill(m: State, dst: Ub, s: Real, size: Dims, ds: Dims, dt: Type) -> None:
    """Fill with a number: `dst = s`."""
    m.out(dst, size, ds, dt)[...] = number_as(s, dt)


@instr(0xAA, Unit.V, rate="vfill", work=_pass, hardware="CreateVecIndex")
def viota(m: State, dst: Ub, start: Real, step: Real, size: Dims, ds: Dims, dt: Type) -> None:
    """Count along the last dimension: `dst[.., i] = start + i * step`."""
    m.out(dst, size, ds, dt)[...] = (start + np.arange(size[-1]) * step).astype(dt.numpy)


_COMPARE = {
    Compare.EQ: "equal",
    Compare.NE: "not_equal",
    Compare.LT: "less",
    Compare.LE: "less_equal",
    Compare.GT: "greater",
    Compare.GE: "greater_equal",
}


@instr(0xC0, Unit.V, rate="vcmp", work=_passes(ORDER), hardware="Compare")
def vcmp(
    m: State,
    dst: Ub,
    a: Ub,
    b: Ub,
    how: Comparison,
    size: Dims,
    ds: Dims,
    sa: Dims,
    sb: Dims,
    dt: Type,
) -> None:
    """Compare elementwise: `dst = a how b`, a byte of 0 or 1 each."""
    left, right = m.read(a, size, sa, dt), m.read(b, size, sb, dt)
    getattr(np, _COMPARE[how])(left, right, out=m.out(dst, size, ds, dtypes.B8))


@instr(0xC1, Unit.V, rate="vcmp", work=_passes(ORDER), hardware="CompareScalar")
def vcmps(
    m: State, dst: Ub, a: Ub, s: Real, how: Comparison, size: Dims, ds: Dims, sa: Dims, dt: Type
) -> None:
    """Compare with a number: `dst = a how s`, a byte of 0 or 1 each."""
    value = m.read(a, size, sa, dt)
    getattr(np, _COMPARE[how])(value, number_as(s, dt), out=m.out(dst, size, ds, dtypes.B8))


@instr(0xC2, Unit.V, rate="vsel", work=_pass, hardware="Select")
def vsel(
    m: State,
    dst: Ub,
    mask: Ub,
    a: Ub,
    b: Ub,
    size: Dims,
    ds: Dims,
    sm: Dims,
    sa: Dims,
    sb: Dims,
    dt: Type,
) -> None:
    """Choose elementwise: `dst = a` where `mask` is not 0, else `b`."""
    chosen = m.read(mask, size, sm, dtypes.B8)
    value = np.where(chosen, m.read(a, size, sa, dt), m.read(b, size, sb, dt))
    m.out(dst, size, ds, dt)[...] = value


@instr(0xC4, Unit.V, rate="vconv", work=_convert, hardware="Cast")
def vconv(
    m: State, dst: Ub, a: Ub, size: Dims, ds: Dims, sa: Dims, dt: Type, to: Type, how: Rounding
) -> None:
    """Convert `dt` to `to`; floats that become integers are rounded as `how` says, then wrap."""
    value = m.read(a, size, sa, dt)
    out = m.out(dst, size, ds, to)
    if dt.is_float and not to.is_float and to is not dtypes.B8:
        out[...] = _whole(_rounded(value, how)).astype(to.numpy)
    elif dt.is_float and to is dt:
        out[...] = _rounded(value, how)
    else:
        out[...] = value.astype(to.numpy)


def _whole(value: Any) -> Any:
    """Floats without fraction as integers of 64 bits, with the bits of those without sign."""
    large = value >= TWO_63
    below = np.where(large, 0, value).astype(np.int64).astype(np.uint64)
    return np.where(large, np.where(large, value, 0).astype(np.uint64), below)


TWO_63 = 2.0**63


def _rounded(value: Any, how: Round) -> Any:
    return getattr(np, how.value)(value)


@instr(0xC8, Unit.V, rate="vgather", work=_elements, hardware="Gather")
def vgather(
    m: State, dst: Ub, table: Ub, index: Ub, n: Dims, size: Dims, ds: Dims, si: Dims, dt: Type
) -> None:
    """Gather: `dst[..] = table[index[..]]` from a table of `n` elements; indices are i32."""
    at = m.read(index, size, si, dtypes.I32)
    rows = m.read(table, (prod(n),), (1,), dt)
    m.out(dst, size, ds, dt)[...] = rows.take(at, mode="clip")


@instr(0xC9, Unit.V, rate="vgather", work=_elements, hardware="Scatter")
def vscatter(
    m: State, table: Ub, a: Ub, index: Ub, n: Dims, size: Dims, sa: Dims, si: Dims, dt: Type
) -> None:
    """Scatter: `table[index[..]] = a[..]` in a table of `n` elements; the last of equals wins."""
    at = m.read(index, size, si, dtypes.I32).reshape(-1)
    values = m.read(a, size, sa, dt).reshape(-1)
    count = prod(n)
    m.read(table, (count,), (1,), dt)
    inside = (at >= 0) & (at < count)
    m.out(table, (count,), (1,), dt)[at[inside]] = values[inside]


SORTED = 32
"""Elements that one step of a sort puts in order."""


@instr(0xCA, Unit.V, rate="vsort", work=_elements, hardware="Sort32")
def vsort(m: State, dst: Ub, order: Ub, a: Ub, size: Dims, ds: Dims, sa: Dims, dt: Type) -> None:
    """Sort runs of 32 along the last dimension, the largest first; `order` are i32 positions."""
    value = m.read(a, size, sa, dt)
    out, places = m.out(dst, size, ds, dt), m.out(order, size, ds, dtypes.I32)
    for begin in range(0, size[-1], SORTED):
        run = value[..., begin : begin + SORTED]
        at = np.argsort(-run.astype(np.float64), axis=-1, kind="stable")
        out[..., begin : begin + SORTED] = np.take_along_axis(run, at, -1)
        places[..., begin : begin + SORTED] = at + begin


@instr(0xCB, Unit.V, rate="vsort", work=_elements, hardware="MrgSort")
def vmerge(
    m: State,
    dst: Ub,
    order: Ub,
    a: Ub,
    oa: Ub,
    b: Ub,
    ob: Ub,
    size: Dims,
    ds: Dims,
    sa: Dims,
    sb: Dims,
    dt: Type,
) -> None:
    """Merge: the first `size` elements of two runs of that size, the largest first.

    `oa` and `ob` are the i32 positions of their elements, `order` those of the result. It is the
    step of a sort and, kept at one size, of a search for the largest.
    """
    both = np.concatenate([m.read(a, size, sa, dt), m.read(b, size, sb, dt)], axis=-1)
    places = np.concatenate(
        [m.read(oa, size, sa, dtypes.I32), m.read(ob, size, sb, dtypes.I32)], axis=-1
    )
    at = np.argsort(-both.astype(np.float64), axis=-1, kind="stable")[..., : size[-1]]
    m.out(dst, size, ds, dt)[...] = np.take_along_axis(both, at, -1)
    m.out(order, size, ds, dtypes.I32)[...] = np.take_along_axis(places, at, -1)
