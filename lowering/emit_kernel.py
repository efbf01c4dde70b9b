"""One kernel's tree as scalar code and instructions: counted loops, remainders, rotating copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.npu.operands import Name, Reg
from ge.dialects.npu.tree import (
    BufferOp,
    FlagOp,
    ForOp,
    KernelOp,
    MatrixOp,
    MoveOp,
    SetOp,
    TreeOp,
    VectorOp,
)
from ge.lowering.allocate_registers import allocate
from ge.lowering.delays import Delays
from ge.lowering.emit_statement import StatementWriter
from ge.lowering.frames import Frame
from ge.lowering.load_ahead import FLAG, HAND_OVER, Ahead, above
from ge.lowering.scalars import Line, Scalar, ScalarWriter, Virtual
from ge.lowering.scopes import stage_of


def emit(kernel: KernelOp, cores: int, ahead: Ahead = ()) -> list[Line]:
    """The kernel's code. Its arguments come in registers x0, x1, ... in order.

    The first tiles of the loads `ahead` are there already: see `emit_ahead`.
    """
    return _Emitter(kernel, cores, ahead).lines()


def emit_ahead(kernel: KernelOp, cores: int, ahead: Ahead) -> list[Line]:
    """Code that loads the first tiles of `ahead` and leaves the arguments where they are."""
    return _Emitter(kernel, cores, ahead).lines_ahead()


@dataclass(frozen=True)
class _Trips:
    """How often a loop runs on this core, and how its iterations count in tiles."""

    counts: list[Scalar]
    """Tiles of each dimension of the loop."""
    total: Scalar
    mine: Scalar


@dataclass(frozen=True)
class _Body:
    """A loop that is being written: where it stands, how often it runs, and what it does."""

    op: ForOp
    frame: Frame
    trips: _Trips
    children: list[Operation]
    stages: dict[Operation, int]

    @property
    def most(self) -> int:
        """The last stage."""
        return max(self.stages.values(), default=0)

    def in_stages(self) -> Iterator[tuple[int, Iterator[Operation]]]:
        """Each stage, and the children that run in it."""
        return groupby(self.children, self.stages.__getitem__)


class _Emitter:
    def __init__(self, kernel: KernelOp, cores: int, ahead: Ahead) -> None:
        self.kernel = kernel
        self.cores = cores
        self.ahead = ahead
        self.homes = {home for load in ahead for home in above(load)}
        """The loops around them."""
        self.out = ScalarWriter()
        args = kernel.body.block.args
        self.arguments: dict[SSAValue, Virtual] = {arg: self.out.register() for arg in args}
        self.statements = StatementWriter(self.out, kernel, self.arguments)
        self.bases: dict[ForOp, Virtual] = {}
        self.delays: dict[ForOp, Delays] = {}
        """Of the loops that flow."""
        self.core: Scalar = 0

    def lines(self) -> list[Line]:
        frame = self.start()
        counted = {load.parent_op() for load in self.ahead}
        for op in self.kernel.body.walk():
            inner = isinstance(op, ForOp) and op.parent_op() is not self.kernel
            if isinstance(op, ForOp) and inner and (_rotates(op) or op in counted or op.flows):
                self.bases[op] = self.out.variable(0)
        start = len(self.out.lines)
        for child in self.kernel.body.block.ops:
            self.child(child, frame)
            if isinstance(child, ForOp):
                self.run_out(child)
        for delays in self.delays.values():
            delays.set_up(start)
        return self.allocated(stay=False)

    def start(self) -> Frame:
        """The kernel as a whole, and the number of the core in a register."""
        assert self.kernel.dims is not None
        self.core = self.out.register()
        self.out.emit("core", self.core)
        return Frame(self.kernel, None, {d: (0, n) for d, n in self.kernel.dims.data}, 0)

    def allocated(self, *, stay: bool) -> list[Line]:
        self.out.emit("ret")
        registers = {v: Reg(n) for n, v in enumerate(self.arguments.values())}
        where = f"kernel '{self.kernel.sym_name.data}'"
        return allocate(self.out.lines, registers, where, stay=stay)

    def lines_ahead(self) -> list[Line]:
        frame = self.start()
        for pair in HAND_OVER:
            self.out.emit("set_flag", *pair, FLAG)
            self.out.emit("wait_flag", *pair, FLAG)
        self.first(self.kernel.body.block, frame)
        return self.allocated(stay=True)

    def first(self, block: Block, frame: Frame) -> None:
        """The loads ahead in the first iteration of every loop, if this core has one."""
        for op in block.ops:
            if isinstance(op, MoveOp) and op in self.ahead:
                self.statements.write(op, frame)
            elif isinstance(op, ForOp) and op in self.homes:
                trips = self.trips(op, frame)
                end = self.out.label()
                idle = op.cores is not None and (
                    not isinstance(trips.total, int) or trips.total < self.cores
                )
                if idle:
                    self.out.emit("bz", trips.mine, Name(end))
                with self.out.scope():
                    self.first(op.body.block, self.frame(op, frame, trips, 0))
                if idle:
                    self.out.place(end)

    def child(self, op: Operation, frame: Frame) -> None:
        if isinstance(op, FlagOp):
            self.flag(op, frame)
        elif isinstance(op, ForOp | MoveOp | MatrixOp | VectorOp):
            self.statement(op, frame)

    def statement(self, op: ForOp | MoveOp | MatrixOp | VectorOp, frame: Frame) -> None:
        """Write it, with a jump over it where tiles may go without it."""
        needed = self.needed(op, frame)
        if isinstance(needed, int):
            if needed:
                self.write(op, frame)
            return
        skip = self.out.label()
        self.out.emit("bz", needed, Name(skip))
        with self.out.scope():
            self.write(op, frame)
        self.out.place(skip)

    def write(self, op: ForOp | MoveOp | MatrixOp | VectorOp, frame: Frame) -> None:
        if isinstance(op, ForOp):
            self.loop(op, frame)
        else:
            self.statements.write(op, frame)

    def needed(self, op: TreeOp, frame: Frame) -> Scalar:
        """Zero where a tile goes without a statement."""
        if op in self.ahead:
            return frame.turn
        if op.last is not None:
            return self.out.compute("seq", frame.left, 0)
        if op.when is None:
            return 1
        (axis,) = op.when.data
        first, size = self.statements.lowest(axis, frame), self.statements.extent(axis, frame)
        return self.out.compute("slt", 1, self.out.add(first, size))

    def flag(self, op: FlagOp, frame: Frame) -> None:
        turn = self.out.mod(frame.turn, op.copies.value.data)
        number = self.out.add(turn, op.base.value.data)
        self.out.emit("set_flag" if isinstance(op, SetOp) else "wait_flag", *op.units, number)

    # Loops

    def loop(self, op: ForOp, frame: Frame) -> None:
        body = _Body(op, frame, self.trips(op, frame), *_in_stages(op))
        passes = self.out.add(body.trips.mine, 0 if op.flows else body.most)
        if passes == 1:
            self.iteration(body, 0)
        else:
            self.counted(body, passes)
        if op in self.bases:
            self.out.emit("add", self.bases[op], self.bases[op], body.trips.mine)

    def counted(self, body: _Body, passes: Scalar) -> None:
        counter = self.out.variable(0)
        end = self.out.label()
        self.out.emit("loop", passes, Name(end))
        with self.out.scope():
            self.iteration(body, counter)
            self.out.emit("add", counter, counter, 1)
        self.out.place(end)

    def iteration(self, body: _Body, counter: Scalar) -> None:
        """One pass over the body: what is of stage s works on the iteration s before."""
        if body.op.flows:
            self.flowing_iteration(body, counter)
            return
        for stage, group in body.in_stages():
            with self.out.scope():
                turn = self.out.sub(counter, stage)
                skip = self.guard(turn, body.trips.mine, stage, body.most)
                inner = self.frame(body.op, body.frame, body.trips, turn)
                for child in group:
                    self.child(child, inner)
            if skip:
                self.out.place(skip)

    def flowing_iteration(self, body: _Body, counter: Scalar) -> None:
        """The same where the iterations before may belong to an earlier run of the loop."""
        begun = len(self.out.lines)
        delays = self.delays.setdefault(body.op, Delays(self.out, body.most))
        with self.out.scope():
            now = self.frame(body.op, body.frame, body.trips, counter)
            delays.begin(now)
            for stage, group in body.in_stages():
                self.stage(group, delays.frame(stage) if stage else now, stage, now.turn)
            delays.move_on(begun)

    def stage(self, group: Iterable[Operation], frame: Frame, least: int, begun: Scalar) -> None:
        """Children of a loop, unless fewer iterations than `least` have begun before."""
        skip = self.out.label()
        if least:
            self.out.emit("bz", self.out.compute("sle", least, begun), Name(skip))
        with self.out.scope():
            for child in group:
                self.child(child, frame)
        if least:
            self.out.place(skip)

    def run_out(self, loop: ForOp) -> None:
        """What is left over of the loops below one that flow, outer ones first."""
        for op in loop.walk():
            if not isinstance(op, ForOp) or op not in self.delays:
                continue
            delays = self.delays[op]
            children, stages = _in_stages(op)
            for step in range(1, delays.most + 1):
                for stage, group in groupby(children, stages.__getitem__):
                    if (behind := stage - step + 1) > 0:
                        self.stage(group, delays.frame(behind), behind, self.bases[op])

    def guard(self, turn: Scalar, trips: Scalar, stage: int, most: int) -> str | None:
        """Jump over a stage that has nothing to do yet, or nothing any more."""
        if not most:
            return None
        inside: Scalar = 1
        if stage:
            inside = self.out.compute("sle", 0, turn)
        if stage < most:
            before_end = self.out.compute("slt", turn, trips)
            inside = before_end if inside == 1 else self.out.compute("and", inside, before_end)
        skip = self.out.label()
        self.out.emit("bz", inside, Name(skip))
        return skip

    def trips(self, op: ForOp, frame: Frame) -> _Trips:
        sizes = [frame.at[dim][1] for dim, _ in op.steps.data]
        if op.until is not None:
            (axis,) = op.until.data
            places = self.statements
            behind = self.out.add(places.lowest(axis, frame), places.extent(axis, frame))
            sizes = [self.out.min(sizes[0], behind), *sizes[1:]]
        steps = [step for _, step in op.steps.data]
        counts = [self.out.ceil_div(n, step) for n, step in zip(sizes, steps, strict=True)]
        total = self.out.product(counts)
        if op.cores is None:
            return _Trips(counts, total, total)
        ahead = self.out.sub(self.out.add(total, self.cores - 1), self.core)
        return _Trips(counts, total, self.out.div(ahead, self.cores))

    def frame(self, op: ForOp, outer: Frame, trips: _Trips, turn: Scalar) -> Frame:
        """Where the tiles of iteration `turn` lie, and how large they are."""
        out = self.out
        index = turn
        if op.cores is not None:
            first = out.mul(turn, self.cores)
            index = out.add(first, self.core)
            self.say_share(trips.total, first)
        if op.backwards is not None:
            index = out.sub(out.sub(trips.total, 1), index)
        at = dict(outer.at)
        steps = list(zip(op.steps.data, trips.counts, strict=True))
        for place, ((dim, step), count) in reversed(list(enumerate(steps))):
            if count == 1 and op.until is None:
                continue
            tile = index if place == 0 else out.mod(index, count)
            index = index if place == 0 else out.div(index, count)
            offset, size = outer.at[dim]
            start = out.mul(tile, step)
            even = isinstance(size, int) and size % step == 0
            rest = step if even else out.min(out.sub(size, start), step)
            at[dim] = (out.add(offset, start), rest)
        base: Scalar = self.bases.get(op, 0)
        left: Scalar = 0
        if any(isinstance(child, TreeOp) and child.last for child in op.body.block.ops):
            left = out.sub(out.sub(trips.mine, 1), turn)
        return Frame(op, outer, at, out.add(turn, base) if base else turn, left)

    def say_share(self, total: Scalar, first: Scalar) -> None:
        """The clock wants to know how many cores work in this wave: the last one has fewer."""
        left = self.out.sub(total, first)
        self.out.emit("share", self.out.min(left, self.cores))


def _in_stages(op: ForOp) -> tuple[list[Operation], dict[Operation, int]]:
    """What stands in a loop, stage by stage, and the stages."""
    children = [c for c in op.body.block.ops if not isinstance(c, BufferOp)]
    stages = {c: stage_of(c) for c in children}
    if op.oldest_first is None:
        return sorted(children, key=stages.__getitem__), stages
    # First what all else waits for, then what is furthest behind.
    return sorted(children, key=lambda c: (stages[c] > 0, -stages[c])), stages


def _rotates(op: ForOp) -> bool:
    """Whether anything in the loop's body depends on how often it has run before."""
    for child in op.body.block.ops:
        if isinstance(child, BufferOp | FlagOp) and child.copies and child.copies.value.data > 1:
            return True
    return False
