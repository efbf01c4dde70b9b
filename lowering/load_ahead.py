"""What a kernel loads while the one before it still ends: tiles that no kernel makes.

The first tile of a weight or an input goes to `l1` before the cores meet, in a function of its own
that is called between arrival and meeting. It waits until MTE1 has taken what the kernel before it
had there. The kernel then goes without its first load.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from xdsl.ir import BlockArgument, Operation

from ge.dialects.npu.isa.sync import FLAGS
from ge.dialects.npu.ops import InvokeOp, ProgramOp
from ge.dialects.npu.places import Space, Unit
from ge.dialects.npu.tree import ForOp, KernelOp, MoveOp
from ge.dialects.npu.tree_types import BufferType
from ge.lowering.between_calls import Flags

AHEAD = "_ahead"
"""Ends the name of the function that loads a kernel's first tiles."""
FLAG = FLAGS - 1
"""Between two kernels: they count theirs from the first."""
HAND_OVER = ((Unit.MTE1, Unit.MTE2), (Unit.MTE2, Unit.MTE1))
"""MTE1 leaves `l1`; the answer frees the flag on cores, too, that have nothing else to do."""

Ahead = tuple[MoveOp, ...]


def loads_ahead(program: ProgramOp, used: Mapping[str, Flags]) -> dict[str, Ahead]:
    """The loads of each kernel that need not wait for the cores, none where a flag is missing.

    `used` are the flags of the kernels. The first call alone has nothing to load beside.
    """
    if any(flags.get(pair, 0) > FLAG for flags in used.values() for pair in HAND_OVER):
        return {}
    calls = [op for op in program.body.walk() if isinstance(op, InvokeOp)]
    made = {value for call in calls for value in call.args[call.written :]}
    waits: dict[str, set[int]] = {}
    for call in calls:
        places = [i for i, value in enumerate(call.args) if value in made]
        waits.setdefault(call.callee.root_reference.data, set()).update(places)
    later = {call.callee.root_reference.data for call in calls[1:]}
    kernels = [op for op in program.body.block.ops if isinstance(op, KernelOp)]
    names = [(kernel.sym_name.data, kernel) for kernel in kernels]
    found = {n: ahead(k, waits[n]) for n, k in names if n in used and n in later}
    return {name: loads for name, loads in found.items() if loads}


def ahead(kernel: KernelOp, waits: Container[int]) -> Ahead:
    """The loads to `l1` of arguments that are not among those that wait."""
    return tuple(
        op
        for op in kernel.body.walk()
        if isinstance(op, MoveOp) and _free(op, waits) and not _ends_early(op)
    )


def _free(move: MoveOp, waits: Container[int]) -> bool:
    """Whether every core may do it first of all."""
    source, target = move.source, move.target.type
    plain = move.index is None and move.when is None
    outside = isinstance(source, BlockArgument) and source.index not in waits
    return plain and outside and isinstance(target, BufferType) and target.space is Space.L1


def _ends_early(move: MoveOp) -> bool:
    """Whether it depends on the tile how often a loop around it runs."""
    return any(loop.until is not None for loop in above(move))


def above(op: Operation) -> Iterator[ForOp]:
    """The loops around an operation, from the inside out."""
    at = op.parent_op()
    while isinstance(at, ForOp):
        yield at
        at = at.parent_op()
