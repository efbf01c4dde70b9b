"""The numbers: runs instruction bodies on numpy arrays when their turn has come."""

from __future__ import annotations

from typing import Any

from ge.timing.listener import Listener
from ge.timing.steps import Registers, Step


class Numbers(Listener):
    """Executes the work of one core's units.

    Bodies run one after the other, in an order that flags allow. Any such order gives the same
    numbers unless the program has a hazard, which is the hazard checker's to find.
    """

    def __init__(self) -> None:
        self.core: Any = None

    def issue(self, step: Step, registers: Registers, queue: int, waiting: int) -> Registers:
        return registers

    def work(self, step: Step, ticket: Registers) -> None:
        try:
            step.run(self.core, ticket)
        except (ValueError, TypeError, IndexError, ArithmeticError) as e:
            raise self.core.fault(f"the instruction cannot be executed: {e}", step.index) from e
