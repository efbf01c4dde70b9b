"""Runs of a program after its first ones: the work of the units as it was recorded, in its order.

What a program does depends on its inputs only where it loads a scalar. A recording keeps the work
of all cores with the tiles it touches, and does it again on new inputs: the bodies of the same
instructions on the same memory, without the scalar code between them. Registers that come from a
load are followed: what is computed from them is computed again, and a tile whose place depends on
one is found and checked again. A program that branches on one is not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from ctypes import c_uint8
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ge.dialects.npu.instr import Inst
from ge.dialects.npu.isa import move, scalar, vector
from ge.dialects.npu.operands import Activation, Addr, Reg, Value
from ge.runtime.functional import Numbers
from ge.timing.steps import SCALAR, Code, Entry, Registers, Step

Array = NDArray[Any]
Action = Callable[[], Any]

MOST_ACTIONS = 50_000
"""A recording of more takes more memory than it is worth."""

_PLAIN = frozenset((scalar.li, scalar.la, scalar.core, scalar.cores, *scalar.ARITHMETIC))
_LOADS = frozenset((move.ld__l1, move.ld__ub))
"""Moves whose body asks for where it writes first."""
_STORES = frozenset(
    (move.ld__l0a, move.ld__l0b, move.ld__l0c, move.st__gm, move.st__l1, move.fix__ub)
) | {move.fix__gm, move.fix__l1}
_TOP, _WRAP = 1 << 63, 1 << 64


class Recording:
    """What is done again, and the memory that it is done on."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.actions: list[Action] = []
        self.tiles: list[Array] = []
        """Every tile of every recorded instruction, in the order in which bodies ask for them."""
        self.executed = 0
        self.sound = True
        self._at = -1

    def run(self, inputs: Mapping[str, Array]) -> None:
        """Do everything again on inputs by symbol; the device then holds the outputs."""
        self.device.write(inputs)
        self._at = -1
        for action in self.actions:
            action()

    def read(self, *_: Any) -> Array:
        """The next tile, whatever a body says of it: it says what it said when it was recorded."""
        self._at += 1
        return self.tiles[self._at]

    out = read


class Followed:
    """The registers of one core whose values come from loads."""

    def __init__(self, core: Any) -> None:
        self.core = core
        self.read = core.read
        self.out = core.out
        self.host = core.host
        self.values: dict[int, int] = {}

    def set(self, register: Reg, value: int) -> None:
        """Called by the body of a scalar instruction that is done again."""
        if not -_TOP <= value < _TOP:
            value = (value + _TOP) % _WRAP - _TOP
        self.values[register[0]] = value

    def registers(self, before: Registers, which: tuple[int, ...]) -> Registers:
        """The registers as they were, but for those that are followed."""
        now = before.copy()
        for number in which:
            now[number] = self.values[number]
        return now


