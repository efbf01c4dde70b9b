"""Vector instructions of angles and their inverses: polynomials on a small range, and signs.

The machine has none of these functions. Coefficients are those of Cephes in single precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi

from ge.dialects import dtypes
from ge.dialects.graph.base import GraphOp
from ge.dialects.graph.ops import trigonometry
from ge.lowering.kernels.vector_writer import Arg, Tile, VectorWriter

QUARTER = (1.5703125, 4.837512969970703125e-4, 7.54978995489188216e-8)
"""Half of pi in parts of few bits: multiples of the first ones are exact."""
SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
ARC_SINE = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
ARC_TANGENT = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
AREA_SINE = (2.0122003309e-2, -4.2699340972e-2, 7.4847586088e-2, -1.6666288134e-1)
AREA_COSINE = (
    *(1.7596881071e-3, -7.5272886713e-3, 2.6454905019e-2, -1.1784741703e-1),
    1.4142135263,
)
AREA_TANGENT = (
    *(1.81740078349e-1, 8.24370301058e-2, 1.46691431730e-1, 1.99782164500e-1),
    3.33337300303e-1,
)
STEEP, FLAT = 2.414213562373095, 0.4142135623730950
"""The tangents of three eighths and of one eighth of pi."""
LN_2 = 0.693147180559945
SQUARES_MOST = 1e18
"""Above this the square of a number is no number of single precision."""


def _tile(w: VectorWriter, x: Arg) -> Tile:
    return w.tile(w.wide(x), dtypes.F32)


def _odd(w: VectorWriter, x: Tile, coefficients: Sequence[float]) -> Arg:
    """`x + x^3 P(x^2)`"""
    square = _tile(w, w.mul(x, x))
    return w.add(w.mul(w.mul(w.polynomial(square, coefficients), square), x), x)


def _with_sign(w: VectorWriter, of: Tile, size: Arg) -> Arg:
    return w.select(w.compare("lt", of, 0.0), w.mul(size, -1.0), size)


def _quadrant(w: VectorWriter, x: Arg) -> tuple[Tile, Tile]:
    """The multiple of half of pi next to x, and what is left."""
    x = _tile(w, x)
    turns = w.rounded(w.mul(x, 2.0 / pi), "rint")
    rest: Arg = x
    for part in QUARTER:
        rest = w.sub(rest, w.mul(turns, part))
    return turns, _tile(w, rest)


def _turning(w: VectorWriter, turns: Tile, rest: Tile, ahead: float) -> Arg:
    """The sine, `ahead` quarters of a turn later."""
    square = _tile(w, w.mul(rest, rest))
    sine = _odd(w, rest, SINE)
    high = w.mul(w.mul(w.polynomial(square, COSINE), square), square)
    cosine = w.add(w.add(high, w.mul(square, -0.5)), 1.0)
    quarter = w.convert(_tile(w, w.add(turns, ahead)), dtypes.I32, "trunc")
    bits = [w.fill(float(bit), (), dtypes.I32) for bit in (1, 2)]
    odd, below = (w.compare("ne", w.tiles("vand", quarter, bit), 0.0) for bit in bits)
    value = w.select(odd, cosine, sine)
    return w.select(below, w.mul(value, -1.0), value)


def _sin(w: VectorWriter, x: Arg) -> Arg:
    return _turning(w, *_quadrant(w, x), 0.0)


def _cos(w: VectorWriter, x: Arg) -> Arg:
    return _turning(w, *_quadrant(w, x), 1.0)


def _tan(w: VectorWriter, x: Arg) -> Arg:
    turns, rest = _quadrant(w, x)
    return w.div(_turning(w, turns, rest, 0.0), _turning(w, turns, rest, 1.0))


def _atan(w: VectorWriter, x: Arg) -> Arg:
    x = _tile(w, x)
    size = w.unary("vabs", x)
    steep, flat = w.compare("gt", size, STEEP), w.compare("le", size, FLAT)
    middle = w.div(w.sub(size, 1.0), w.add(size, 1.0))
    inverse = w.mul(w.reciprocal(size), -1.0)
    near = _tile(w, w.select(steep, inverse, w.select(flat, size, middle)))
    base = w.select(steep, pi / 2, w.select(flat, 0.0, pi / 4))
    return _with_sign(w, x, w.add(base, _odd(w, near, ARC_TANGENT)))


def _arc_sine(w: VectorWriter, x: Tile) -> tuple[Tile, Arg]:
    """Whether |x| is above a half, and the arc sine of |x|, or of `sqrt((1 - |x|) / 2)` there."""
    size = w.unary("vabs", x)
    large = w.compare("gt", size, 0.5)
    root = w.unary("vsqrt", w.mul(w.sub(1.0, size), 0.5))
    return large, _odd(w, _tile(w, w.select(large, root, size)), ARC_SINE)


def _asin(w: VectorWriter, x: Arg) -> Arg:
    x = _tile(w, x)
    large, arc = _arc_sine(w, x)
    return _with_sign(w, x, w.select(large, w.sub(pi / 2, w.mul(arc, 2.0)), arc))


def _acos(w: VectorWriter, x: Arg) -> Arg:
    x = _tile(w, x)
    large, arc = _arc_sine(w, x)
    below = w.compare("lt", x, 0.0)
    twice = w.mul(arc, 2.0)
    far = w.select(below, w.sub(pi, twice), twice)
    near = w.select(below, w.add(arc, pi / 2), w.sub(pi / 2, arc))
    return w.select(large, far, near)


def _asinh(w: VectorWriter, x: Arg) -> Arg:
    x = _tile(w, x)
    size = w.unary("vabs", x)
    small = _odd(w, _tile(w, w.minimum(size, 0.5)), AREA_SINE)
    return _with_sign(w, x, w.select(w.compare("lt", size, 0.5), small, _area(w, size, 1.0)))


def _area(w: VectorWriter, x: Tile, sign: float) -> Arg:
    """`ln(x + sqrt(x^2 + sign))`, `ln(2 x)` where the square would overflow."""
    near = _tile(w, w.minimum(x, SQUARES_MOST))
    root = w.unary("vsqrt", w.add(w.mul(near, near), sign))
    return w.select(
        w.compare("gt", x, SQUARES_MOST),
        w.add(w.unary("vln", x), LN_2),
        w.unary("vln", w.add(near, root)),
    )


def _acosh(w: VectorWriter, x: Arg) -> Arg:
    x = _tile(w, x)
    over = _tile(w, w.sub(x, 1.0))
    near = _tile(w, w.minimum(over, 0.5))
    small = w.mul(w.polynomial(near, AREA_COSINE), w.unary("vsqrt", near))
    return w.select(w.compare("lt", over, 0.5), small, _area(w, x, -1.0))


def _atanh(w: VectorWriter, x: Arg) -> Arg:
    x = _tile(w, x)
    size = w.unary("vabs", x)
    small = _odd(w, _tile(w, w.minimum(size, 0.5)), AREA_TANGENT)
    ratio = w.div(w.add(size, 1.0), w.sub(1.0, size))
    large = w.mul(w.unary("vln", ratio), 0.5)
    return _with_sign(w, x, w.select(w.compare("lt", size, 0.5), small, large))


TRIGONOMETRIC: dict[type[GraphOp], Callable[..., Arg]] = {
    trigonometry.SinOp: _sin,
    trigonometry.CosOp: _cos,
    trigonometry.TanOp: _tan,
    trigonometry.AsinOp: _asin,
    trigonometry.AcosOp: _acos,
    trigonometry.AtanOp: _atan,
    trigonometry.AsinhOp: _asinh,
    trigonometry.AcoshOp: _acosh,
    trigonometry.AtanhOp: _atanh,
}
"""Rows of the table of elementwise operators."""
