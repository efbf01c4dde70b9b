"""What a loop's body takes from where the trip says: its length is known, its place is not.

A slice from `i` up to `i + 1` has one row, whatever `i` is, as long as the row is there. That it is
depends on how far the loop counts, which is known only when its body is: what must hold is noted
beside the value that counts, and the loop checks it in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects import dtypes
from ge.dialects.graph.base import constant_of, shape_of, type_of
from ge.dialects.graph.ops.binary import AddOp, AndOp, LessOp, MinOp, SubOp
from ge.dialects.graph.ops.index import GatherOp
from ge.dialects.graph.ops.layout import ReshapeOp, SqueezeOp, UnsqueezeOp
from ge.dialects.graph.ops.unary import CastOp, IdentityOp
from ge.frontend.onnx_nodes import Builder, Refused, Value

EXACT = 1 << 24
"""Whole numbers up to here are exact in any float that models count in."""
COUNTING = (dtypes.I32, dtypes.I64, dtypes.F32, dtypes.F64)


class Place(NamedTuple):
    """`min(root + offset, cap)`."""

    root: SSAValue
    offset: int = 0
    cap: int | None = None
    rounded: bool = False
    """Whether it was a float on its way."""


def place_of(value: Value) -> Place | None:
    """A single whole number as what it counts from; None for a known one."""
    if not isinstance(value, SSAValue) or _count(value) != 1:
        return None
    owner = value.owner
    match owner:
        case ReshapeOp() | SqueezeOp() | UnsqueezeOp() | IdentityOp():
            return place_of(owner.x)
        case CastOp():
            return _cast(owner)
        case AddOp() | SubOp() | MinOp():
            return _beyond(owner, *owner.operands)
    return Place(value)


def _cast(op: CastOp) -> Place | None:
    """What a cast leaves as it is: a flag, or a number of a type that is wide enough."""
    place = place_of(op.x)
    if place is None:
        return None
    to, of, root = (dtypes.of_ir(type_of(v).element_type) for v in (op.out, op.x, place.root))
    if dtypes.B8 in (to, of):
        return place if root is dtypes.B8 and place[1:] == Place(place.root)[1:] else None
    fits = to in COUNTING and of in COUNTING
    return place._replace(rounded=place.rounded or to.is_float or of.is_float) if fits else None


def _beyond(op: AddOp | SubOp | MinOp, x: SSAValue, y: SSAValue) -> Place | None:
    if constant_of(x) is not None and not isinstance(op, SubOp):
        x, y = y, x
    place, known = place_of(x), constant_of(y)
    if place is None or known is None or known.size != 1 or known.reshape(-1)[0] % 1:
        return None
    n = int(known.reshape(-1)[0])
    if isinstance(op, MinOp):
        return place._replace(cap=n if place.cap is None else min(n, place.cap))
    n = -n if isinstance(op, SubOp) else n
    return place._replace(offset=place.offset + n, cap=None if place.cap is None else place.cap + n)


def _count(value: SSAValue) -> int:
    return int(np.prod(shape_of(value)))


def length(g: Builder, start: Value, end: Value, extent: int | None = None) -> int | None:
    """How far `end` is behind `start`, both of which a loop counts, in an axis of `extent`.

    It is only that as long as the loop does not count past the axis and the caps, which is noted.
    """
    first, last = place_of(start), place_of(end)
    if first is None or last is None or first.root is not last.root or first.cap is not None:
        return None
    limits = g.counted.get(first.root)
    count = last.offset - first.offset
    if limits is None or count < 0:
        return None
    caps = [n for n in (last.cap, extent) if n is not None]
    caps = [n - last.offset for n in caps]
    caps += [EXACT - max(first.offset, last.offset, 0)] * (first.rounded or last.rounded)
    limits.append(Limits(-first.offset, min(caps, default=EXACT)))
    return count


def moving_range(g: Builder, start: Value, limit: Value, delta: Value) -> Value | None:
    """A range from where a loop counts to where it counts; None where it is no such range."""
    count = length(g, start, limit) if _is(delta, 1) else None
    return None if count is None else _numbers(g, start, count)


def moving_slice(
    g: Builder,
    x: Value,
    ends: Sequence[Value],
    axes: Value | None = None,
    steps: Value | None = None,
) -> Value | None:
    """A slice of one axis, from and to where a loop counts; None where it is no such slice."""
    start, end = ends
    axis = np.asarray(0) if axes is None else axes
    if isinstance(axis, SSAValue) or axis.size != 1 or not (steps is None or _is(steps, 1)):
        return None
    place = int(axis.reshape(-1)[0])
    count = length(g, start, end, g.shape_of(x)[place])
    return None if count is None else g.one(GatherOp, x, _numbers(g, start, count), axis=place)


def _is(value: Value, n: int) -> bool:
    return not isinstance(value, SSAValue) and value.reshape(-1).tolist() == [n]


def _numbers(g: Builder, start: Value, count: int) -> Value:
    """`count` whole numbers from `start` on."""
    line = g.one(ReshapeOp, start, shape=(1,))
    return g.one(AddOp, line, np.arange(count, dtype=g.numpy_type(start)))


@dataclass(frozen=True)
class Limits:
    """Between what a value must stay, both included."""

    least: int
    most: int


def check_limits(
    g: Builder,
    own: SSAValue,
    before: Value,
    behind: Place | None,
    on: Value,
    trips: int | None,
) -> None:
    """Refuse a loop in which a carried value does not stay within what its body relies on.

    It begins as `before`, a trip makes it `behind`, and there are `trips` at most while `on` holds.
    """
    limits = g.counted.pop(own, [])
    if not limits:
        return
    if isinstance(before, SSAValue) or behind is None or behind.root is not own:
        raise Refused("what a slice begins at must count trips", "a known 'starts'")
    first, step = int(before.reshape(-1)[0]), behind.offset
    lasts = [max(first, most + step) for most in _bounds(own, on)]
    if trips is not None:
        lasts.append(first + step * max(trips - 1, 0))
    last = min(lasts, default=EXACT)
    least, most = max(n.least for n in limits), min(n.most for n in limits)
    if step < 0 or behind.cap is not None or first < least or last > most:
        raise Refused("a slice must stay within its axis in every trip", "a known trip count")


def _bounds(own: SSAValue, on: Value) -> list[int]:
    """What a value is at most in a trip behind which `on` holds."""
    found = place_of(on)
    owner: Any = (
        None if found is None or found.offset or found.cap is not None else found.root.owner
    )
    if isinstance(owner, AndOp):
        return [*_bounds(own, owner.lhs), *_bounds(own, owner.rhs)]
    if not isinstance(owner, LessOp):
        return []
    place, known = place_of(owner.lhs), constant_of(owner.rhs)
    if place is None or place.root is not own or place.cap is not None or known is None:
        return []
    return [int(np.ceil(known.reshape(-1)[0])) - 1 - place.offset] if known.size == 1 else []
