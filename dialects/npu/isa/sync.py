"""Order between units and between cores."""

from __future__ import annotations

from ge.dialects.npu.instr import instr
from ge.dialects.npu.operands import Queue, Src
from ge.dialects.npu.state import State

FLAGS = 8
"""Flags of one ordered pair of units."""


@instr(0x30, "source", hardware="set_flag, 1 cycle to issue")
def set_flag(m: State, source: Queue, target: Queue, flag: Src) -> None:
    """In `source`'s queue: raise flag `flag` (0..7) for `target` once all before it is visible."""
    m.signal(source, target, flag)


@instr(0x31, "target", hardware="wait_flag, 1 cycle to issue")
def wait_flag(m: State, source: Queue, target: Queue, flag: Src) -> None:
    """In `target`'s queue: wait for flag `flag` (0..7) of `source` and clear it."""
    m.wait(source, target, flag)


@instr(0x32, hardware="pipe_barrier(PIPE_ALL)")
def barrier(m: State) -> None:
    """Wait until all units of this core are idle and their results visible."""
    m.drain()


@instr(0x33, hardware="cross-core set_flag")
def sync__arrive(m: State) -> None:
    """Tell the other cores that this one has finished what it issued so far."""
    m.arrive()


@instr(0x34, hardware="cross-core wait_flag")
def sync__wait(m: State) -> None:
    """Wait until every core has arrived as often as this one."""
    m.meet()


@instr(0x35, hardware="kernel launch by the host")
def launch(m: State) -> None:
    """End one launch of the host and begin the next: all cores meet, then the host dispatches."""
    m.launch()
