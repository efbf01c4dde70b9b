"""One statement of a kernel's tree as one instruction over scalar registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xdsl.ir import SSAValue

from ge.dialects.dtypes import DType
from ge.dialects.npu.axes import Axis, dims_of
from ge.dialects.npu.geometry import REPEAT_BYTES
from ge.dialects.npu.instr import Instr
from ge.dialects.npu.isa import INSTRS
from ge.dialects.npu.operands import Addr, AtKind, DimsKind, Name, RealKind, WordKind
from ge.dialects.npu.places import Space
from ge.dialects.npu.tree import BufferOp, KernelOp, MatrixOp, MoveOp, VectorOp
from ge.dialects.npu.tree_types import BufferType, HbmType
from ge.lowering.accesses import FOLDS, REDUCE_RATE, instr_of
from ge.lowering.frames import Frame
from ge.lowering.scalars import Scalar, ScalarWriter, Virtual
from ge.lowering.scopes import Scope, bytes_of, root, scopes


class View(NamedTuple):
    """A tile: where it begins, and how far apart its elements are along each dimension."""

    at: Addr
    strides: dict[str, Scalar]
    dtype: DType


class StatementWriter:
    """Writes statements; addresses and sizes come from the frames of the loops above."""

    def __init__(
        self, out: ScalarWriter, kernel: KernelOp, arguments: dict[SSAValue, Virtual]
    ) -> None:
        self.out = out
        self.arguments = arguments
        assert kernel.dims is not None
        self.extents = dict(kernel.dims.data)
        self.order = list(self.extents)
        self.boxes = _boxes(root(kernel))
        self.bytes = {buffer: bytes_of(buffer, box) for buffer, box in self.boxes.items()}

    def write(self, op: MoveOp | MatrixOp | VectorOp, frame: Frame) -> None:
        if isinstance(op, MatrixOp):
            self.matrix(op, frame)
        elif isinstance(op, VectorOp):
            self.vector(op, frame)
        elif not isinstance(op.source.type, BufferType):
            self.load(op, frame)
        else:
            self.move(op, frame)

    # Places

    def slot(self, buffer: BufferOp, frame: Frame) -> Addr:
        """The copy that this iteration of the buffer's loop uses."""
        space = buffer.result.type.space
        address = buffer.address.value.data if buffer.address else 0
        turn = self.out.mod(frame.of(buffer.parent_op()).turn, buffer.copy_count)
        return self.plus(Addr(space, address), self.out.mul(turn, self.bytes[buffer]))

    def plus(self, at: Addr, offset: Scalar) -> Addr:
        """The address `offset` bytes further on."""
        if isinstance(offset, int):
            return Addr(at.space, at.offset + offset, at.base)
        base = offset if at.base is None else self.out.add(_virtual(at.base), offset)
        return Addr(at.space, at.offset, base)  # type: ignore[arg-type]  # virtual until allocated

    def lowest(self, axis: Axis, frame: Frame) -> Scalar:
        """The first place of an axis that the current tiles reach."""
        at: Scalar = axis.offset
        for dim, step in axis.terms:
            offset, size = frame.at[dim]
            at = self.out.add(at, self.out.mul(offset, step))
            if step < 0:
                at = self.out.add(at, self.out.mul(self.out.sub(size, 1), step))
        return at

    def extent(self, axis: Axis, frame: Frame) -> Scalar:
        """How many places of an axis the current tiles span."""
        if len(axis.terms) == 1 and abs(axis.terms[0][1]) == 1:
            return frame.at[axis.terms[0][0]][1]
        span: Scalar = 1
        for dim, step in axis.terms:
            steps = self.out.sub(frame.at[dim][1], 1)
            span = self.out.add(span, self.out.mul(steps, abs(step)))
        return span

    def view(self, value: SSAValue, frame: Frame) -> View:
        """What the current tiles select of a buffer's box."""
        buffer = value.owner
        assert isinstance(buffer, BufferOp)
        home = frame.of(buffer.parent_op())
        dtype = buffer.result.type.dtype
        strides: dict[str, Scalar] = {}
        offset: Scalar = 0
        step: Scalar = 1
        for axis in reversed(buffer.map.data):
            ahead = self.out.sub(self.lowest(axis, frame), self.lowest(axis, home))
            offset = self.out.add(offset, self.out.mul(ahead, step))
            for dim, n in axis.terms:
                strides[dim] = self.out.add(strides.get(dim, 0), self.out.mul(step, n))
            step = self.out.mul(step, self.pitch(buffer, axis, home))
        at = self.plus(self.slot(buffer, frame), self.out.mul(offset, dtype.bytes))
        return View(at, strides, dtype)

    def pitch(self, buffer: BufferOp, axis: Axis, home: Frame) -> Scalar:
        """How many places of an axis the buffer has room for, as far as the current box goes."""
        if buffer.spread is None:
            return self.extent(axis, home)
        return axis.extent(self.boxes[buffer])

    def dims(self, used: set[str], frame: Frame, last: Sequence[str] = ()) -> list[str]:
        """The dimensions more than one place wide, in the kernel's order, `last` behind."""
        order = [d for d in self.order if d not in last] + list(last)
        return [d for d in order if d in used and (frame.at[d][1] != 1 or d in last)]

    # Statements

    def load(self, op: MoveOp, frame: Frame) -> None:
        """A box of a tensor; what lies outside the tensor is filled."""
        tensor, buffer = op.source.type, op.target.owner
        assert isinstance(tensor, HbmType)
        assert isinstance(buffer, BufferOp)
        home = frame.of(buffer.parent_op())
        sizes, lows, highs = [], [], []
        at = Addr(Space.GM, 0, self.arguments[op.source])  # type: ignore[arg-type]
        offset: Scalar = 0
        for axis, n, stride in zip(buffer.map.data, tensor.shape, tensor.strides, strict=True):
            first, size = self.lowest(axis, home), self.extent(axis, home)
            low, high = self.outside(axis, n, first, size)
            inside = self.out.max(first, 0) if low != 0 else first
            offset = self.out.add(offset, self.out.mul(inside, stride))
            sizes.append(size)
            lows.append(low)
            highs.append(high)
        offset = self.out.add(offset, self.indexed(op, home))
        named: dict[str, Any] = {
            "dst": self.slot(buffer, frame),
            "src": self.plus(at, self.out.mul(offset, tensor.dtype.bytes)),
            "size": tuple(sizes) or (1,),
            "strides": tensor.strides or (1,),
            "dt": tensor.dtype,
        }
        if op.miss is not None:
            named["miss"] = op.miss.value.data
        if any(x != 0 for x in (*lows, *highs)):
            named |= {"lo": tuple(lows), "hi": tuple(highs)}
            if op.pad is not None:
                named["pad"] = op.pad.value.data
        self.put(instr_of(op), named)

    def indexed(self, op: MoveOp, home: Frame) -> Scalar:
        """How much further on the tile lies that an element of another tensor asks for."""
        if op.index is None:
            return 0
        assert op.places is not None
        assert op.extent is not None
        assert op.pitch is not None
        tensor = op.index.type
        assert isinstance(tensor, HbmType)
        place: Scalar = 0
        for axis, stride in zip(op.places.data, tensor.strides, strict=True):
            place = self.out.add(place, self.out.mul(self.lowest(axis, home), stride))
        at = Addr(Space.GM, 0, self.arguments[op.index])  # type: ignore[arg-type]
        number = self.out.register()
        source = self.plus(at, self.out.mul(place, tensor.dtype.bytes))
        self.out.emit("lds", number, source, tensor.dtype)
        below = self.out.compute("slt", number, 0)
        front = self.out.add(number, self.out.mul(below, op.extent.value.data))
        return self.out.mul(front, op.pitch.value.data)

    def outside(self, axis: Axis, n: int, first: Scalar, size: Scalar) -> tuple[Scalar, Scalar]:
        """How many places of a box lie before and behind the tensor; 0 where none ever does."""
        low: Scalar = 0
        high: Scalar = 0
        whole = {d: self.extents[d] for d, _ in axis.terms}
        if axis.offset < 0:
            low = self.out.max(self.out.sub(0, first), 0)
        if axis.offset + axis.extent(whole) > n:
            end = self.out.add(first, size)
            high = self.out.max(self.out.sub(end, n), 0)
        return low, high

    def move(self, op: MoveOp, frame: Frame) -> None:
        source = self.view(op.source, frame)
        if isinstance(op.target.type, BufferType):
            target = self.view(op.target, frame)
            buffer = op.target.owner
            assert isinstance(buffer, BufferOp)
            used = list(dims_of(buffer.map.data))
        else:
            target = self.destination(op, frame)
            used = list(target.strides)
        dims = [d for d in used if frame.at[d][1] != 1]
        row = instr_of(op)
        named: dict[str, Any] = {
            "dst": target.at,
            "src": source.at,
            "size": tuple(frame.at[d][1] for d in dims) or (1,),
            "ds": tuple(target.strides[d] for d in dims) or (1,),
            "ss": tuple(source.strides.get(d, 0) for d in dims) or (1,),
            "strides": tuple(source.strides.get(d, 0) for d in dims) or (1,),
            "acc": source.dtype,
            "dt": target.dtype,
        }
        if op.miss is not None:
            named["miss"] = op.miss.value.data
        if op.words is not None:
            named["act"] = Name(op.words.data[0].data)
        self.put(row, {k: v for k, v in named.items() if k in row.operands})

    def destination(self, op: MoveOp, frame: Frame) -> View:
        """What the current tiles select of a tensor that is written."""
        tensor = op.target.type
        assert isinstance(tensor, HbmType)
        assert op.map is not None
        offset: Scalar = 0
        strides: dict[str, Scalar] = {}
        for axis, stride in zip(op.map.data, tensor.strides, strict=True):
            offset = self.out.add(offset, self.out.mul(self.lowest(axis, frame), stride))
            for dim, n in axis.terms:
                strides[dim] = self.out.add(strides.get(dim, 0), n * stride)
        offset = self.out.add(offset, self.indexed(op, frame))
        at = Addr(Space.GM, 0, self.arguments[op.target])  # type: ignore[arg-type]
        return View(self.plus(at, self.out.mul(offset, tensor.dtype.bytes)), strides, tensor.dtype)

    def matrix(self, op: MatrixOp, frame: Frame) -> None:
        acc, a, b = (v.owner for v in (op.acc, op.a, op.b))
        assert isinstance(acc, BufferOp)
        assert isinstance(a, BufferOp)
        assert isinstance(b, BufferOp)
        over = {word.data for word in op.over}
        begun: Scalar = 0
        home = frame.of(acc.parent_op())
        for dim in sorted(over):
            ahead = self.out.sub(frame.at[dim][0], home.at[dim][0])
            begun = self.out.add(begun, ahead)

        def count(buffer: BufferOp, summed: bool) -> Scalar:
            dims = [d for d in dims_of(buffer.map.data) if (d in over) == summed]
            return self.out.product([frame.at[d][1] for d in dims])

        self.put(
            instr_of(op),
            {
                "c": self.view(op.acc, frame).at,
                "a": self.view(op.a, frame).at,
                "b": self.view(op.b, frame).at,
                "m": count(a, summed=False),
                "n": count(b, summed=False),
                "k": count(a, summed=True),
                "init": self.out.compute("seq", begun, 0),
                "dt": a.result.type.dtype,
            },
        )

    def vector(self, op: VectorOp, frame: Frame) -> None:
        row = instr_of(op)
        out = self.view(op.out, frame)
        ins = [self.view(v, frame) for v in op.ins]
        used = set(out.strides).union(*(v.strides for v in ins))
        summed: list[str] = []
        if row.rate == REDUCE_RATE:
            summed = [d for d in self.order if d in used and d not in out.strides]
        dims = self.dims(used, frame, summed)
        sizes = [frame.at[d][1] for d in dims]
        if row.mnemonic in FOLDS and len(ins) > 1:
            ins = [self.folded(FOLDS[row.mnemonic], ins, dims, sizes)]
        size = tuple(sizes) or (1,)
        lists = [tuple(v.strides.get(d, 0) for d in dims) or (1,) for v in ins]
        named: dict[str, Any] = {"size": size}
        places, strides = iter([v.at for v in ins]), iter(lists)
        numbers = iter(op.numbers.data if op.numbers else ())
        words = iter(op.words.data if op.words else ())
        for name, kind in row.operands.items():
            if name in ("dst", "ds"):
                named[name] = out.at if name == "dst" else _or_one(out, dims)
            elif isinstance(kind, AtKind):
                named[name] = next(places)
            elif isinstance(kind, DimsKind) and name != "size":
                named[name] = next(strides)
            elif isinstance(kind, RealKind):
                named[name] = next(numbers).value.data
            elif isinstance(kind, WordKind):
                named[name] = _word(name, out, ins) or Name(next(words).data)
        self.put(row, named)

    def folded(self, instr: str, views: list[View], dims: list[str], sizes: list[Scalar]) -> View:
        """Rows as long as one repeat: the second half of each on its first, again and again.

        That is quicker than a reduction of all of a row. `sizes` become those of what is left.
        """
        source, scratch = views
        width = sizes[-1]
        repeat = REPEAT_BYTES // source.dtype.bytes
        if not isinstance(width, int) or source.strides.get(dims[-1]) != 1:
            return source
        while width >= 2 * repeat:
            half = width // repeat // 2 * repeat
            left = source
            for begin in range(half, width, half):
                part = [*sizes[:-1], min(half, width - begin)]
                self.fold(instr, scratch, left, self.ahead(source, begin), dims, part)
                left = scratch
            source, width = scratch, half
        sizes[-1] = width
        return source

    def ahead(self, view: View, elements: int) -> View:
        """A view from `elements` further on."""
        return view._replace(at=self.plus(view.at, elements * view.dtype.bytes))

    def fold(
        self, instr: str, out: View, a: View, b: View, dims: list[str], sizes: list[Scalar]
    ) -> None:
        """One elementwise instruction of two tiles."""
        named: dict[str, Any] = {"size": tuple(sizes), "dt": out.dtype}
        for place, strides, view in (("dst", "ds", out), ("a", "sa", a), ("b", "sb", b)):
            named[place] = view.at
            named[strides] = tuple(view.strides.get(d, 0) for d in dims)
        self.put(INSTRS[instr], named)

    def put(self, row: Instr, named: dict[str, Any]) -> None:
        self.out.emit(
            row.mnemonic,
            *(named[n] if n in named else row.default(n, named) for n in row.operands),
        )


def _word(name: str, out: View, ins: list[View]) -> DType | None:
    """The element type that a vector instruction's `dt` or `to` stands for."""
    if name == "to":
        return out.dtype
    if name == "dt":
        return ins[-1].dtype if ins else out.dtype
    return None


def _or_one(view: View, dims: list[str]) -> tuple[Scalar, ...]:
    return tuple(view.strides.get(d, 0) for d in dims) or (1,)


def _virtual(base: Any) -> Virtual:
    assert isinstance(base, Virtual)
    return base


def _boxes(scope: Scope) -> dict[BufferOp, dict[str, int]]:
    """By buffer, the largest size of each dimension in its loop."""
    return {op: s.sizes for s in scopes(scope) for op in s.block.ops if isinstance(op, BufferOp)}