class Recorder(Numbers):
    """Executes the work of one core's units, and keeps it."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self._recording = recording
        self._followed: Followed | None = None
        self._known: set[int] = set()
        """Registers that are followed at this place of the program."""

    def follow(self, core: Any, code: Code) -> None:
        """Listen to a core: its own entries for scalar code, its tiles kept."""
        self.core = core
        self._followed = Followed(core)
        core.entries = [self._entry(code, i, inst) for i, inst in enumerate(code.program.code)]
        core.entries.append(code.entries[-1])

    def _entry(self, code: Code, index: int, inst: Inst) -> Entry:
        """What runs an instruction; what concerns followed registers is kept on the way."""
        sources = _sources(inst)
        works = inst.instr.work is not None and inst.instr is not scalar.lds

        def entry(core: Any, registers: Registers) -> None:
            step = code.step(index)
            followed = tuple(n for n in sources if n in self._known)
            if inst.instr is scalar.lds or inst.instr in _PLAIN:
                self._scalar(step, registers, followed)
            elif works and step.queue == SCALAR:
                self._recording.actions.append(self._again(step, registers, followed))
            elif not works and self._known.intersection(sources):
                self._recording.sound = False
            code.entry(step)(core, registers)

        return entry

    def _scalar(self, step: Step, registers: Registers, sources: tuple[int, ...]) -> None:
        target = step.inst.args[0].number
        if step.inst.instr is not scalar.lds and not sources:
            self._known.discard(target)
            return
        followed, before = self._followed, registers.copy()
        assert followed is not None
        self._known.add(target)
        if not sources:
            _, at, dtype = step.arguments(before)
            tile = followed.read(at, (1,), (1,), dtype)
            self._recording.actions.append(partial(_load, followed.values, target, tile))
            return
        self._recording.actions.append(self._again(step, before, sources))

    def _again(self, step: Step, registers: Registers, sources: tuple[int, ...]) -> Action:
        """What does an instruction again with the registers that are followed as they are then."""
        followed, before = self._followed, registers.copy()
        assert followed is not None

        def again() -> None:
            step.run(followed, followed.registers(before, sources))

        return again

    def issue(self, step: Step, registers: Registers, queue: int, waiting: int) -> Any:
        before = registers.copy()
        sources = tuple(n for n in _sources(step.inst) if n in self._known)
        if not sources:
            return before, None
        followed, held = self._followed, before.copy()
        assert followed is not None

        def note() -> None:
            held[:] = followed.registers(before, sources)

        self._recording.actions.append(note)
        return before, held

    def work(self, step: Step, ticket: Any) -> None:
        before, held = ticket
        recording = self._recording
        if held is not None:
            recording.actions.append(partial(step.run, self._followed, held))
            super().work(step, before)
            return
        core = self.core
        tiles: list[Array] = []
        core.read, core.out = _kept(core.read, tiles), _kept(core.out, tiles)
        try:
            super().work(step, before)
        finally:
            assert self._followed is not None
            core.read, core.out = self._followed.read, self._followed.out
        arguments = step.arguments(before)
        action = _copy(step.inst, arguments, tiles) or _elementwise(step.inst, arguments, tiles)
        if action is None:
            action = partial(step.inst.instr.execute, recording, *arguments)
            recording.tiles += tiles
        recording.actions.append(action)


def _load(values: dict[int, int], register: int, tile: Array) -> None:
    values[register] = int(tile[0])


def _copy(inst: Inst, arguments: tuple[Value, ...], tiles: list[Array]) -> Action | None:
    """A move that pads and changes nothing, without its body: most of a program are such."""
    loads = inst.instr in _LOADS
    if not loads and inst.instr not in _STORES:
        return None
    if len(tiles) != 2 or tiles[0].shape != tiles[1].shape or Activation.RELU in arguments:
        return None
    target, source = tiles if loads else tiles[::-1]
    return partial(target.__setitem__, ..., source)


def _elementwise(inst: Inst, arguments: tuple[Value, ...], tiles: list[Array]) -> Action | None:
    """An elementwise instruction without its body."""
    ufunc = vector.ufunc_of(inst.instr)
    if ufunc is None:
        return None
    numbers: tuple[Any, ...] = ()
    if inst.instr in vector.SCALAR:
        named: Any = dict(zip(inst.instr.operands, arguments, strict=True))
        numbers = (vector.number_as(named["s"], named["dt"]),)
    return partial(ufunc, *tiles[:-1], *numbers, out=tiles[-1])


def _kept(find: Callable[..., Array], tiles: list[Array]) -> Callable[..., Array]:
    def found(*what: Any) -> Array:
        tile = find(*what)
        tiles.append(tile)
        return tile

    return found


def _sources(inst: Inst) -> tuple[int, ...]:
    """The registers that an instruction reads."""
    args = inst.args[1:] if inst.instr in _PLAIN or inst.instr is scalar.lds else inst.args
    return tuple(dict.fromkeys(n for arg in args for n in _registers(arg)))


def _registers(value: Value) -> tuple[int, ...]:
    if isinstance(value, Reg):
        return (value.number,)
    if isinstance(value, Addr):
        return () if value.base is None else (value.base.number,)
    if type(value) is tuple:
        return tuple(v.number for v in value if isinstance(v, Reg))
    return ()


def own_copies(inputs: Mapping[str, Array], but: Container[str] = ()) -> dict[str, Array]:
    """Inputs that a recording may write over; those of `but` lie where they do.

    A recording does not keep their memory: it is only used where that is given again.
    """
    return {s: _unowned(a) if s in but else np.array(a, order="C") for s, a in inputs.items()}


def _unowned(array: Array) -> Array:
    """An array on the same memory that does not keep it."""
    whole = (c_uint8 * array.nbytes).from_address(array.ctypes.data)
    memory: Array = np.ctypeslib.as_array(whole)
    return memory.view(array.dtype).reshape(array.shape)
