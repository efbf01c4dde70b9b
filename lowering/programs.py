"""The parts of a module that the passes over `npu` work on."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.npu.ops import ProgramOp
from ge.dialects.npu.tree import KernelOp


def programs_of(module: ModuleOp) -> Iterator[ProgramOp]:
    """The programs of a module."""
    for op in module.ops:
        if isinstance(op, ProgramOp):
            yield op


def kernels_of(module: ModuleOp) -> Iterator[tuple[ProgramOp, KernelOp]]:
    """The kernels that are trees, each with its program."""
    for program in programs_of(module):
        for op in list(program.body.block.ops):
            if isinstance(op, KernelOp) and op.dims is not None:
                yield program, op
