"""The function `main`: calls in order, and the branches and loops around them.

Every core runs all of it, and decides by the same bytes of device memory: all cores have met when
one is read, and meet again before it is written.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Region, SSAValue

from ge.dialects.attributes import IntsAttr
from ge.dialects.diagnostics import UnsupportedError
from ge.dialects.npu.operands import REGISTERS, Addr, Name, Reg, Sym
from ge.dialects.npu.ops import (
    INST_OPS,
    ChooseOp,
    FunctionOp,
    InvokeOp,
    LabelOp,
    ProgramOp,
    RepeatOp,
    SourceOp,
    TensorOp,
)
from ge.dialects.npu.places import Space
from ge.dialects.npu.tree_types import HbmType
from ge.lowering.allocate_registers import KEPT
from ge.lowering.between_calls import MEETING, Between, Flags
from ge.lowering.load_ahead import AHEAD
from ge.lowering.programs import Calls

SCRATCH = Reg(REGISTERS - KEPT)
"""A register for what is computed between two calls; those behind it count trips."""
LOOPS_MOST = KEPT - 1
FIRST = Reg(0)
"""A register that arguments are in: free until the first of them is put there."""


def main_function(
    program: ProgramOp,
    symbols: Mapping[TensorOp, Sym],
    used: Mapping[str, Flags],
    ahead: Container[str],
) -> FunctionOp:
    """The function that runs the program's calls; kernels of `ahead` have loads before them."""
    main = _Main(program, symbols, used, ahead)
    main.go_through(program.body.block)
    main.add("halt")
    region = Region(main.block)
    return FunctionOp.create(properties={"sym_name": StringAttr("main")}, regions=[region])


class _Main(Calls):
    def __init__(
        self,
        program: ProgramOp,
        symbols: Mapping[TensorOp, Sym],
        used: Mapping[str, Flags],
        ahead: Container[str],
    ) -> None:
        self.ahead = ahead
        self.native = bool(program.native.value.data)
        self.symbols = symbols
        self.between = Between(symbols, used)
        self.block = Block()
        self.met = True
        """Whether no kernel has begun since all cores met."""
        self.depth = 0
        """How many loops are around."""
        self.labels = 0

    def add(self, mnemonic: str, *args: int | Reg | Sym | Name | Addr | object) -> None:
        """One instruction more."""
        self.block.add_op(INST_OPS[mnemonic].of(*args))

    def label(self, label: str) -> None:
        """A name for this place."""
        self.block.add_op(LabelOp.create(properties={"label": StringAttr(label)}))

    def fresh(self) -> str:
        """What labels begin with that belong together."""
        self.labels += 1
        return f".L{self.labels - 1}"

    def call(self, call: InvokeOp) -> None:
        """A call, its loads ahead before all cores meet if the kernel before leaves flags free."""
        name = call.callee.root_reference.data
        early = name in self.ahead and self.between.last in self.between.used
        launch = INST_OPS["launch"].of
        first, then = self.between.before(call) if self.native else ([launch()], [])
        self.met = False
        self.block.add_ops([*first, *([] if early else then)])
        for number, value in enumerate(call.args):
            steps = _steps_of(call.steps, number, len(call.args))
            self.address(Reg(number), value, call.offsets.data[number], steps)
        if name in self.ahead:
            self.add("call", Name(name + AHEAD))
        self.block.add_ops(then if early else [])
        self.block.add_op(SourceOp.create(properties={"sources": call.sources}))
        self.add("call", Name(name))

    def address(self, into: Reg, value: SSAValue, offset: int, steps: Sequence[int]) -> None:
        """The address of an element, moved on by the trips of the loops around."""
        assert isinstance(value.owner, TensorOp)
        symbol, size = self.symbols[value.owner], _element_bytes(value)
        self.add("la", into, Sym(symbol.name, symbol.addend + offset * size))
        for depth, step in enumerate(steps):
            if step:
                self.add("li", SCRATCH, step * size)
                self.add("mul", SCRATCH, SCRATCH, _counter(depth))
                self.add("add", into, into, SCRATCH)

    def meet(self) -> None:
        """Let all cores meet, unless no kernel has begun since they did."""
        if not self.met:
            self.block.add_ops([INST_OPS[name].of() for (name,) in MEETING])
            self.between.restart()
            self.met = True

    def leave(self, otherwise: str, op: ChooseOp | RepeatOp, condition: SSAValue) -> None:
        """Go on at a label if a condition does not hold. All cores have met."""
        offset = op.offset.value.data
        self.address(FIRST, condition, offset, _steps_of(op.steps, 0, 1))
        self.add("lds", FIRST, Addr(Space.GM, 0, FIRST), _type(condition).dtype)
        self.add("bz", FIRST, Name(otherwise))
        self.between.reads(condition)

    def choice(self, op: ChooseOp) -> None:
        """One of two blocks.

        ```
        bz condition -> else;  then ...; jump end;  else: ...;  end:
        ```
        """
        stem = self.fresh()
        other, end = f"{stem}_else", f"{stem}_end"
        self.meet()
        self.leave(other, op, op.condition)
        waiting = list(self.between.read)
        self.go_through(op.then.block)
        self.meet()
        if op.otherwise.block.first_op is not None:
            self.add("jump", Name(end))
        self.label(other)
        self.between.restart(waiting)
        self.go_through(op.otherwise.block)
        self.meet()
        if op.otherwise.block.first_op is not None:
            self.label(end)
        self.between.restart(waiting)

    def loop(self, op: RepeatOp) -> None:
        """A block again and again.

        ```
        loop trips, end;  ...; meet;  end:
        top: bz condition -> end;  ...; meet;  bnz trip < trips -> top;  end:
        ```
        """
        if self.depth == LOOPS_MOST:
            raise UnsupportedError(
                f"at most {LOOPS_MOST} loops may lie inside each other, got more"
            )
        stem, trips, counter = self.fresh(), op.trips.value.data, _counter(self.depth)
        top, end = f"{stem}_top", f"{stem}_end"
        self.meet()
        self.add("li", counter, 0)
        if op.condition is None:
            self.add("loop", trips, Name(end))
        else:
            self.label(top)
            self.leave(end, op, op.condition)
        waiting = list(self.between.read)
        self.depth += 1
        self.go_through(op.body.block)
        self.depth -= 1
        self.add("add", counter, counter, 1)
        self.meet()
        if op.condition is not None and trips:
            self.add("slt", FIRST, counter, trips)
            self.add("bnz", FIRST, Name(top))
        elif op.condition is not None:
            self.add("jump", Name(top))
        self.label(end)
        self.between.restart(waiting)


def _counter(depth: int) -> Reg:
    """The register that counts the trips of a loop that `depth` others are around."""
    return Reg(SCRATCH.number + 1 + depth)


def _steps_of(steps: IntsAttr | None, number: int, count: int) -> Sequence[int]:
    """The steps of one operand of `count`, those of the outermost loop first."""
    return () if steps is None else steps.data[number::count]


def _type(value: SSAValue) -> HbmType:
    assert isinstance(value.type, HbmType)
    return value.type


def _element_bytes(value: SSAValue) -> int:
    return _type(value).dtype.bytes
