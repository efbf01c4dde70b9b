"""Where the operations of a kernel's tree stand: loops above them, and sizes inside each loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xdsl.ir import Block, Operation

from ge.dialects.npu.axes import dims_of
from ge.dialects.npu.places import Space
from ge.dialects.npu.tree import BufferOp, ForOp, KernelOp, TreeOp

BUFFER_ALIGNMENT = 32


@dataclass(eq=False)
class Scope:
    """A kernel or one of its loops."""

    op: KernelOp | ForOp
    parent: Scope | None
    sizes: dict[str, int]
    """The largest size that each dimension has inside."""

    @property
    def block(self) -> Block:
        return self.op.body.block

    @property
    def label(self) -> str:
        return self.op.label.data if isinstance(self.op, ForOp) else ""

    @property
    def steps(self) -> dict[str, int]:
        return dict(self.op.steps.data) if isinstance(self.op, ForOp) else {}

    @property
    def cuts(self) -> set[str]:
        """The dimensions that this loop really cuts: a step over all of one changes nothing."""
        outer = self.parent.sizes if self.parent else {}
        return {d for d, step in self.steps.items() if step < outer[d]}

    @property
    def guards(self) -> set[str]:
        """The dimensions that decide whether this loop runs at all."""
        when = self.op.when if isinstance(self.op, ForOp) else None
        return set(dims_of(when.data)) if when else set()

    @property
    def once(self) -> set[str]:
        """The dimensions of which only the last tile gets here."""
        return {dim for scope in self.path for dim in scope.guards}

    @property
    def path(self) -> list[Scope]:
        """From the kernel down to this scope."""
        return [*self.parent.path, self] if self.parent else [self]

    def runs(self, cores: int) -> int:
        """How often its body runs on one core in a call of the kernel, at most."""
        if self.parent is None:
            return 1
        trips = prod(-(-self.parent.sizes[dim] // step) for dim, step in self.steps.items())
        dealt = isinstance(self.op, ForOp) and self.op.cores is not None
        return self.parent.runs(cores) * (-(-trips // cores) if dealt else trips)

    @property
    def fewest(self) -> int:
        """How often its body runs at least, where it is reached."""
        outer = self.parent
        if outer is None or (isinstance(self.op, ForOp) and self.op.until is not None):
            return 1
        return prod(
            min(-(-n // step) for n in outer.tiles(dim)) for dim, step in self.steps.items()
        )

    def tiles(self, dim: str) -> set[int]:
        """The sizes that a dimension has inside: that of the loop's step, and what is left over."""
        if self.parent is None:
            return {self.sizes[dim]}
        outer, step = self.parent.tiles(dim), self.steps.get(dim)
        if step is None:
            return outer
        return {step for n in outer if n >= step} | {n % step for n in outer if n % step}

    def enter(self, loop: ForOp) -> Scope:
        """The scope of a loop that stands in this one."""
        sizes = dict(self.sizes)
        for dim, tile in loop.steps.data:
            sizes[dim] = min(tile, sizes[dim])
        return Scope(loop, self, sizes)


def root(kernel: KernelOp) -> Scope:
    """The scope of a kernel that is a tree."""
    if kernel.dims is None:
        raise ValueError(f"kernel '{kernel.sym_name.data}' has no tree any more")
    return Scope(kernel, None, dict(kernel.dims.data))


def scopes(scope: Scope) -> Iterator[Scope]:
    """The scope and all below it, outer ones first."""
    yield scope
    for op in scope.block.ops:
        if isinstance(op, ForOp):
            yield from scopes(scope.enter(op))


def child_of(op: Operation, scope: Scope) -> Operation:
    """The operation directly in `scope` that holds `op`."""
    at = op
    while at.parent is not scope.block:
        above = at.parent_op()
        if above is None:
            raise ValueError("operation stands outside the scope")
        at = above
    return at


def stage_of(op: Operation) -> int:
    """The stage in which a skewed loop runs one of its operations."""
    return op.stage_number if isinstance(op, TreeOp) else 0


def bytes_of(buffer: BufferOp, sizes: dict[str, int]) -> int:
    """Bytes of one copy of a buffer whose scope has these sizes."""
    n = buffer.result.type.dtype.bytes
    for axis in buffer.map.data:
        n *= axis.extent(sizes)
    return -(-n // BUFFER_ALIGNMENT) * BUFFER_ALIGNMENT


def space_of(buffer: BufferOp) -> Space:
    """The memory a buffer lies in."""
    return buffer.result.type.space
