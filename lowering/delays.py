"""What a loop's later stages work on: frames of earlier iterations, kept in registers.

A loop that flows does not end its stages with its last iteration; the next run goes on with them.
Where the tiles of an iteration lie moves on, iteration by iteration, through a row of registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ge.lowering.frames import Frame
from ge.lowering.scalars import Line, Scalar, ScalarWriter, Virtual, registers_of


class Delays:
    """The frames of the last iterations of one loop."""

    def __init__(self, out: ScalarWriter, most: int) -> None:
        self.most = most
        """How many iterations are looked back."""
        self._out = out
        self._kept: dict[Virtual, list[Virtual]] = {}
        """By register of an iteration, what it held in the ones before, the last one first."""
        self._frames: list[Frame] = []

    def begin(self, frame: Frame) -> None:
        """Say what the frame of the current iteration is."""
        self._frames = [self._past(frame, n) for n in range(1, self.most + 1)]

    def frame(self, behind: int) -> Frame:
        """The frame of so many iterations before."""
        return self._frames[behind - 1]

    def _past(self, frame: Frame, behind: int) -> Frame:
        if frame.outer is None:
            return frame

        def past(value: Scalar) -> Scalar:
            if isinstance(value, int):
                return value
            if value not in self._kept:
                self._kept[value] = [self._out.register() for _ in range(self.most)]
            return self._kept[value][behind - 1]

        at = {dim: (past(offset), past(size)) for dim, (offset, size) in frame.at.items()}
        return replace(
            frame, outer=self._past(frame.outer, behind), at=at, turn=past(frame.turn)
        )

    def move_on(self, begun: int, start: int) -> None:
        """Make the current iteration the last one, in what the lines from `begun` on look at.

        What is before the first iteration is set at line `start`.
        """
        lines = self._out.lines
        used = {v for line in lines[begun:] for v in registers_of(line.args)}
        kept = [(now, row) for now, row in self._kept.items() if used.intersection(row)]
        for now, row in kept:
            for older, newer in self._pairs(now, row):
                self._out.assign(older, newer)
        first = [v for _, row in kept for v in row]
        lines[start:start] = [self._out.line("li", v, 0) for v in first]

    def _pairs(self, now: Virtual, row: list[Virtual]) -> Iterator[tuple[Virtual, Virtual]]:
        chain = [now, *row]
        for at in range(self.most, 0, -1):
            yield chain[at], chain[at - 1]
