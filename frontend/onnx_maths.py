"""Writing formulas at import: operators on values and numbers, and the moves formulas need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ge.dialects import dtypes
from ge.dialects.dtypes import DType
from ge.dialects.graph.base import GraphOp
from ge.dialects.graph.ops.layout import (
    ConcatOp,
    ExpandOp,
    PadOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from ge.dialects.graph.ops.unary import CastOp
from ge.frontend.onnx_nodes import Builder, Value

Shape = tuple[int, ...]


class Maths:
    """Calls an operator: a number among the operands takes the element type of the others."""

    def __init__(self, g: Builder) -> None:
        self.g = g

    def __call__(self, cls: type[GraphOp], *operands: Value | float, **attrs: Any) -> Value:
        values = [v for v in operands if not isinstance(v, int | float)]
        like = self.g.numpy_type(values[-1])
        made = [np.asarray(v, like) if isinstance(v, int | float) else v for v in operands]
        return self.g.one(cls, *made, **attrs)

    @contextmanager
    def on(self, g: Builder) -> Iterator[None]:
        """Write into another block."""
        outer, self.g = self.g, g
        yield
        self.g = outer

    def shape(self, x: Value) -> Shape:
        """The shape of a value."""
        return self.g.shape_of(x)

    def dtype(self, x: Value) -> DType:
        """The element type of a value."""
        return dtypes.of_ir(self.g.type_of(x).element_type)

    def cast(self, x: Value, to: DType) -> Value:
        """The value as another element type."""
        return x if self.dtype(x) is to else self.g.one(CastOp, x, to=to)

    def reshape(self, x: Value, *shape: int) -> Value:
        """The value under another shape."""
        return x if self.shape(x) == shape else self.g.one(ReshapeOp, x, shape=shape)

    def transpose(self, x: Value, *perm: int) -> Value:
        """The axes in another order."""
        return x if perm == tuple(range(len(perm))) else self.g.one(TransposeOp, x, perm=perm)

    def expand(self, x: Value, *shape: int) -> Value:
        """The value repeated along axes of 1."""
        return x if self.shape(x) == shape else self.g.one(ExpandOp, x, shape=shape)

    def slice(self, x: Value, axis: int, start: int, end: int, step: int = 1) -> Value:
        """The places `start` up to `end` of an axis."""
        if (start, end, step) == (0, self.shape(x)[axis], 1):
            return x
        return self.g.one(SliceOp, x, starts=(start,), ends=(end,), axes=(axis,), steps=(step,))

    def place(self, x: Value, axis: int, at: int) -> Value:
        """One place of an axis, which is gone."""
        shape = self.shape(x)
        return self.reshape(self.slice(x, axis, at, at + 1), *shape[:axis], *shape[axis + 1 :])

    def pad(self, x: Value, before: Sequence[int], after: Sequence[int], value: float = 0) -> Value:
        """The value with elements around it; negative numbers cut."""
        if not any((*before, *after)):
            return x
        filled = np.asarray(value, self.g.numpy_type(x))
        return self.g.one(PadOp, x, filled, pads=(*before, *after))

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """Values one behind the other along an axis."""
        return parts[0] if len(parts) == 1 else self.g.one(ConcatOp, *parts, axis=axis)

    def stack(self, rows: Sequence[Value], axis: int) -> Value:
        """Values beside each other along a new axis."""
        shape = self.shape(rows[0])
        wide = [self.reshape(r, *shape[:axis], 1, *shape[axis:]) for r in rows]
        return self.concat(wide, axis)
