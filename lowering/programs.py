"""The parts of a module that the passes over `npu` work on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from ge.dialects.npu.ops import ChooseOp, InvokeOp, ProgramOp, RepeatOp
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


class Calls(ABC):
    """Goes through the calls of a program in order, and through what is around them."""

    def go_through(self, block: Block) -> None:
        """Meet what stands in a block."""
        for op in block.ops:
            if isinstance(op, InvokeOp):
                self.call(op)
            elif isinstance(op, ChooseOp):
                self.choice(op)
            elif isinstance(op, RepeatOp):
                self.loop(op)

    @abstractmethod
    def call(self, call: InvokeOp) -> None:
        """Meet a call."""

    @abstractmethod
    def choice(self, op: ChooseOp) -> None:
        """Meet two blocks, of which one runs."""

    @abstractmethod
    def loop(self, op: RepeatOp) -> None:
        """Meet a block that runs again and again."""
