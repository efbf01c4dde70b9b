"""How often a kernel's loops come back to the same data when the cache has lost it meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ge.dialects.npu.tree import BufferOp, ForOp, KernelOp, MoveOp
from ge.dialects.npu.tree_types import HbmType
from ge.lowering.scopes import Scope, root, scopes

Sizes = dict[str, int]


def refetched(kernel: KernelOp, move: MoveOp, home: Scope, cores: int, room: int) -> int:
    """How often device memory delivers the operand of a load, all cores together.

    A loop over a dimension that the operand does not have comes back to it; what all cores touch
    in one iteration of that loop lies in between. It is lost if that is more than `room` bytes.
    """
    buffer = move.target.owner
    assert isinstance(buffer, BufferOp)
    used = {dim for axis in buffer.map.data for dim, _ in axis.terms}
    used |= home.once
    times = 1
    live: Sizes = {}
    for scope in home.path[1:]:
        assert isinstance(scope.op, ForOp)
        assert scope.parent is not None
        steps = scope.op.steps.data
        outer = scope.parent.sizes
        counts = {dim: -(-outer[dim] // step) for dim, step in steps}
        for place, dim in enumerate(counts):
            if dim in used or counts[dim] == 1:
                continue
            faster = prod(counts[d] for d, _ in steps[place + 1 :])
            if scope.op.cores and faster < cores:
                continue
            fixed = dict(steps[: place + 1])
            sizes = {**outer, **fixed}
            if _touched(kernel, {d: n * live.get(d, 1) for d, n in sizes.items()}) > room:
                times *= counts[dim]
        if scope.op.cores:
            live = _side_by_side(counts, cores)
    return times


def _side_by_side(counts: Mapping[str, int], cores: int) -> Sizes:
    """How many tiles of each dimension the cores work on at once; the last varies fastest."""
    live = {}
    for dim, count in reversed([*counts.items()]):
        live[dim] = min(count, cores)
        cores = -(-cores // count)
    return live


def _touched(kernel: KernelOp, sizes: Sizes) -> int:
    """Bytes of device memory that lie under tiles of these sizes."""
    maps = {}
    for scope in scopes(root(kernel)):
        for op in scope.block.ops:
            if isinstance(op, MoveOp) and op.map is not None:
                tensor = op.source if isinstance(op.source.type, HbmType) else op.target
                maps[tensor] = op.map.data
    total = 0
    for tensor, axes in maps.items():
        type_ = tensor.type
        assert isinstance(type_, HbmType)
        parts = [
            min(axis.extent(sizes), n)
            for axis, n, stride in zip(axes, type_.shape, type_.strides, strict=True)
            if stride
        ]
        total += prod(parts) * type_.dtype.bytes
    return total
