"""Which vector instructions an operator becomes on a tile: one row an operator."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, sqrt
from typing import Any

from ge.dialects import dtypes
from ge.dialects.graph.base import GraphOp
from ge.dialects.graph.ops import activation as act
from ge.dialects.graph.ops import binary, reduce, trigonometry, unary
from ge.dialects.graph.ops.activation import GeluForm
from ge.lowering.kernels.integer_ops import INTEGER, divided
from ge.lowering.kernels.power_ops import POWER
from ge.lowering.kernels.trigonometric_ops import TRIGONOMETRIC
from ge.lowering.kernels.vector_writer import Arg, Tile, VectorWriter

VECTOR: dict[type[GraphOp], Callable[..., Arg]] = {**INTEGER, **POWER, **TRIGONOMETRIC}
"""Elementwise operators: writer, operands and attributes to the result."""


NARROW: frozenset[type[GraphOp]] = frozenset(
    {
        binary.AddOp,
        binary.SubOp,
        binary.MulOp,
        binary.MaxOp,
        binary.MinOp,
        binary.WhereOp,
        unary.NegOp,
        unary.AbsOp,
        act.ReluOp,
        act.ClipOp,
        act.LeakyReluOp,
        act.PReluOp,
        reduce.ReduceMaxOp,
        reduce.ReduceMinOp,
    }
)
"""Operators that the vector unit does in f16 with the operator's own single rounding."""


def vector(*ops: type[GraphOp]) -> Callable[[Callable[..., Arg]], Callable[..., Arg]]:
    """Register the steps of one or more elementwise operators."""

    def register(write: Callable[..., Arg]) -> Callable[..., Arg]:
        VECTOR.update(dict.fromkeys(ops, write))
        return write

    return register


# Arithmetic


@vector(binary.AddOp)
def _add(w: VectorWriter, a: Arg, b: Arg) -> Arg:
    return w.add(a, b)


@vector(binary.SubOp)
def _sub(w: VectorWriter, a: Arg, b: Arg) -> Arg:
    return w.sub(a, b)


@vector(binary.MulOp)
def _mul(w: VectorWriter, a: Arg, b: Arg) -> Arg:
    return w.mul(a, b)


@vector(binary.DivOp)
def _div(w: VectorWriter, a: Arg, b: Arg) -> Arg:
    if any(isinstance(x, Tile) and not x.dtype.is_float for x in (a, b)):
        return divided(w, a, b)[0]
    return w.div(a, b)


@vector(binary.MaxOp)
def _max(w: VectorWriter, *args: Arg) -> Arg:
    result = args[0]
    for other in args[1:]:
        result = w.maximum(result, other)
    return result


@vector(binary.MinOp)
def _min(w: VectorWriter, *args: Arg) -> Arg:
    result = args[0]
    for other in args[1:]:
        result = w.minimum(result, other)
    return result


# One operand


@vector(unary.NegOp)
def _neg(w: VectorWriter, x: Arg) -> Arg:
    return w.mul(x, -1.0)


@vector(unary.AbsOp)
def _abs(w: VectorWriter, x: Arg) -> Arg:
    return w.unary("vabs", x)


@vector(unary.ExpOp)
def _exp(w: VectorWriter, x: Arg) -> Arg:
    return w.exp(x)


@vector(unary.LogOp)
def _log(w: VectorWriter, x: Arg) -> Arg:
    return w.unary("vln", x)


@vector(unary.SqrtOp)
def _sqrt(w: VectorWriter, x: Arg) -> Arg:
    return w.unary("vsqrt", x)


@vector(unary.ReciprocalOp)
def _reciprocal(w: VectorWriter, x: Arg) -> Arg:
    return w.reciprocal(x)


@vector(unary.IsNaNOp)
def _is_nan(w: VectorWriter, x: Arg) -> Arg:
    return w.compare("ne", x, x)


@vector(unary.IsInfOp)
def _is_inf(w: VectorWriter, x: Arg, *, detect_negative: bool, detect_positive: bool) -> Arg:
    if detect_negative and detect_positive:
        return w.compare("eq", w.unary("vabs", x), inf)
    if not (detect_negative or detect_positive):
        return w.compare("gt", w.mul(x, 0.0), 0.0)
    return w.compare("eq", x, inf if detect_positive else -inf)


@vector(unary.IdentityOp, unary.DropoutOp)
def _identity(w: VectorWriter, x: Arg, *_: Arg, **attrs: Any) -> Arg:
    return x


@vector(unary.SignOp)
def _sign(w: VectorWriter, x: Arg) -> Arg:
    up = w.select(w.compare("gt", x, 0.0), 1.0, 0.0)
    sign = w.select(w.compare("lt", x, 0.0), -1.0, up)
    if isinstance(x, Tile) and x.dtype.is_float:
        # What is not a number has no sign, and stays what it is.
        return w.select(w.compare("eq", x, x), sign, x)
    return sign


