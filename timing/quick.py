"""The walk's quick entries: scalar results without operands to bind, one listener without lists.

What the scalar unit does to itself is most of a program. Here it is one function an instruction,
made when the instruction is first reached. Where a core has a single listener, flags and work go
straight to it unless their queue waits for something.
"""

from __future__ import annotations

from collections.abc import Container
from functools import cache, lru_cache
from typing import Any

from ge.dialects.npu.instr import Inst
from ge.dialects.npu.isa import scalar, sync
from ge.dialects.npu.isa.sync import FLAGS
from ge.dialects.npu.operands import Reg, Value
from ge.timing.formulas import instruction
from ge.timing.listener import pack_flag
from ge.timing.steps import SCALAR, Code, Entry, Registers, Step

_PLAIN = frozenset((*scalar.CONSTANTS, *scalar.ARITHMETIC))


class QuickCode:
    """The entries of a program's instructions, for cores with one listener or with any number."""

    def __init__(self, code: Code, alone: bool, wanted: Container[int] | None = None) -> None:
        """Scalar results other than the `wanted` ones are left out; None wants all of them."""
        self._code = code
        self._alone = alone
        self._wanted = wanted
        self.entries: list[Entry] = [self._first_time] * len(code.program.code)
        self.entries.append(lambda core, _: core.ran_past())
        self._targets = frozenset(code.program.labels.values())

    def _first_time(self, core: Any, registers: Registers) -> None:
        index = core.place - 1
        inst = self._code.program.code[index]
        make = self._block if inst.instr in _PLAIN else self._entry
        entry = self.entries[index] = make(index, inst)
        entry(core, registers)

    def _block(self, index: int, inst: Inst) -> Entry:
        """Scalar instructions from one on that are always run one after the other."""
        code, at, parts = self._code.program.code, index, []
        wanted, targets = self._wanted, self._targets
        while at == index or (code[at].instr in _PLAIN and at not in targets):
            if wanted is None or at in wanted:
                parts.append(self._plain(code[at]))
            at += 1
            if at == len(code):
                break
        more = at - index - 1
        if not more and parts:
            return parts[0]

        def entry(core: Any, registers: Registers) -> None:
            for part in parts:
                part(core, registers)
            core.place += more
            core.count += more

        return entry

    def _plain(self, inst: Inst) -> Entry:
        row = inst.instr
        if row in scalar.CONSTANTS:
            return _scalar(row.mnemonic, inst.args[0], self._code.operand(inst, 1))
        return _scalar(row.mnemonic, *inst.args)

    def _entry(self, index: int, inst: Inst) -> Entry:
        row = inst.instr
        if not self._alone:
            return self._code.entry(self._code.step(index))
        if row in (sync.set_flag, sync.wait_flag):
            source, target, flag = inst.args
            queue = self._code.queue_of[source if row is sync.set_flag else target]
            if queue != SCALAR:
                make = _set if row is sync.set_flag else _wait
                return make(pack_flag(source, target, 0), flag, queue)
        if row is sync.sync__arrive:
            return _arrive
        step = self._code.step(index)
        if row.work is not None and step.queue != SCALAR:
            return _work(step)
        return self._code.entry(step)


@lru_cache(1 << 12)
def _scalar(mnemonic: str, *args: Value) -> Entry:
    """What executes an instruction; programs use a few of them again and again."""
    target, *numbers = [v.number if type(v) is Reg else v for v in args]
    held = [type(v) is Reg for v in args[1:]]
    return instruction(mnemonic, *held)(target, *numbers)


def _arrive(core: Any, registers: Registers) -> None:
    if any(core.pending):
        core.arrive()
        return
    core.arrived += 1
    core.only.arrive_idle(core.arrived)


def _work(step: Step) -> Entry:
    queue, index = step.queue, step.index

    def entry(core: Any, registers: Registers) -> None:
        if core.pending[queue]:
            core.issue(step, registers)
            return
        if not core.calls:
            core.follow_kernel(index)
        listener = core.only
        listener.work(step, listener.issue(step, registers, queue, 0))

    return entry


@cache
def _set(first: int, number: Value, queue: int) -> Entry:
    register = number.number if isinstance(number, Reg) else -1
    fixed = number if register < 0 else 0

    def entry(core: Any, registers: Registers) -> None:
        number = registers[register] if register >= 0 else fixed
        flag = first + number
        raised = core.raised
        if core.pending[queue] or flag in raised or flag in core.blocked or not 0 <= number < FLAGS:
            core.code.step(core.place - 1).run(core, registers)
            return
        raised.add(flag)
        listener = core.only
        listener.signal(None, queue, flag, listener.hand_over(queue))

    return entry


@cache
def _wait(first: int, number: Value, queue: int) -> Entry:
    register = number.number if isinstance(number, Reg) else -1
    fixed = number if register < 0 else 0

    def entry(core: Any, registers: Registers) -> None:
        number = registers[register] if register >= 0 else fixed
        flag = first + number
        raised = core.raised
        if core.pending[queue] or flag not in raised or not 0 <= number < FLAGS:
            core.code.step(core.place - 1).run(core, registers)
            return
        raised.remove(flag)
        listener = core.only
        listener.wait(None, queue, flag, listener.hand_over(queue))

    return entry
