"""Tiles that only the vector unit sees: it is in order, so that dead ones lend their bytes."""

from __future__ import annotations

from xdsl.ir import Operation

from ge.dialects.npu.tree import BufferOp, ForOp, KernelOp
from ge.lowering.accesses import accesses
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
    """Offsets for `buffers`, and the bytes they take in all: first fit in program order."""
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
    live: list[tuple[int, int, int]] = []
    most = 0
    for first, last, size, buffer in sorted(lives, key=lambda x: x[:2]):
        live = [x for x in live if x[0] >= first]
        at = 0
        for _, taken, n in sorted(live, key=lambda x: x[1]):
            if at + size <= taken:
                break
            at = max(at, taken + n)
        offsets[buffer] = at
        live.append((last, at, size))
        most = max(most, at + size)
    return offsets, most


def shared_bytes(kernel: KernelOp, buffers: list[BufferOp]) -> int:
    """The bytes that `share` needs."""
    return share(kernel, buffers)[1] if buffers else 0
