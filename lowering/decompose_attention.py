"""Attention as products, masks and a softmax, which a fusion joins again."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.ir import SSAValue

from ge.dialects import dtypes
from ge.dialects.dtypes import DType
from ge.dialects.graph.base import Array, constant_of, dims, shape_of, type_of
from ge.dialects.graph.ops.attention import AttentionOp
from ge.dialects.graph.ops.binary import AddOp, GreaterOp, MaxOp, MulOp, WhereOp
from ge.dialects.graph.ops.layout import ReshapeOp, TransposeOp
from ge.dialects.graph.ops.linear import MatMulOp
from ge.dialects.graph.ops.norm import SoftmaxOp
from ge.dialects.graph.ops.reduce import ReduceMaxOp
from ge.dialects.graph.ops.trigonometry import TanhOp
from ge.dialects.graph.ops.unary import CastOp
from ge.lowering.rewriting import Here


def attention(here: Here, op: AttentionOp) -> SSAValue:
    """Attention -> softmax(q . k' * scale + mask) . v, a row without any key left being zero"""
    attrs = op.attrs
    q = _heads(here, op.q, attrs["q_num_heads"])
    k, v = (_heads(here, x, attrs["kv_num_heads"]) for x in (op.k, op.v))
    batch, heads, rows, depth = shape_of(q)
    groups, keys = shape_of(k)[1:3]
    shared = heads // groups
    if shared > 1:
        # Heads that share keys lie behind each other; the keys are the same for all of them.
        q = here.make(ReshapeOp, q, shape=(batch, groups, shared, rows, depth))
        k, v = (here.make(ReshapeOp, x, shape=(batch, groups, 1, *shape_of(x)[2:])) for x in (k, v))
    rank = len(shape_of(q))
    turned = (*range(rank - 2), rank - 1, rank - 2)
    scores = here.make(MatMulOp, q, here.make(TransposeOp, k, perm=turned))
    number = _numbers(here, scores)
    scale = attrs["scale"]
    scores = here.make(MulOp, scores, number(depth**-0.5 if scale is None else scale))
    if cap := attrs["softcap"]:
        bent = here.make(TanhOp, here.make(MulOp, scores, number(1.0 / cap)))
        scores = here.make(MulOp, bent, number(cap))
    masks = [op.attn_mask] if op.attn_mask is not None else []
    if attrs["is_causal"]:
        masks.append(here.constant(_causal(rows, keys)))
    kept = []
    for mask in masks:
        mask = _grouped(here, mask, shared)
        scores = _masked(here, scores, mask)
        kept += _kept(here, mask)
    y = here.make(MatMulOp, here.make(SoftmaxOp, scores, axis=-1), v)
    for some in kept:
        y = here.make(WhereOp, some, y, _numbers(here, y)(0.0))
    y = here.make(ReshapeOp, y, shape=(batch, heads, rows, shape_of(y)[-1]))
    if len(shape_of(op.q)) == 4:
        return y
    apart = here.make(TransposeOp, y, perm=(0, 2, 1, 3))
    return here.make(ReshapeOp, apart, shape=shape_of(op.results[0]))


@lru_cache(maxsize=4)
def _causal(rows: int, keys: int) -> Array:
    """Which keys each row sees; all layers of a model share one."""
    return np.tri(rows, keys, dtype=bool)


def _numbers(here: Here, like: SSAValue) -> Callable[[float], SSAValue]:
    """Makes constants of one number in the type of `like`."""
    numpy = _element(like).numpy
    return lambda value: here.constant(np.asarray(value, numpy))


def _element(value: SSAValue) -> DType:
    return dtypes.of_ir(type_of(value).element_type)


def _heads(here: Here, x: SSAValue, heads: int | None) -> SSAValue:
    """An operand with its heads in a dim of their own."""
    shape = shape_of(x)
    if len(shape) == 4:
        return x
    count = heads or 1
    apart = here.make(ReshapeOp, x, shape=(*shape[:2], count, shape[2] // count))
    return here.make(TransposeOp, apart, perm=(0, 2, 1, 3))


def _grouped(here: Here, mask: SSAValue, shared: int) -> SSAValue:
    """The mask of scores whose heads lie in two dims."""
    shape = shape_of(mask)
    if shared == 1 or len(shape) < 3:
        return mask
    full = (1,) * (4 - len(shape)) + shape
    heads = (1, 1) if full[1] == 1 else (full[1] // shared, shared)
    return here.make(ReshapeOp, mask, shape=(full[0], *heads, *full[2:]))


def _masked(here: Here, scores: SSAValue, mask: SSAValue) -> SSAValue:
    """Masked scores are the lowest number, not infinite: a row of nothing else stays a number."""
    # The type stubs of ml_dtypes do not know its functions.
    finfo: Any = ml_dtypes.finfo
    lowest = _numbers(here, scores)(float(finfo(_element(scores).numpy).min))
    if _element(mask) is dtypes.B8:
        return here.make(WhereOp, mask, scores, lowest)
    return here.make(MaxOp, here.make(AddOp, scores, mask), lowest)


def _kept(here: Here, mask: SSAValue) -> list[SSAValue]:
    """Which rows have any key left; nothing where it is known that all have."""
    known = constant_of(mask)
    is_bool = _element(mask) is dtypes.B8
    if known is not None:
        some = (known if is_bool else known > -np.inf).any(axis=-1, keepdims=True)
        return [] if some.all() else [here.constant(some)]
    value = here.make(CastOp, mask, to=dtypes.F32)
    largest = here.make(ReduceMaxOp, value, axes=(len(dims(type_of(mask))) - 1,), keepdims=True)
    least = 0.0 if is_bool else -np.inf
    return [here.make(GreaterOp, largest, here.constant(np.asarray(least, np.float32)))]
