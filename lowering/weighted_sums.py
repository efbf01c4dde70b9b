"""Sums along an axis with a weight for each pair of places: products with a known matrix."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects.graph.base import Array, shape_of
from ge.dialects.graph.ops.layout import ReshapeOp
from ge.dialects.graph.ops.linear import MatMulOp
from ge.lowering.decompose_indexing import dtype_of
from ge.lowering.rewriting import Here


def weighted(here: Here, x: SSAValue, axis: int, weights: Array) -> SSAValue:
    """`y[.., i, ..] = sum(weights[i, j] * x[.., j, ..])` along an axis, as a product."""
    shape = shape_of(x)
    weights = np.ascontiguousarray(weights.astype(dtype_of(x).numpy))
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    if inner == 1:
        rows = here.make(ReshapeOp, x, shape=(outer, shape[axis]))
        made = here.make(MatMulOp, rows, here.constant(np.ascontiguousarray(weights.T)))
    else:
        matrices = here.make(ReshapeOp, x, shape=(outer, shape[axis], inner))
        made = here.make(MatMulOp, here.constant(weights), matrices)
    return here.make(ReshapeOp, made, shape=(*shape[:axis], len(weights), *shape[axis + 1 :]))
