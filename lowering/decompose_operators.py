"""`decompose-operators`: operators without a kernel become several that have one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ge.dialects import dtypes
from ge.dialects.dtypes import DType
from ge.dialects.graph.base import constant_of, shape_of
from ge.dialects.graph.ops.attention import AttentionOp
from ge.dialects.graph.ops.binary import AddOp, MulOp, PowOp, WhereOp
from ge.dialects.graph.ops.index import GatherNDOp, GatherOp
from ge.dialects.graph.ops.layout import (
    BlockOrder,
    ConcatOp,
    DepthToSpaceOp,
    ExpandOp,
    PadMode,
    PadOp,
    ReshapeOp,
    SliceOp,
    SpaceToDepthOp,
    TileOp,
    TransposeOp,
    TriluOp,
    slices_of,
)
from ge.dialects.graph.ops.norm import (
    GroupNormalizationOp,
    InstanceNormalizationOp,
    LayerNormalizationOp,
    LRNOp,
)
from ge.dialects.graph.ops.resize import Coordinates, ResizeMode, ResizeOp
from ge.lowering.decompose_attention import attention
from ge.lowering.decompose_einsum import EINSUM
from ge.lowering.decompose_indexing import INDEXING, cast
from ge.lowering.decompose_quantized import QUANTIZED
from ge.lowering.decompose_rows import ROWS
from ge.lowering.decompose_running_sum import RUNNING_SUMS
from ge.lowering.decompose_top_k import TOP_K
from ge.lowering.decompose_transposed_convs import TRANSPOSED_CONVS
from ge.lowering.decompose_windows import WINDOWS
from ge.lowering.rewriting import Here, Rules, rewrite
from ge.lowering.weighted_sums import weighted

Shape = tuple[int, ...]

MOST_PARTS = 16
"""An axis that falls into more runs of even steps than this is gathered index by index."""
SHORT = 16
"""Elements of a run below which it may be gathered with its neighbours."""


@dataclass(frozen=True)
class DecomposeOperatorsPass(ModulePass):
    """Write operators that have no kernel as several that have one."""

    name = "decompose-operators"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, RULES, unless=lambda o: o.on_host)


def _dtype(value: SSAValue) -> DType:
    assert isinstance(value.type, TensorType)
    return dtypes.of_ir(value.type.element_type)


def _repeat(here: Here, x: SSAValue, before: Shape, behind: Shape) -> SSAValue:
    """Each dim i repeated: `before[i]` times as a whole, `behind[i]` times each element."""
    shape = shape_of(x)
    rows = list(zip(before, shape, behind, strict=True))
    apart = tuple(chain.from_iterable((1, n, 1) for _, n, _ in rows))
    wide = tuple(chain.from_iterable(rows))
    spread = here.make(ExpandOp, here.make(ReshapeOp, x, shape=apart), shape=wide)
    return here.make(ReshapeOp, spread, shape=tuple(map(prod, rows)))


# Moves


def _tile(here: Here, op: TileOp) -> SSAValue:
    """Tile -> reshape, expand, reshape"""
    repeats = op.attrs["repeats"]
    return _repeat(here, op.x, repeats, (1,) * len(repeats))


def _depth_to_space(here: Here, op: DepthToSpaceOp) -> SSAValue:
    """Depth to space -> reshape, transpose, reshape"""
    n, c, h, w = shape_of(op.x)
    b = op.attrs["blocksize"]
    depth = c // b**2
    columns = op.attrs["mode"] is BlockOrder.DCR
    apart = (n, b, b, depth, h, w) if columns else (n, depth, b, b, h, w)
    perm = (0, 3, 4, 1, 5, 2) if columns else (0, 1, 4, 2, 5, 3)
    turned = here.make(TransposeOp, here.make(ReshapeOp, op.x, shape=apart), perm=perm)
    return here.make(ReshapeOp, turned, shape=shape_of(op.out))


def _space_to_depth(here: Here, op: SpaceToDepthOp) -> SSAValue:
    """Space to depth -> reshape, transpose, reshape"""
    n, c, h, w = shape_of(op.x)
    b = op.attrs["blocksize"]
    apart = here.make(ReshapeOp, op.x, shape=(n, c, h // b, b, w // b, b))
    turned = here.make(TransposeOp, apart, perm=(0, 3, 5, 1, 2, 4))
    return here.make(ReshapeOp, turned, shape=shape_of(op.out))


def _runs(indices: Sequence[int]) -> list[list[int]]:
    """The indices in order, cut where their steps change or lead backwards."""
    runs: list[list[int]] = []
    for index in indices:
        run = runs[-1] if runs else []
        even = len(run) < 2 or index - run[-1] == run[1] - run[0]
        if run and even and index >= run[-1]:
            run.append(index)
        else:
            runs.append([index])
    return runs


def _joined(runs: list[list[int]]) -> list[list[int]]:
    """Where runs are many, the short ones beside each other are gathered as one."""
    if len(runs) <= MOST_PARTS:
        return runs
    joined: list[list[int]] = []
    open_ = False
    for run in runs:
        short = len(run) < SHORT
        if short and open_:
            joined[-1] += run
        else:
            joined.append(list(run))
        open_ = short
    return joined


def _along(here: Here, x: SSAValue, axis: int, indices: Sequence[int]) -> SSAValue:
    """The places `indices` of x along an axis: views side by side while they are few."""
    if list(indices) == list(range(shape_of(x)[axis])):
        return x
    runs = _joined(_runs(indices))
    if len(runs) > MOST_PARTS:
        runs = [list(indices)]
    parts = [
        here.make(GatherOp, x, here.constant(np.asarray(run, np.int64)), axis=axis) for run in runs
    ]
    return parts[0] if len(parts) == 1 else here.make(ConcatOp, *parts, axis=axis)


def _pad(here: Here, op: PadOp) -> SSAValue | None:
    """Pad with what is there -> gather along each axis; with a computed value -> choose it"""
    attrs = op.attrs
    if attrs["mode"] is PadMode.CONSTANT:
        return _pad_computed(here, op)
    value: SSAValue = op.x
    shape, n = shape_of(value), len(shape_of(value))
    for axis, size in enumerate(shape):
        ends = (attrs["pads"][axis], attrs["pads"][n + axis])
        line = PadOp.evaluate(np.arange(size), pads=ends, mode=attrs["mode"])
        value = _along(here, value, axis, line.tolist())
    return value


def _pad_computed(here: Here, op: PadOp) -> SSAValue | None:
    if op.value is None or constant_of(op.value) is not None:
        return None
    inside = PadOp.evaluate(np.ones(shape_of(op.x), bool), **op.attrs)
    wide = here.make(PadOp, op.x, pads=op.attrs["pads"])
    value = here.make(ReshapeOp, op.value, shape=())
    return here.make(WhereOp, here.constant(np.asarray(inside)), wide, value)


def _slice(here: Here, op: SliceOp) -> SSAValue | None:
    """A slice that turns the order -> gather along each axis"""
    attrs = op.attrs
    shape = shape_of(op.x)
    parts = slices_of(shape, attrs["starts"], attrs["ends"], attrs["axes"], attrs["steps"])
    lines = [range(n)[part] for n, part in zip(shape, parts, strict=True)]
    if all(line.step > 0 or len(line) < 2 for line in lines) or not all(lines):
        return None
    value: SSAValue = op.x
    for axis, line in enumerate(lines):
        value = _along(here, value, axis, line)
    return value


def _gather_nd(here: Here, op: GatherNDOp) -> SSAValue | None:
    """Gather by tuples of indices -> gather from the dims they address, taken as one"""
    indices = constant_of(op.indices)
    if op.attrs["batch_dims"] or indices is None:
        return None
    shape, depth = shape_of(op.x), indices.shape[-1]
    parts = [indices[..., i] % shape[i] for i in range(depth)]
    flat = np.ravel_multi_index(parts, shape[:depth]).astype(np.int64)
    rows = here.make(ReshapeOp, op.x, shape=(prod(shape[:depth]), *shape[depth:]))
    return here.make(GatherOp, rows, here.constant(flat), axis=0)


# Sampling


def _resize(here: Here, op: ResizeOp) -> SSAValue:
    """Resize -> repeat by whole factors, gather, or a product with the weights of each place"""
    # Weights are fractions, also those of whole numbers.
    dtype = _dtype(op.x)
    exact = dtype.is_float or op.attrs["mode"] is ResizeMode.NEAREST
    value: SSAValue = cast(here, op.x, dtype if exact else dtypes.F32)
    old, new = shape_of(op.x), shape_of(op.out)
    for axis in range(len(old)):
        how = {**op.attrs, "sizes": (new[axis],), "extrapolation_value": 0.0}
        how["scales"] = op.attrs["scales"][axis : axis + 1]
        if roi := op.attrs["roi"]:
            how["roi"] = (roi[axis], roi[len(old) + axis])
        value = _resize_axis(here, value, axis, how)
    return _cropped(here, op, cast(here, value, dtype))


def _cropped(here: Here, op: ResizeOp, value: SSAValue) -> SSAValue:
    """What is sampled outside of x has a value of its own."""
    if op.attrs["coordinate_transformation_mode"] is not Coordinates.TF_CROP_AND_RESIZE:
        return value
    # Of ones the sampling leaves ones but for what lies outside.
    how = {**op.attrs, "extrapolation_value": -1.0, "mode": ResizeMode.NEAREST}
    mask = ResizeOp.evaluate(np.ones(shape_of(op.x), np.float32), **how) >= 0
    roi, rank = op.attrs["roi"], len(shape_of(op.x))
    whole = [roi[i] == 0 and roi[rank + i] == 1 for i in range(rank)]
    line = tuple(slice(0, 1) if all_ else slice(None) for all_ in whole)
    number = np.asarray(op.attrs["extrapolation_value"], _dtype(op.x).numpy)
    return here.make(WhereOp, here.constant(np.asarray(mask[line])), value, here.constant(number))


def _resize_axis(here: Here, x: SSAValue, axis: int, how: dict[str, Any]) -> SSAValue:
    n = shape_of(x)[axis]
    if how["mode"] is ResizeMode.NEAREST:
        line = ResizeOp.evaluate(np.arange(n, dtype=np.float32), **how).astype(int)
        factor = len(line) // n
        if factor and np.array_equal(line, np.arange(len(line)) // factor):
            each = tuple(factor if i == axis else 1 for i in range(len(shape_of(x))))
            return _repeat(here, x, (1,) * len(each), each) if factor > 1 else x
        return _along(here, x, axis, line.tolist())
    rest = {**how, "scales": how["scales"] and (*how["scales"], 1.0)}
    rest["sizes"] = how["sizes"] and (*how["sizes"], n)
    if how["roi"]:
        low, high = how["roi"]
        rest["roi"] = (low, 0.0, high, 1.0)
    weights = ResizeOp.evaluate(np.eye(n, dtype=np.float32), **rest)
    if weights.shape == (n, n) and np.array_equal(weights, np.eye(n)):
        return x
    return weighted(here, x, axis, weights)


def _lrn(here: Here, op: LRNOp) -> SSAValue:
    """Local response -> a product with a band over the channels, then a power"""
    attrs, shape = op.attrs, shape_of(op.x)
    dtype, places = _dtype(op.x), np.arange(shape[1])
    before, size = (attrs["size"] - 1) // 2, attrs["size"]
    apart = places[None, :] - places[:, None] + before
    band = ((apart >= 0) & (apart < size)) * (attrs["alpha"] / size)
    sums = weighted(here, here.make(MulOp, op.x, op.x), 1, band)
    base = here.make(AddOp, sums, here.constant(np.asarray(attrs["bias"], dtype.numpy)))
    power = here.constant(np.asarray(-attrs["beta"], dtype.numpy))
    return here.make(MulOp, op.x, here.make(PowOp, base, power))


def _trilu(here: Here, op: TriluOp) -> SSAValue:
    """A triangle -> where the triangle is, x, else 0"""
    mask = np.ones(shape_of(op.x)[-2:], bool)
    mask = np.triu(mask, op.attrs["k"]) if op.attrs["upper"] else np.tril(mask, op.attrs["k"])
    zero = here.constant(np.zeros((), _dtype(op.x).numpy))
    return here.make(WhereOp, here.constant(mask), op.x, zero)


# Norms and convolutions


def _group_norm(here: Here, op: GroupNormalizationOp) -> SSAValue:
    """Group norm -> layer norm of each group, then a factor and a summand for each channel"""
    return _normalised(here, op, op.attrs["num_groups"])


def _instance_norm(here: Here, op: InstanceNormalizationOp) -> SSAValue:
    """Instance norm -> layer norm of each channel, then a factor and a summand for each"""
    return _normalised(here, op, shape_of(op.x)[1])


def _normalised(
    here: Here, op: GroupNormalizationOp | InstanceNormalizationOp, groups: int
) -> SSAValue:
    shape = shape_of(op.x)
    apart = (shape[0], groups, shape[1] // groups, prod(shape[2:]))
    rows = here.make(ReshapeOp, op.x, shape=apart)
    one = here.constant(np.ones(1, _dtype(op.x).numpy))
    normal = here.make(LayerNormalizationOp, rows, one, axis=2, epsilon=op.attrs["epsilon"])
    column = (groups, shape[1] // groups, 1)
    scale, b = (here.make(ReshapeOp, v, shape=column) for v in (op.scale, op.b))
    value = here.make(AddOp, here.make(MulOp, normal, scale), b)
    return here.make(ReshapeOp, value, shape=shape)


RULES: Rules = {
    **EINSUM,
    **INDEXING,
    **TOP_K,
    **RUNNING_SUMS,
    **WINDOWS,
    **TRANSPOSED_CONVS,
    **QUANTIZED,
    TileOp: [_tile],
    **{kind: [*ROWS[kind], *INDEXING[kind]] for kind in ROWS},
    GatherNDOp: [_gather_nd, *INDEXING[GatherNDOp]],
    DepthToSpaceOp: [_depth_to_space],
    SpaceToDepthOp: [_space_to_depth],
    PadOp: [_pad],
    SliceOp: [_slice],
    ResizeOp: [_resize],
    LRNOp: [_lrn],
    TriluOp: [_trilu],
    GroupNormalizationOp: [_group_norm],
    InstanceNormalizationOp: [_instance_norm],
    AttentionOp: [attention],
}
