"""`choose-copies`: how many copies of each buffer a kernel gets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from ge.dialects.diagnostics import DoesNotFit
from ge.dialects.npu import target as targets
from ge.dialects.npu.places import Space, Unit
from ge.dialects.npu.target import Target
from ge.dialects.npu.tree import BufferOp, ForOp, KernelOp, MoveOp
from ge.lowering.accesses import Access, accesses
from ge.lowering.programs import kernels_of
from ge.lowering.scopes import Scope, bytes_of, child_of, root, scopes, space_of, stage_of
from ge.lowering.vector_memory import shared_bytes

ON_CHIP = (Space.L1, Space.L0A, Space.L0B, Space.L0C, Space.UB)


@dataclass(frozen=True)
class Room:
    """What one buffer of a kernel needs."""

    buffer: BufferOp
    home: Scope
    uses: tuple[Access, ...]
    bytes: int
    least: int
    """Copies without which numbers are wrong: uses that lie n stages apart need n + 1."""

    @property
    def wanted(self) -> int:
        """Two copies let units overlap; what one unit uses, or what stays, needs no second one."""
        alone = len({use.unit for use in self.uses}) < 2 or self.home.parent is None
        if self.buffer.copies is not None:
            return self.least
        return self.least if alone else max(2, self.least)

    @property
    def shared(self) -> bool:
        """Only the vector unit sees it, so that it can share bytes with others of its kind."""
        return (
            space_of(self.buffer) is Space.UB
            and all(use.unit is Unit.V for use in self.uses)
            and self.least == 1
        )


class Overflow(DoesNotFit):
    """A kernel needs more of a memory than there is; `rooms` are its buffers there."""

    def __init__(
        self, kernel: KernelOp, space: Space, need: int, have: int, rooms: list[Room]
    ) -> None:
        listed = ", ".join(
            f"{r.buffer.label.data} {r.least} x {r.bytes}"
            for r in sorted(rooms, key=lambda r: -r.bytes)
        )
        super().__init__(
            f"kernel '{kernel.sym_name.data}' ({kernel.kind.data}) must fit {space}: needs {need} "
            f"bytes, {have} available, {need - have} too many; buffers: {listed}"
        )
        self.rooms = rooms


def rooms_of(kernel: KernelOp) -> list[Room]:
    """Every buffer with its size and the copies it cannot do without."""
    uses = accesses(kernel)
    rooms = []
    for scope in scopes(root(kernel)):
        for op in scope.block.ops:
            if isinstance(op, BufferOp):
                least = 1 if op.spread else least_copies(uses[op], scope)
                if op.copies is not None:
                    least = max(least, op.copies.value.data)
                rooms.append(Room(op, scope, tuple(uses[op]), bytes_of(op, scope.sizes), least))
    return rooms


def least_copies(uses: Iterable[Access], scope: Scope) -> int:
    """Copies of a buffer of a scope without which what runs stages ahead overwrites it.

    Where a loop below flows its stages run ahead of each other by as many iterations, which are the
    fewer runs of the scope the more there are in one.
    """
    by_loop: dict[Scope, list[int]] = defaultdict(list)
    for use in uses:
        at = scope
        while True:
            child = child_of(use.op, at)
            by_loop[at].append(stage_of(child))
            if not isinstance(child, ForOp) or child.flows is None:
                break
            at = next((known for known in by_loop if known.op is child), None) or at.enter(child)
    spans = {at: max(stages) - min(stages) for at, stages in by_loop.items()}
    return 1 + sum(span if at is scope else -(-span // at.fewest) for at, span in spans.items())


def choose(kernel: KernelOp, target: Target) -> dict[BufferOp, int]:
    """Copies by buffer: what is needed, then second copies, deepest and smallest first.

    Raises Overflow when not even the least copies fit.
    """
    copies: dict[BufferOp, int] = {}
    rooms = rooms_of(kernel)
    for space in ON_CHIP:
        here = [r for r in rooms if space_of(r.buffer) is space]
        used = sum(r.least * r.bytes for r in here if not r.shared)
        if space is Space.UB:
            used += shared_bytes(kernel, [r.buffer for r in here if r.shared])
        have = target.bytes_of[space]
        if used > have:
            raise Overflow(kernel, space, used, have, here)
        for r in sorted(here, key=lambda r: (-len(r.home.path), r.bytes)):
            n = r.least
            while not r.shared and n < r.wanted and used + r.bytes <= have:
                n, used = n + 1, used + r.bytes
            copies[r.buffer] = n
    return copies


def give(kernel: KernelOp, target: Target) -> None:
    """Write the chosen copies to the buffers that do not say theirs. Raises Overflow."""
    for buffer, n in choose(kernel, target).items():
        if buffer.copies is None:
            buffer.properties["copies"] = IntegerAttr(n, i64)


def hoisted_loads(rooms: list[Room]) -> list[tuple[int, str, str]]:
    """Loads that stand above the loop they are used in: bytes, operand, and that loop's label."""
    found = []
    for r in rooms:
        load = next((u.op for u in r.uses if isinstance(u.op, MoveOp) and u.writes), None)
        if load is None or isinstance(load.source.owner, BufferOp):
            continue
        for use in r.uses:
            below = child_of(use.op, r.home)
            if not use.writes and isinstance(below, ForOp):
                name = load.source.name_hint or ""
                found.append((r.bytes * r.least, name, below.label.data))
                break
    return found


@dataclass(frozen=True)
class ChooseCopiesPass(ModulePass):
    """Give each buffer the copies that let its units overlap, as far as memory goes."""

    name = "choose-copies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program, kernel in kernels_of(op):
            give(kernel, targets.load(program.target.data))
