"""Vector instructions of operators on integers: bits, and division by estimates in single."""

from __future__ import annotations

from collections.abc import Callable

from ge.dialects import dtypes
from ge.dialects.dtypes import DType
from ge.dialects.graph.base import GraphOp
from ge.dialects.graph.ops import binary, bitwise
from ge.dialects.graph.ops.bitwise import Direction
from ge.lowering.kernels.vector_writer import Arg, Tile, VectorWriter

UNSIGNED = {
    dtypes.I32: dtypes.U32,
    dtypes.I64: dtypes.U64,
    dtypes.U32: dtypes.U32,
    dtypes.U64: dtypes.U64,
}
"""The type that holds the magnitudes of another."""
BELOW = 1.0 - 2.0**-20
"""Keeps an estimate in single precision from exceeding the quotient."""
ROUNDS = {4: 2, 8: 4}
"""Estimates until the rest is less than twice the divisor: each is right to 19 bits."""


def divided(w: VectorWriter, a: Arg, b: Arg) -> tuple[Tile, Tile]:
    """Quotient towards zero, and the rest with the sign of `a`."""
    dtype = next(x.dtype for x in (a, b) if isinstance(x, Tile))
    left, right = w.tile(a, dtype), w.tile(b, dtype)
    if dtype not in UNSIGNED:
        wide = [w.convert(x, dtypes.F32) for x in (left, right)]
        quotient = w.convert(w.tiles("vdiv", *wide), dtype, "trunc")
        return quotient, _less(w, left, quotient, right)
    sizes = [_size(w, x) for x in (left, right)]
    quotient, rest = _long_division(w, sizes[0], sizes[1])
    quotient, rest = w.convert(quotient, dtype), w.convert(rest, dtype)
    if dtype.name[0] == "u":
        return quotient, rest
    below = [w.compare("lt", x, 0.0) for x in (left, right)]
    differ = w.tiles("vxor", *below)
    return _signed(w, differ, quotient), _signed(w, below[0], rest)


def _size(w: VectorWriter, x: Tile) -> Tile:
    if x.dtype.name[0] == "u":
        return x
    return w.convert(w.unary("vabs", x), UNSIGNED[x.dtype])


def _signed(w: VectorWriter, below: Tile, size: Tile) -> Tile:
    return w.select(below, w.mul(size, -1.0), size)


def _less(w: VectorWriter, a: Tile, quotient: Tile, b: Tile) -> Tile:
    return w.tiles("vsub", a, w.tiles("vmul", quotient, b))


def _long_division(w: VectorWriter, a: Tile, b: Tile) -> tuple[Tile, Tile]:
    """Both of numbers without sign: what an estimate leaves is divided again."""
    quotient: Arg = 0.0
    rest = a
    divisor = w.convert(b, dtypes.F32)
    for _ in range(ROUNDS[a.dtype.bytes]):
        ratio = w.tiles("vdiv", w.convert(rest, dtypes.F32), divisor)
        part = w.convert(w.tile(w.mul(ratio, BELOW), dtypes.F32), a.dtype, "trunc")
        quotient, rest = w.add(part, quotient), _less(w, rest, part, b)
    more = w.compare("ge", rest, b)
    last = w.tile(w.add(quotient, w.convert(more, a.dtype)), a.dtype)
    return last, w.select(more, w.tiles("vsub", rest, b), rest)


def modulo(w: VectorWriter, a: Arg, b: Arg, *, fmod: bool) -> Arg:
    """The rest of a division, with the sign of `a` or of `b`."""
    dtype = next(x.dtype for x in (a, b) if isinstance(x, Tile))
    rest = _float_rest(w, a, b) if dtype.is_float else divided(w, a, b)[1]
    if fmod or dtype.name[0] == "u":
        return rest
    right = w.tile(b, rest.dtype)
    differ = w.tiles("vxor", w.compare("lt", rest, 0.0), w.compare("lt", right, 0.0))
    wrong = w.tiles("vand", differ, w.compare("ne", rest, 0.0))
    return w.select(wrong, w.add(rest, right), rest)


def _float_rest(w: VectorWriter, a: Arg, b: Arg) -> Tile:
    left, right = w.tile(w.wide(a), dtypes.F32), w.tile(w.wide(b), dtypes.F32)
    whole = w.rounded(w.tiles("vdiv", left, right), "trunc")
    # Nothing is left of 0 times infinity.
    none = w.compare("eq", whole, 0.0)
    known = w.tiles("vand", none, w.compare("ne", right, 0.0))
    return w.select(known, left, _less(w, left, whole, right))


def power(w: VectorWriter, a: Arg, b: Tile) -> Arg:
    """An integer to an integer power of 0 or more, by squares."""
    dtype = a.dtype if isinstance(a, Tile) else b.dtype
    base: Arg = w.tile(a, dtype)
    exponent = w.convert(b, dtypes.I32)
    result: Arg = w.fill(1.0, (), dtype)
    for bit in range(6):
        digit = w.tiles("vand", exponent, w.fill(float(1 << bit), (), dtypes.I32))
        result = w.select(w.compare("ne", digit, 0.0), w.mul(result, base), result)
        base = w.mul(base, base)
    return result


def _shifted(w: VectorWriter, a: Arg, b: Arg, *, direction: Direction) -> Arg:
    instr = "vshl" if direction is Direction.LEFT else "vshr"
    return _both(w, instr, a, b)


def _both(w: VectorWriter, instr: str, a: Arg, b: Arg) -> Tile:
    dtype: DType = next(x.dtype for x in (a, b) if isinstance(x, Tile))
    return w.tiles(instr, w.tile(a, dtype), w.tile(b, dtype))


INTEGER: dict[type[GraphOp], Callable[..., Arg]] = {
    binary.ModOp: modulo,
    bitwise.BitShiftOp: _shifted,
    bitwise.BitwiseAndOp: lambda w, a, b: _both(w, "vand", a, b),
    bitwise.BitwiseOrOp: lambda w, a, b: _both(w, "vor", a, b),
    bitwise.BitwiseXorOp: lambda w, a, b: _both(w, "vxor", a, b),
    bitwise.BitwiseNotOp: lambda w, x: w.one("vnot", x),
}
"""Rows of the table of elementwise operators."""