VECTOR[unary.FloorOp] = lambda w, x: w.rounded(x, "floor")
VECTOR[unary.CeilOp] = lambda w, x: w.rounded(x, "ceil")
VECTOR[unary.RoundOp] = lambda w, x: w.rounded(x, "rint")


@vector(unary.CastOp)
def _cast(w: VectorWriter, x: Arg, *, to: dtypes.DType) -> Arg:
    if not isinstance(x, Tile) or x.dtype is to:
        return x
    if to is dtypes.B8:
        return w.compare("ne", x, 0.0)
    return w.convert(x, to, "rint" if to.is_float else "trunc")


@vector(unary.NotOp)
def _not(w: VectorWriter, x: Arg) -> Arg:
    return w.compare("eq", x, 0.0) if isinstance(x, Tile) else float(not x)


@vector(trigonometry.TanhOp)
def _tanh(w: VectorWriter, x: Arg) -> Arg:
    """`1 - 2 / (e^2x + 1)`: right at both ends, where e^2x is 0 or infinite."""
    grown = w.add(w.exp(w.mul(x, 2.0)), 1.0)
    return w.add(w.mul(w.reciprocal(grown), -2.0), 1.0)


@vector(trigonometry.SinhOp)
def _sinh(w: VectorWriter, x: Arg) -> Arg:
    return w.mul(w.sub(w.exp(x), w.exp(w.mul(x, -1.0))), 0.5)


@vector(trigonometry.CoshOp)
def _cosh(w: VectorWriter, x: Arg) -> Arg:
    return w.mul(w.add(w.exp(x), w.exp(w.mul(x, -1.0))), 0.5)


@vector(act.SigmoidOp)
def _sigmoid(w: VectorWriter, x: Arg) -> Arg:
    return w.reciprocal(w.add(w.exp(w.mul(x, -1.0)), 1.0))


# Abramowitz and Stegun 7.1.26: |error| <= 1.5e-7.
_ERF_P = 0.3275911
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592, 0.0)


def _tail(w: VectorWriter, size: Tile) -> Arg:
    """`1 - erf(size)` for `size` >= 0."""
    t = w.reciprocal(w.add(w.mul(size, _ERF_P), 1.0))
    return w.mul(w.polynomial(t, _ERF), w.exp(w.mul(w.mul(size, size), -1.0)))


_LN_NORMAL_TAIL = (
    3.2807302821e-4,
    4.910641008e-3,
    3.5924004973e-2,
    -0.3188424611843705,
    0.7976653555752088,
    -0.6931732583605763,
)
"""Of `ln((1 + erf(x / sqrt 2)) / 2)` for `x` <= 0: with it GELU is off by 4.4e-7 at most."""


@vector(unary.ErfOp)
def _erf(w: VectorWriter, x: Arg) -> Arg:
    upper = w.sub(1.0, _tail(w, w.unary("vabs", x)))
    return w.select(w.compare("lt", x, 0.0), w.mul(upper, -1.0), upper)


@vector(act.GeluOp)
def _gelu(w: VectorWriter, x: Arg, *, approximate: GeluForm) -> Arg:
    if approximate is GeluForm.TANH:
        # tanh(u) = 1 - 2 / (1 + e^2u), and -2u = x (a + b x^2): one tile holds all of it in turn.
        a = -sqrt(8.0 / 3.141592653589793)
        lowered = w.mul(w.add(w.mul(w.mul(x, x), 0.044715 * a), a), x)
        return w.mul(w.reciprocal(w.add(w.exp(lowered), 1.0)), x)
    # x (1 + erf(x / sqrt 2)) / 2 = max(x, 0) - |x| q, with q = (1 - erf(|x| / sqrt 2)) / 2
    below = w.mul(w.unary("vabs", x), -1.0)
    assert isinstance(below, Tile)
    q = w.exp(w.polynomial(below, _LN_NORMAL_TAIL))
    return w.add(w.mul(q, below), w.maximum(x, 0.0))


# Activations


@vector(act.ReluOp)
def _relu(w: VectorWriter, x: Arg) -> Arg:
    return w.maximum(x, 0.0)


@vector(act.LeakyReluOp)
def _leaky_relu(w: VectorWriter, x: Arg, *, alpha: float) -> Arg:
    return w.add(w.maximum(x, 0.0), w.mul(w.minimum(x, 0.0), alpha))


@vector(act.PReluOp)
def _prelu(w: VectorWriter, x: Arg, slope: Arg) -> Arg:
    return w.add(w.maximum(x, 0.0), w.mul(w.minimum(x, 0.0), slope))


@vector(act.EluOp)
def _elu(w: VectorWriter, x: Arg, *, alpha: float) -> Arg:
    below = w.mul(w.add(w.exp(w.minimum(x, 0.0)), -1.0), alpha)
    return w.add(w.maximum(x, 0.0), below)


