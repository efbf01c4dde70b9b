"""What rules ask about values: known numbers, products, polynomials."""

from __future__ import annotations

from collections.abc import Callable
from math import isclose
from typing import Any

from xdsl.ir import SSAValue

from ge.dialects.graph.base import constant_of
from ge.dialects.graph.ops.binary import AddOp, DivOp, MulOp, PowOp, SubOp
from ge.dialects.graph.ops.unary import NegOp

MAX_DEPTH = 8
RELATIVE = 1e-4
"""Exporters round the constants of a formula to single, some to half precision."""

Polynomial = dict[int, float]


def number_of(value: SSAValue | None) -> float | None:
    """The number of a constant whose elements are all the same, else None."""
    array = constant_of(value)
    if array is None or array.size == 0:
        return None
    first = array.reshape(-1)[0]
    return float(first) if array.size == 1 or bool((array == first).all()) else None


def near(a: float | None, b: float) -> bool:
    """Whether a number is there and equal but for rounding."""
    return a is not None and isclose(a, b, rel_tol=RELATIVE, abs_tol=1e-9)


def only(value: SSAValue, cls: type[Any]) -> Any:
    """The operation of that class that gives the value and has no other reader, else None."""
    owner = value.owner
    return owner if isinstance(owner, cls) and value.has_one_use() else None


def pair(op: AddOp | MulOp) -> tuple[tuple[SSAValue, SSAValue], tuple[SSAValue, SSAValue]]:
    """Both orders of the operands of an operation that commutes."""
    return (op.lhs, op.rhs), (op.rhs, op.lhs)


def factors(op: MulOp | DivOp) -> tuple[float, list[SSAValue], list[SSAValue]]:
    """A product taken apart: its known number, its other factors, and the values inside it.

    Values inside have no other reader; only divisors that are known count as factors.
    """
    number, rest, inside = 1.0, [], []
    waiting = [(op.lhs, 1), (op.rhs, -1 if isinstance(op, DivOp) else 1)]
    while waiting:
        value, sign = waiting.pop()
        known = number_of(value)
        inner = value.owner
        if known is not None and (sign > 0 or known != 0):
            number *= known**sign
        elif sign > 0 and isinstance(inner, (MulOp, DivOp)) and value.has_one_use():
            inside.append(value)
            waiting += [(inner.lhs, 1), (inner.rhs, -1 if isinstance(inner, DivOp) else 1)]
        elif sign > 0:
            rest.append(value)
        else:
            return 0.0, [], []
    return number, rest, inside


def polynomial(value: SSAValue, x: SSAValue, depth: int = MAX_DEPTH) -> Polynomial | None:
    """`value` as a polynomial in x, power -> coefficient; None when it is none."""
    if value is x:
        return {1: 1.0}
    known = number_of(value)
    if known is not None:
        return {0: known}
    owner = value.owner
    rule = _TERMS.get(type(owner))
    return None if rule is None or depth == 0 else rule(owner, x, depth - 1)


def between(value: SSAValue, x: SSAValue) -> list[SSAValue]:
    """The values that a polynomial in x is computed by, itself included and x not."""
    found: dict[SSAValue, None] = {}
    waiting = [value]
    while waiting:
        v = waiting.pop()
        if v is not x and v not in found and type(v.owner) in _TERMS:
            found[v] = None
            waiting += v.owner.operands  # type: ignore[union-attr]
    return list(found)


def is_polynomial(value: SSAValue, x: SSAValue, want: Polynomial) -> bool:
    """Whether `value` is that polynomial in x, but for rounding."""
    have = polynomial(value, x)
    return (
        have is not None
        and have.keys() == want.keys()
        and all(near(have[power], c) for power, c in want.items())
    )


def _sum(op: Any, x: SSAValue, depth: int, sign: float = 1.0) -> Polynomial | None:
    a, b = polynomial(op.lhs, x, depth), polynomial(op.rhs, x, depth)
    if a is None or b is None:
        return None
    return {p: a.get(p, 0) + sign * b.get(p, 0) for p in a.keys() | b.keys()}


def _difference(op: Any, x: SSAValue, depth: int) -> Polynomial | None:
    return _sum(op, x, depth, -1.0)


def _product(op: Any, x: SSAValue, depth: int) -> Polynomial | None:
    a, b = polynomial(op.lhs, x, depth), polynomial(op.rhs, x, depth)
    return None if a is None or b is None else _times(a, b)


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for p, c in a.items():
        for q, d in b.items():
            out[p + q] = out.get(p + q, 0.0) + c * d
    return out


def _quotient(op: Any, x: SSAValue, depth: int) -> Polynomial | None:
    a, divisor = polynomial(op.lhs, x, depth), number_of(op.rhs)
    return None if a is None or not divisor else {p: c / divisor for p, c in a.items()}


def _power(op: Any, x: SSAValue, depth: int) -> Polynomial | None:
    a, exponent = polynomial(op.lhs, x, depth), number_of(op.rhs)
    if a is None or exponent not in (1.0, 2.0, 3.0):
        return None
    out = a
    for _ in range(int(exponent) - 1):
        out = _times(out, a)
    return out


def _negative(op: Any, x: SSAValue, depth: int) -> Polynomial | None:
    a = polynomial(op.x, x, depth)
    return None if a is None else {p: -c for p, c in a.items()}


_TERMS: dict[type, Callable[[Any, SSAValue, int], Polynomial | None]] = {
    AddOp: _sum,
    SubOp: _difference,
    MulOp: _product,
    DivOp: _quotient,
    PowOp: _power,
    NegOp: _negative,
}
