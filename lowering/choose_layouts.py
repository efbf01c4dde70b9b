"""`choose-layouts`: images between convolutions keep the channels of a place side by side.

A window then reads long runs of memory, and pools and activations work on whole channels. What
enters and leaves the model keeps the order that the model gives it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ge.dialects.attributes import IntsAttr
from ge.dialects.fused.base import CHANNELS_LAST, FusedOp, ViewOp
from ge.dialects.fused.ops import Conv2DOp, ElementwiseOp, PoolOp
from ge.dialects.graph.base import shape_of, tensor, type_of
from ge.dialects.graph.module import functions_of
from ge.dialects.npu.geometry import dense

FEWEST = 16
"""Channels from which on they make a run of memory that is worth while."""


@dataclass(frozen=True)
class ChooseLayoutsPass(ModulePass):
    """Store images that only kernels read with their channels last, where convolutions gain."""

    name = "choose-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        members = (k for function in functions_of(op) for k in function.body.block.ops)
        kernels = [k for k in members if isinstance(k, FusedOp)]
        for kernel in _chosen(kernels):
            _store_channels_last(kernel)


def _chosen(kernels: list[FusedOp]) -> list[FusedOp]:
    """Convolutions whose readers all profit, and what follows them place by place."""
    chosen: dict[FusedOp, None] = {}
    for kernel in kernels:
        if _may(kernel) and (isinstance(kernel, Conv2DOp) or _follows(kernel, chosen)):
            chosen[kernel] = None
    return list(chosen)


def _may(kernel: FusedOp) -> bool:
    """Whether the result is an image for kernels alone, none of which works channel by channel."""
    if not isinstance(kernel, Conv2DOp | PoolOp | ElementwiseOp) or kernel.layout is not None:
        return False
    shape = shape_of(kernel.out)
    users = [use.operation for use in kernel.out.uses]
    return (
        len(shape) == 4
        and shape[1] >= FEWEST
        and not _by_channel(kernel)
        and bool(users)
        and all(isinstance(u, FusedOp) and not _by_channel(u) for u in users)
    )


def _by_channel(kernel: object) -> bool:
    """Whether it is a convolution of each channel by itself, which the vector unit computes."""
    return (
        isinstance(kernel, Conv2DOp)
        and kernel.group.value.data > 1
        and shape_of(kernel.ins[1])[1] == 1
    )


def _follows(kernel: FusedOp, chosen: dict[FusedOp, None]) -> bool:
    """Whether the images that a kernel reads are stored with their channels last."""
    images = [v for v in kernel.ins if _is_image(v, kernel)]
    return bool(images) and all(v.owner in chosen for v in images)


def _is_image(value: SSAValue, kernel: FusedOp) -> bool:
    shape, out = shape_of(value), shape_of(kernel.out)
    return len(shape) == 4 and shape[:2] == out[:2] and shape[2:] != (1, 1)


def _store_channels_last(kernel: FusedOp) -> None:
    """The same kernel with another order in memory, which its readers see through a view."""
    block, out = kernel.parent, kernel.out
    assert block is not None
    shape, type_ = shape_of(out), type_of(out)
    after = kernel.next_op
    assert after is not None
    copy = kernel.clone().in_layout(CHANNELS_LAST)
    strides = dense(tuple(shape[i] for i in CHANNELS_LAST))
    seen = ViewOp.create(
        operands=[copy.out],
        properties={
            "offset": IntsAttr((0,)),
            "strides": IntsAttr(tuple(strides[CHANNELS_LAST.index(i)] for i in range(len(shape)))),
        },
        result_types=[tensor(shape, type_.element_type)],
    )
    block.insert_ops_before([copy, seen], after)
    out.replace_all_uses_with(seen.result)
    Rewriter.erase_op(kernel)
