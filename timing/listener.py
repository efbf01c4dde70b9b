"""What follows one core of a walk: the numbers, the hazard checker, the clock."""

from __future__ import annotations

from typing import Any

from ge.dialects.npu.isa.sync import FLAGS
from ge.dialects.npu.places import Unit
from ge.timing.steps import NUMBER, QUEUES, Registers, Step

Flag = int
"""Source, target and number of a flag, packed by `pack_flag`."""


def pack_flag(source: Unit, target: Unit, flag: int) -> Flag:
    """One number for a flag, that is quick to look up."""
    return (NUMBER[source] * len(QUEUES) + NUMBER[target]) * FLAGS + flag


def unpack_flag(flag: Flag) -> tuple[Unit, Unit, int]:
    """Source, target and number of a flag."""
    units, number = divmod(flag, FLAGS)
    source, target = divmod(units, len(QUEUES))
    return QUEUES[source], QUEUES[target], number


def flag_name(flag: Flag) -> str:
    """A flag for messages: `mte2 -> v 0`."""
    source, target, number = unpack_flag(flag)
    return f"{source} -> {target} {number}"


class Listener:
    """Hears what a core does. Each unit's events come in its queue's order.

    `issue` comes in program order; what it returns is handed to the event that follows when the
    instruction's turn in its queue has come. A listener overrides what it cares about.
    """

    def issue(self, step: Step, registers: Registers, queue: int, waiting: int) -> Any:
        """The scalar unit hands `step` to a queue in which `waiting` others wait for a flag.

        `registers` keep their values until the instruction's turn.
        """

    def hand_over(self, queue: int, waiting: int = 0) -> Any:
        """`issue` of a flag, for the only listener of a core."""

    def work(self, step: Step, ticket: Any) -> None:
        """A unit executes an instruction."""

    def scalar(self, step: Step, registers: Registers) -> None:
        """The scalar unit is about to execute an instruction that it has to wait for."""

    def signal(self, step: Step, queue: int, flag: Flag, ticket: Any) -> None:
        """A queue sets a flag."""

    def wait(self, step: Step, queue: int, flag: Flag, ticket: Any) -> None:
        """A queue has found a flag set, and clears it."""

    def drain(self) -> None:
        """The scalar unit waits for all units."""

    def arrive(self, number: int) -> None:
        """The core promises what it issued so far, for the `number`th time."""

    def arrive_idle(self, number: int) -> None:
        """`arrive` and every `reach` in one, for the only listener of a core."""

    def reach(self, queue: int, number: int) -> None:
        """A queue has executed all that belongs to arrival `number`."""

    def meet(self, number: int, launched: bool) -> None:
        """All cores have arrived `number` times; `launched`: the host starts what follows."""

    def share(self, cores: int) -> None:
        """From here on `cores` cores share the memory's bandwidth."""

    def enter(self, kernel: int, sources: tuple[str, ...]) -> None:
        """The code of another kernel begins, for these nodes of the model; -1 for code of none."""

    def halt(self) -> None:
        """The core's program has ended."""
