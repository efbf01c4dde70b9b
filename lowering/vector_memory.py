"""Tiles that only the vector unit sees: it is in order, so that dead ones lend their bytes."""

from __future__ import annotations

from xdsl.ir import Operation

from ge.dialects.npu.instr import Instr
from ge.dialects.npu.operands import AtKind, DimsKind
from ge.dialects.npu.tree import BufferOp, ForOp, KernelOp, VectorOp
from ge.lowering.accesses import REDUCE_RATE, Access, accesses, instr_of
from ge.lowering.scopes import Scope, bytes_of, child_of, root, scopes, stage_of


def _by_stage(scope: Scope) -> list[Operation]:
    """The operations of a scope in the order in which a skewed iteration runs them."""
    return sorted(scope.block.ops, key=stage_of)


def _spans(scope: Scope, at: int, spans: dict[Operation, tuple[int, int]]) -> int:
    """Number the operations below `scope` from `at` on; a loop spans all that it holds."""
    for op in _by_stage(scope):
        start = at
        if isinstance(op, ForOp):
            at = _spans(scope.enter(op), at, spans)
        spans[op] = (start, at)
        at += 1
    return at


def share(kernel: KernelOp, buffers: list[BufferOp]) -> tuple[dict[BufferOp, int], int]:
    """Offsets for `buffers`, and the bytes they take in all: first fit in program order.

    A tile takes the place of one that is read for the last time to make it.
    """
    spans: dict[Operation, tuple[int, int]] = {}
    top = root(kernel)
    _spans(top, 0, spans)
    homes = {op: scope for scope in scopes(top) for op in scope.block.ops}
    uses = accesses(kernel)
    lives = []
    for buffer in buffers:
        home = homes[buffer]
        places = [spans[child_of(use.op, home)] for use in uses[buffer]] or [spans[buffer]]
        size = bytes_of(buffer, home.sizes)
        lives.append((min(p[0] for p in places), max(p[1] for p in places), size, buffer))
    offsets: dict[BufferOp, int] = {}
    live: list[tuple[int, int, int, BufferOp]] = []
    most = 0
    for first, last, size, buffer in sorted(lives, key=lambda x: x[:2]):
        live = [x for x in live if x[0] >= first]
        dying = (x for x in live if x[0] == first and _takes_over(uses, x[3], buffer))
        if (old := next(dying, None)) is not None:
            # Exactly there: elements that lie elsewhere would overwrite what is yet to be read.
            live.remove(old)
            at = old[1]
        else:
            at = _first_gap(live, size)
        offsets[buffer] = at
        live.append((last, at, size, buffer))
        most = max(most, at + size)
    return offsets, most


def _first_gap(live: list[tuple[int, int, int, BufferOp]], size: int) -> int:
    at = 0
    for _, taken, n, _ in sorted(live, key=lambda x: x[1]):
        if at + size <= taken:
            break
        at = max(at, taken + n)
    return at


def _takes_over(uses: dict[BufferOp, list[Access]], old: BufferOp, new: BufferOp) -> bool:
    """Whether an elementwise instruction makes `new` where each element of `old` lay."""
    op = uses[new][0].op if uses[new] else None
    return (
        isinstance(op, VectorOp)
        and op.out is new.result
        and op.parent is old.parent is new.parent
        and list(op.ins).count(old.result) == 1
        and old.map == new.map
        and old.result.type.dtype.bytes == new.result.type.dtype.bytes
        and _elementwise(instr_of(op))
    )


def _elementwise(row: Instr) -> bool:
    """Whether each element of the result comes from those at its own place."""
    tiles = sum(isinstance(kind, AtKind) for kind in row.operands.values())
    lists = sum(isinstance(kind, DimsKind) for kind in row.operands.values())
    return row.rate != REDUCE_RATE and "index" not in row.operands and lists == tiles + 1


def shared_bytes(kernel: KernelOp, buffers: list[BufferOp]) -> int:
    """The bytes that `share` needs."""
    return share(kernel, buffers)[1] if buffers else 0
