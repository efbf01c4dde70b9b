"""The kernel table: how each fused operation is described."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ge.dialects.diagnostics import UnsupportedError
from ge.dialects.fused.base import FusedOp
from ge.dialects.fused.ops import (
    AttentionOp,
    ConcatOp,
    Conv2DOp,
    ElementwiseOp,
    GatherOp,
    JoinOp,
    MatMulOp,
    PadOp,
    PoolOp,
    RowwiseOp,
    ScatterOp,
)
from ge.lowering.kernels.attention import describe_attention
from ge.lowering.kernels.conv import describe_conv, describe_pool
from ge.lowering.kernels.copy import describe_concat, describe_pad
from ge.lowering.kernels.description import Description, Part
from ge.lowering.kernels.gather import describe_gather
from ge.lowering.kernels.matmul import describe_matmul
from ge.lowering.kernels.rowwise import describe_join, describe_vector
from ge.lowering.kernels.scatter import describe_scatter

KERNELS: dict[type[FusedOp], Callable[[Any], Description | list[Part]]] = {
    AttentionOp: describe_attention,
    ConcatOp: describe_concat,
    Conv2DOp: describe_conv,
    ElementwiseOp: describe_vector,
    GatherOp: describe_gather,
    JoinOp: describe_join,
    MatMulOp: describe_matmul,
    PadOp: describe_pad,
    PoolOp: describe_pool,
    RowwiseOp: describe_vector,
    ScatterOp: describe_scatter,
}


def describe(op: FusedOp) -> list[Part]:
    """The kernels that a fused operation is, nearly always one."""
    if type(op) not in KERNELS:
        raise UnsupportedError(f"no kernel computes '{op.name}'")
    found = KERNELS[type(op)](op)
    return found if isinstance(found, list) else [Part(found, tuple(op.ins))]
