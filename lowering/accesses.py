"""Which unit runs a statement of a kernel's tree, and which buffers it reads and writes."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from ge.dialects.npu.instr import Instr
from ge.dialects.npu.isa import INSTRS
from ge.dialects.npu.operands import AtKind
from ge.dialects.npu.places import Space, Unit
from ge.dialects.npu.tree import BufferOp, KernelOp, MatrixOp, MoveOp, VectorOp
from ge.dialects.npu.tree_types import BufferType

REDUCE_RATE = "vreduce"
"""The rate of what makes one element of a row."""
FOLDS = {"vrsum": "vadd", "vrmax": "vmax", "vrmin": "vmin", "vrprod": "vmul"}
"""What two elements become that a reduction takes together."""

_MOVERS = (Unit.MTE1, Unit.MTE2, Unit.MTE2V, Unit.MTE3, Unit.FIX)


def _by_memories() -> dict[tuple[Space, Space], Instr]:
    """The instruction that moves from one memory to another, read off the table."""
    rows = {}
    for row in INSTRS.values():
        places = [kind.space for kind in row.operands.values() if isinstance(kind, AtKind)]
        if row.unit in _MOVERS:
            target, source = places
            rows[source, target] = row
    return rows


MOVES = _by_memories()


class Access(NamedTuple):
    """One statement's use of a buffer."""

    op: Operation
    unit: Unit
    writes: bool


def space_of(value: SSAValue) -> Space:
    """The memory of a move's source or target; what is no buffer is device memory."""
    return value.type.space if isinstance(value.type, BufferType) else Space.GM


def instr_of(op: MoveOp | MatrixOp | VectorOp) -> Instr:
    """The row of the instruction table that a statement becomes."""
    if isinstance(op, MoveOp):
        return MOVES[space_of(op.source), space_of(op.target)]
    return INSTRS["mmad" if isinstance(op, MatrixOp) else op.instr.data]


def unit_of(op: Operation) -> Unit | None:
    """The queue a statement runs in; None for what is no statement."""
    if not isinstance(op, MoveOp | MatrixOp | VectorOp):
        return None
    unit = instr_of(op).unit
    assert isinstance(unit, Unit)
    return unit


def _written(op: Operation) -> SSAValue:
    if isinstance(op, MoveOp):
        return op.target
    assert isinstance(op, MatrixOp | VectorOp)
    return op.acc if isinstance(op, MatrixOp) else op.out


def accesses(kernel: KernelOp) -> dict[BufferOp, list[Access]]:
    """Every buffer of the kernel with its uses, in program order."""
    found: dict[BufferOp, list[Access]] = {}
    for op in kernel.body.walk():
        if isinstance(op, BufferOp):
            found[op] = []
        elif (unit := unit_of(op)) is not None:
            target = _written(op)
            for value in dict.fromkeys((*op.operands, target)):
                if isinstance(value.owner, BufferOp):
                    reads = value is not target or list(op.operands).count(value) > 1
                    if reads:
                        found[value.owner].append(Access(op, unit, False))
                    if value is target:
                        found[value.owner].append(Access(op, unit, True))
    return found
