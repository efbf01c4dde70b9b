"""The steps of a vector statement: where their operands come from and their results live."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation

from ge.dialects.npu.axes import Axis
from ge.dialects.npu.places import Space
from ge.dialects.npu.tree import BufferOp, VectorOp
from ge.lowering.kernels.description import Description, Step, Vector
from ge.lowering.scopes import Scope
from ge.lowering.tree_ops import instr_properties, move_op

if TYPE_CHECKING:
    from ge.lowering.build_tree import Builder


class Group:
    """Puts one vector statement into the loop `at`."""

    def __init__(
        self, builder: Builder, statement: Vector, scope: Scope, at: Scope, stage: int
    ) -> None:
        self.builder = builder
        self.scope = scope
        self.at = at
        self.stage = stage
        self.handed: dict[str, BufferOp] = {}
        self.first: Operation | None = None
        """The first operation that is no load: all loads of the group go before it."""
        self.elsewhere = _names_used_outside(builder.description, statement)

    def step(self, step: Step, loop: Scope, stage: int) -> None:
        ins = [self.source(name, step.when) for name in step.ins]
        out = self.target(step.out)
        op = VectorOp.create(
            operands=[out.result, *(b.result for b in ins)],
            properties=instr_properties(step),
        )
        self.builder.put(loop, op, stage)
        if self.first is None:
            self.first = op if loop is self.at else _below(loop, self.at)

    def source(self, name: str, when: Axis | None = None) -> BufferOp:
        b = self.builder
        if name in b.operands:
            return b.fetch(b.operands[name], Space.UB, self.at, self.stage, self.first, when)
        # What nobody has written is scratch.
        buffer = b.buffers.get(name) or self.target(name)
        if buffer.result.type.space is not Space.L0C:
            return buffer
        if name not in self.handed:
            dtype = buffer.result.type.dtype
            chunk = b.buffer(f"{name}_ub", buffer.map.data, Space.UB, dtype, self.at)
            # Without a loop of its own it leaves the accumulators as soon as they are there.
            stage = self.stage if self.at is not self.scope else min(self.stage, b.made_at(name))
            b.put(self.at, move_op(buffer.result, chunk.result), stage, self.first)
            self.handed[name] = chunk
        return self.handed[name]

    def target(self, name: str) -> BufferOp:
        b = self.builder
        if name in self.handed:
            return self.handed[name]
        return b.tile(name, self.scope if name in self.elsewhere else self.at)


def _below(loop: Scope, scope: Scope) -> Operation:
    while loop.parent is not scope and loop.parent is not None:
        loop = loop.parent
    return loop.op


def _names_used_outside(description: Description, statement: Vector) -> set[str]:
    return {
        name
        for other in description.statements
        if isinstance(other, Vector) and other is not statement
        for step in other.steps
        for name in (*step.ins, step.out)
    }
