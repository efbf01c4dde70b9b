"""Where the tiles of the current iteration lie, loop by loop."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from ge.lowering.scalars import Scalar


@dataclass(frozen=True, eq=False)
class Frame:
    """One iteration of a loop, or the kernel as a whole."""

    op: Operation
    outer: Frame | None
    at: dict[str, tuple[Scalar, Scalar]]
    """Offset and size of each dimension's current tile."""
    turn: Scalar
    """How many iterations of this loop the core has begun before, over the whole kernel."""
    left: Scalar = 0
    """How many iterations follow in this run of the loop, where something in it asks for that."""

    def of(self, op: Operation | None) -> Frame:
        """The frame of the loop or kernel `op`, which is this one or above it."""
        frame: Frame | None = self
        while frame is not None and frame.op is not op:
            frame = frame.outer
        if frame is None:
            raise ValueError("a statement uses a buffer of a loop that it does not stand in")
        return frame