@vector(act.CeluOp)
def _celu(w: VectorWriter, x: Arg, *, alpha: float) -> Arg:
    below = w.mul(w.add(w.exp(w.mul(w.minimum(x, 0.0), 1.0 / alpha)), -1.0), alpha)
    return w.add(w.maximum(x, 0.0), below)


@vector(act.ThresholdedReluOp)
def _thresholded_relu(w: VectorWriter, x: Arg, *, alpha: float) -> Arg:
    return w.select(w.compare("gt", x, alpha), x, 0.0)


@vector(act.SeluOp)
def _selu(w: VectorWriter, x: Arg, *, alpha: float, gamma: float) -> Arg:
    return w.mul(_elu(w, x, alpha=alpha), gamma)


@vector(act.HardSigmoidOp)
def _hard_sigmoid(w: VectorWriter, x: Arg, *, alpha: float, beta: float) -> Arg:
    return w.minimum(w.maximum(w.add(w.mul(x, alpha), beta), 0.0), 1.0)


@vector(act.HardSwishOp)
def _hard_swish(w: VectorWriter, x: Arg) -> Arg:
    return w.mul(x, _hard_sigmoid(w, x, alpha=1.0 / 6.0, beta=0.5))


@vector(act.SoftplusOp)
def _softplus(w: VectorWriter, x: Arg) -> Arg:
    """`max(x, 0) + ln(1 + e^-|x|)`, which does not overflow."""
    small = w.exp(w.mul(w.unary("vabs", x), -1.0))
    return w.add(w.maximum(x, 0.0), w.unary("vln", w.add(small, 1.0)))


@vector(act.SoftsignOp)
def _softsign(w: VectorWriter, x: Arg) -> Arg:
    return w.div(x, w.add(w.unary("vabs", x), 1.0))


MISH_MOST = 20.0
"""From here on the factor is 1."""


@vector(act.MishOp)
def _mish(w: VectorWriter, x: Arg) -> Arg:
    """`tanh(ln(1 + e)) = (e^2 + 2 e) / (e^2 + 2 e + 2)` with `e` = e^x"""
    grown = w.exp(w.minimum(x, MISH_MOST))
    square = w.mul(grown, w.add(grown, 2.0))
    return w.mul(x, w.div(square, w.add(square, 2.0)))


@vector(act.SwishOp)
def _swish(w: VectorWriter, x: Arg, *, alpha: float) -> Arg:
    return w.mul(x, _sigmoid(w, w.mul(x, alpha)))


@vector(act.ClipOp)
def _clip(w: VectorWriter, x: Arg, low: Arg | None = None, high: Arg | None = None) -> Arg:
    """A bound that is not a number bounds nothing; one left out still keeps infinity out."""
    if isinstance(x, Tile) and x.dtype.is_float:
        lowest, highest = map(float, act.finite_range(x.dtype.numpy))
        low, high = lowest if low is None else low, highest if high is None else high
    for bound, beyond, nearer in ((low, "lt", w.maximum), (high, "gt", w.minimum)):
        if isinstance(bound, Tile) and bound.dtype.is_float:
            x = w.select(w.compare(beyond, x, bound), bound, x)
        elif bound is not None and bound == bound:
            x = nearer(x, bound)
    return x


# Comparison and choice


def _comparison(how: str) -> Callable[[VectorWriter, Arg, Arg], Arg]:
    return lambda w, a, b: w.compare(how, a, b)


VECTOR[binary.EqualOp] = _comparison("eq")
VECTOR[binary.LessOp] = _comparison("lt")
VECTOR[binary.GreaterOp] = _comparison("gt")
VECTOR[binary.LessOrEqualOp] = _comparison("le")
VECTOR[binary.GreaterOrEqualOp] = _comparison("ge")


def _logic(instr: str, settled: tuple[float, ...]) -> Callable[[VectorWriter, Arg, Arg], Arg]:
    """A logical instruction; `settled` is the number that alone decides the result, if any."""

    def write(w: VectorWriter, a: Arg, b: Arg) -> Arg:
        if isinstance(a, Tile) and isinstance(b, Tile):
            return w.tiles(instr, a, b)
        tile, number = (a, b) if isinstance(a, Tile) else (b, a)
        if number in settled or not isinstance(tile, Tile):
            return number
        return w.compare("eq", tile, 0.0) if instr == "vxor" and number else tile

    return write


VECTOR[binary.AndOp] = _logic("vand", (0.0,))
VECTOR[binary.OrOp] = _logic("vor", (1.0,))
VECTOR[binary.XorOp] = _logic("vxor", ())


@vector(binary.WhereOp)
def _where(w: VectorWriter, condition: Arg, x: Arg, y: Arg) -> Arg:
    if not isinstance(condition, Tile):
        return x if condition else y
    return w.select(condition, x, y)
