"""What a loop's later stages work on: frames of earlier iterations, kept in registers.

A loop that flows does not end its stages with its last iteration; the next run goes on with them.
Where the tiles of an iteration lie moves on, iteration by iteration, through a row of registers.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from xdsl.ir import Operation

from ge.lowering.frames import Frame
from ge.lowering.scalars import Scalar, ScalarWriter, Virtual, registers_of

Role = tuple[Operation, str]
"""A loop, and what its frame says: the offset or the size of a tile, or the turn."""


class Delays:
    """The frames of the last iterations of one loop, whose code may stand in several places."""

    def __init__(self, out: ScalarWriter, most: int) -> None:
        self.most = most
        """How many iterations are looked back."""
        self._out = out
        self._rows: dict[Role, list[Virtual]] = {}
        """What an iteration's register held in the ones before, the last one first."""
        self._now: dict[Virtual, Role] = {}
        """The registers of the current iteration."""
        self._frames: list[Frame] = []
        self._used: set[Role] = set()

    def begin(self, frame: Frame) -> None:
        """Say what the frame of the current iteration is."""
        self._now = {}
        self._frames = [self._past(frame, n) for n in range(1, self.most + 1)]

    def frame(self, behind: int) -> Frame:
        """The frame of so many iterations before."""
        return self._frames[behind - 1]

    def _past(self, frame: Frame, behind: int) -> Frame:
        if frame.outer is None:
            return frame

        def past(value: Scalar, what: str) -> Scalar:
            if isinstance(value, int):
                return value
            role = self._now.setdefault(value, (frame.op, what))
            if role not in self._rows:
                self._rows[role] = [self._out.register() for _ in range(self.most)]
            return self._rows[role][behind - 1]

        at = {
            dim: (past(offset, f"{dim} offset"), past(size, f"{dim} size"))
            for dim, (offset, size) in frame.at.items()
        }
        outer = self._past(frame.outer, behind)
        turn, left = past(frame.turn, "turn"), past(frame.left, "left")
        return replace(frame, outer=outer, at=at, turn=turn, left=left)

    def move_on(self, begun: int) -> None:
        """Make the current iteration the last one, in what the lines from `begun` on look at."""
        read = {v for line in self._out.lines[begun:] for v in registers_of(line.args)}
        self._used |= {role for role, row in self._rows.items() if read.intersection(row)}
        for now, role in self._now.items():
            if role in self._used:
                for older, newer in pairwise((*reversed(self._rows[role]), now)):
                    self._out.assign(older, newer)

    def set_up(self, start: int) -> None:
        """Write in front of line `start` what the registers hold at first."""
        rows = [self._rows[role] for role in self._rows if role in self._used]
        self._out.lines[start:start] = [self._out.line("li", v, 0) for row in rows for v in row]
