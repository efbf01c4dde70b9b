"""Operators that only look at a tensor in another way: strides and an offset instead of a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute, SSAValue

from ge.dialects import dtypes
from ge.dialects.graph.base import GraphOp, constant_of, dims, type_of
from ge.dialects.graph.ops import index, unary
from ge.dialects.graph.ops import layout as ops
from ge.dialects.npu.geometry import dense

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """The elements of `base` from `offset` on that lie `strides` apart."""

    base: SSAValue
    shape: Shape
    strides: Shape
    offset: int = 0
    element: Attribute | None = None
    """The type that the elements are read as, where it is not that of `base`."""

    @property
    def is_dense(self) -> bool:
        """Whether the elements follow each other in order."""
        want = dense(self.shape)
        return all(n == 1 or s == w for n, s, w in zip(self.shape, self.strides, want, strict=True))


def whole(value: SSAValue, shape: Shape) -> Layout:
    """A tensor as it lies."""
    return Layout(value, shape, dense(shape))


def reshaped(view: Layout, shape: Shape) -> Layout | None:
    """The same elements in the same order under another shape; None where strides cannot say it."""
    if prod(shape) == 0 or prod(view.shape) == 0:
        return None
    old = [(n, s) for n, s in zip(view.shape, view.strides, strict=True) if n != 1]
    strides: list[int] = []
    at = 0
    for n in shape:
        if n == 1:
            strides.append(1)
            continue
        if at == len(old):
            return None
        have, step = old[at]
        while have % n or have < n:
            if at + 1 == len(old) or step != old[at + 1][0] * old[at + 1][1]:
                return None
            at += 1
            have, step = have * old[at][0], old[at][1]
        strides.append(step * (have // n))
        old[at] = (have // n, step)
        if have == n:
            at += 1
    return replace(view, shape=shape, strides=tuple(strides))


VIEWS: dict[type[GraphOp], Callable[..., Sequence[Layout | None]]] = {}
"""The results as views of the first operand; None for one that must be copied."""


def view(*kinds: type[GraphOp]) -> Callable[[Any], Any]:
    """Register how the results of an operator are seen in its operand."""

    def register(see: Callable[..., Sequence[Layout | None]]) -> Any:
        VIEWS.update(dict.fromkeys(kinds, see))
        return see

    return register


def result_shape(op: GraphOp) -> Shape:
    """The shape of an operator's first result."""
    return dims(op.results[0].type)


@view(ops.ReshapeOp, ops.FlattenOp, ops.SqueezeOp, ops.UnsqueezeOp)
def _reshape(x: Layout, op: GraphOp) -> Sequence[Layout | None]:
    return [reshaped(x, result_shape(op))]


@view(unary.IdentityOp, unary.DropoutOp)
def _same(x: Layout, op: GraphOp) -> Sequence[Layout | None]:
    return [x] if not op.attrs.get("training_mode") else [None]


@view(unary.CastOp)
def _cast(x: Layout, op: unary.CastOp) -> Sequence[Layout | None]:
    """The low words of 64-bit integers are the integers in 32 bits; nothing else is a view."""
    came = dtypes.of_ir(type_of(x.base).element_type)
    if x.element is not None or came is not dtypes.I64 or op.attrs["to"] is not dtypes.I32:
        return [None]
    strides = tuple(2 * s for s in x.strides)
    return [replace(x, strides=strides, offset=2 * x.offset, element=dtypes.I32.ir)]


@view(unary.BitCastOp)
def _bit_cast(x: Layout, op: unary.BitCastOp) -> Sequence[Layout | None]:
    return [replace(x, element=op.attrs["to"].ir)]


@view(ops.TransposeOp)
def _transpose(x: Layout, op: GraphOp) -> Sequence[Layout | None]:
    perm = op.attrs["perm"]
    shape, strides = (tuple(v[p] for p in perm) for v in (x.shape, x.strides))
    return [replace(x, shape=shape, strides=strides)]


@view(ops.ExpandOp)
def _expand(x: Layout, op: GraphOp) -> Sequence[Layout | None]:
    shape = result_shape(op)
    missing = len(shape) - len(x.shape)
    have = (1,) * missing + x.shape
    steps = (0,) * missing + x.strides
    strides = tuple(s if n == h else 0 for n, h, s in zip(shape, have, steps, strict=True))
    return [replace(x, shape=shape, strides=strides)]


@view(index.GatherOp)
def _gather(x: Layout, op: index.GatherOp) -> Sequence[Layout | None]:
    """Known indices that go forwards by even steps along each of their own axes."""
    indices = constant_of(op.indices)
    if indices is None or indices.size == 0:
        return [None]
    axis = op.attrs["axis"] % len(x.shape)
    indices = np.where(indices < 0, indices + x.shape[axis], indices)
    first = int(indices.flat[0])
    corner = (0,) * indices.ndim
    steps = tuple(
        int(indices[(*corner[:i], 1, *corner[i + 1 :])]) - first if n > 1 else 0
        for i, n in enumerate(indices.shape)
    )
    even = first + sum((p * s for p, s in zip(np.indices(indices.shape), steps, strict=True)))
    if min(steps, default=0) < 0 or not np.array_equal(even, indices):
        return [None]
    stride = x.strides[axis]
    strides = (*x.strides[:axis], *(s * stride for s in steps), *x.strides[axis + 1 :])
    return [replace(x, shape=result_shape(op), strides=strides, offset=x.offset + first * stride)]


@view(ops.SplitOp)
def _split(x: Layout, op: GraphOp) -> Sequence[Layout | None]:
    axis = op.attrs["axis"] % len(x.shape)
    found = []
    at = 0
    for result in op.results:
        shape = dims(result.type)
        found.append(replace(x, shape=shape, offset=x.offset + at * x.strides[axis]))
        at += shape[axis]
    return found


@view(ops.SliceOp)
def _slice(x: Layout, op: GraphOp) -> Sequence[Layout | None]:
    attrs = op.attrs
    taken = ops.slices_of(x.shape, attrs["starts"], attrs["ends"], attrs["axes"], attrs["steps"])
    offset, strides = x.offset, []
    shape = result_shape(op)
    for part, n, stride, left in zip(taken, x.shape, x.strides, shape, strict=True):
        start, _, step = part.indices(n)
        if left == 1:
            step = 1
        if step < 0:
            return [None]
        offset += start * stride
        strides.append(stride * step)
    return [replace(x, shape=shape, strides=tuple(strides), offset=offset)]
