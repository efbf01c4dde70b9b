"""What layer norm and RMS norm have in common when written out: `sqrt(mean(x * x) + epsilon)`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects import dtypes
from ge.dialects.graph.base import constant_of, shape_of
from ge.dialects.graph.ops.binary import AddOp, DivOp, MulOp, PowOp
from ge.dialects.graph.ops.reduce import ReduceMeanOp
from ge.dialects.graph.ops.unary import ReciprocalOp, SqrtOp
from ge.lowering.matching import near, number_of, only, pair
from ge.lowering.rewriting import Here


@dataclass(frozen=True)
class Root:
    """A matched root of a mean square."""

    axis: int
    epsilon: float
    values: tuple[SSAValue, ...]
    """What it was computed by, for the names of the nodes."""


def row_axis(mean: ReduceMeanOp) -> int | None:
    """The first of the trailing dims that a mean runs over, counted from the end; else None."""
    rank = len(shape_of(mean.x))
    axes = sorted(a % rank for a in mean.attrs["axes"])
    trailing = axes == list(range(rank - len(axes), rank))
    return -len(axes) if mean.attrs["keepdims"] and trailing and axes else None


def over_root(op: DivOp, x: SSAValue) -> Root | None:
    """The root by which `x / root` divides."""
    return _root(op.rhs, x)


def times_root(factor: SSAValue, x: SSAValue) -> Root | None:
    """The root whose reciprocal `factor` is: 1 / root, reciprocal(root), or a power of -1/2."""
    if (op := only(factor, ReciprocalOp)) is not None:
        root = _root(op.x, x)
    elif (op := only(factor, DivOp)) is not None and number_of(op.lhs) == 1:
        root = _root(op.rhs, x)
    elif (op := only(factor, PowOp)) is not None and number_of(op.rhs) == -0.5:
        root = _mean_square(op.lhs, x)
    else:
        return None
    return None if root is None else Root(root.axis, root.epsilon, (*root.values, factor))


def _root(value: SSAValue, x: SSAValue) -> Root | None:
    sqrt, power = only(value, SqrtOp), only(value, PowOp)
    if sqrt is not None:
        inner = sqrt.x
    elif power is not None and number_of(power.rhs) == 0.5:
        inner = power.lhs
    else:
        return None
    found = _mean_square(inner, x)
    return None if found is None else Root(found.axis, found.epsilon, (*found.values, value))


def _mean_square(value: SSAValue, x: SSAValue) -> Root | None:
    """mean(x * x) + epsilon over trailing dims."""
    add = only(value, AddOp)
    if add is None:
        return None
    for total, epsilon in pair(add):
        mean = only(total, ReduceMeanOp)
        number = number_of(epsilon)
        if mean is None or number is None or not _is_square(mean.x, x):
            continue
        axis = row_axis(mean)
        if axis is not None:
            return Root(axis, number, (mean.x, total, value))
    return None


def _is_square(value: SSAValue, x: SSAValue) -> bool:
    power, product = only(value, PowOp), only(value, MulOp)
    if power is not None:
        return power.lhs is x and near(number_of(power.rhs), 2)
    return product is not None and product.lhs is x and product.rhs is x


def unit_scale(here: Here, x: SSAValue, axis: int) -> SSAValue:
    """A scale of ones, which a later rule replaces by the one that the model multiplies with."""
    type_ = x.type
    element = dtypes.of_ir(type_.element_type).numpy  # type: ignore[attr-defined]
    return here.constant(np.ones(shape_of(x)[axis:], element))


def is_unit(scale: SSAValue) -> bool:
    """Whether a scale is all ones."""
    return constant_of(scale) is not None and number_of(scale) == 1


def row_parameter(value: SSAValue, x: SSAValue, axis: int) -> bool:
    """Whether a value has one number for each element of a row, known when compiling."""
    return constant_of(value) is not None and shape_of(value) == shape_of(x)[axis:]
