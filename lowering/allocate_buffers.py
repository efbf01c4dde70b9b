"""`allocate-buffers`: the place of each buffer in its memory."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from ge.dialects.npu.places import Space
from ge.dialects.npu.tree import KernelOp
from ge.lowering.choose_copies import rooms_of
from ge.lowering.programs import kernels_of
from ge.lowering.scopes import space_of
from ge.lowering.vector_memory import share


def allocate(kernel: KernelOp) -> None:
    """Give every buffer an address; those of the vector unit alone share theirs where they can."""
    rooms = rooms_of(kernel)
    shared = [r.buffer for r in rooms if r.shared and r.buffer.copy_count == 1]
    offsets, most = share(kernel, shared)
    top = {space: 0 for space in Space}
    top[Space.UB] = most
    for r in rooms:
        address = offsets.get(r.buffer)
        if address is None:
            space = space_of(r.buffer)
            address = top[space]
            top[space] += r.bytes * r.buffer.copy_count
        r.buffer.properties["address"] = IntegerAttr(address, i64)


@dataclass(frozen=True)
class AllocateBuffersPass(ModulePass):
    """Place each buffer and its copies in the memory it belongs to."""

    name = "allocate-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for _, kernel in kernels_of(op):
            allocate(kernel)
