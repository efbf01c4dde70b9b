"""What the AI CPU does: general-purpose cores beside the others, for what no unit can do."""

from __future__ import annotations

from typing import Any

from ge.dialects.npu.instr import Work, instr
from ge.dialects.npu.operands import Places, Task
from ge.dialects.npu.routine import Routine
from ge.dialects.npu.state import State


def _computed(routine: Routine, **_: Any) -> Work:
    reads, writes = (sum(o.bytes for o in side) for side in (routine.reads, routine.writes))
    items = sum(o.elements for o in (*routine.reads, *routine.writes))
    return Work(items=items, bytes=reads + writes, rows=1, hbm=reads + writes, stored=writes)


@instr(0x36, rate="aicpu", work=_computed, hardware="AI CPU operator, start-up and rate assumed")
def aicpu(m: State, routine: Task, at: Places) -> None:
    """Have the AI CPU compute a routine; the S unit waits for it.

    `at` holds the addresses in `gm` of what the routine reads, then of what it writes, each a
    tensor with its elements in order.
    """
    m.host(routine, at)
