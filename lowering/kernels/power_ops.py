"""Vector instructions of powers: products, roots, and the exponential of a logarithm."""

from __future__ import annotations

from collections.abc import Callable
from math import nan

from ge.dialects import dtypes
from ge.dialects.graph.base import GraphOp
from ge.dialects.graph.ops import binary
from ge.lowering.kernels.integer_ops import power
from ge.lowering.kernels.vector_writer import Arg, Tile, VectorWriter


def _pow(w: VectorWriter, a: Arg, b: Arg) -> Arg:
    whole = isinstance(a, Tile) and not a.dtype.is_float
    if b == 0.5 and not whole:
        return w.unary("vsqrt", a)
    if b == -0.5 and not whole:
        return w.unary("vrsqrt", a)
    if isinstance(b, float) and b == int(b) and 1 <= abs(b) <= 8:
        power = a
        for _ in range(int(abs(b)) - 1):
            power = w.mul(power, a)
        return power if b > 0 else w.reciprocal(power)
    if isinstance(a, Tile) and not a.dtype.is_float:
        return _integer_power(w, a, b)
    if isinstance(b, float) and b % 1 != 0:
        return w.exp(w.mul(w.unary("vln", a), b))
    return _signed_power(w, a, b)


NEARLY = 1.0 + 2.0**-18
"""Lifts a power that single precision left just below the whole number that it is."""


def _integer_power(w: VectorWriter, a: Tile, b: Arg) -> Arg:
    if isinstance(b, Tile) and not b.dtype.is_float:
        return power(w, a, b)
    exact = w.mul(_signed_power(w, w.convert(a, dtypes.F32), b), NEARLY)
    return w.convert(w.tile(exact, dtypes.F32), a.dtype, "trunc")


def _signed_power(w: VectorWriter, a: Arg, b: Arg) -> Arg:
    """`e^(b ln |a|)` with the sign that an odd `b` keeps; not a number where `b` is no integer."""
    b = w.convert(b, dtypes.F32) if isinstance(b, Tile) else b
    size = w.exp(w.mul(w.unary("vln", w.unary("vabs", a)), b))
    below = w.compare("lt", a, 0.0)
    odd = w.compare("ne", w.rounded(w.mul(b, 0.5), "floor"), w.mul(b, 0.5))
    whole = w.compare("eq", w.rounded(b, "floor"), b)
    signed = w.select(odd, w.mul(size, -1.0), size)
    signed = w.select(whole, signed, nan)
    return w.select(w.compare("eq", b, 0.0), 1.0, w.select(below, signed, size))


POWER: dict[type[GraphOp], Callable[..., Arg]] = {binary.PowOp: _pow}
"""Rows of the table of elementwise operators."""
