"""How operators of the model become kernels of their own: one row an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
from xdsl.dialects.builtin import Float64Type, FloatAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Block, Region, SSAValue

from ge.dialects import dtypes
from ge.dialects.attributes import IntsAttr, strings
from ge.dialects.diagnostics import UnsupportedError
from ge.dialects.fused.base import FusedOp, ViewOp, YieldOp
from ge.dialects.fused.ops import (
    ConcatOp,
    ElementwiseOp,
    GatherOp,
    HostOp,
    MatMulOp,
    PadOp,
    RowwiseOp,
    ScatterOp,
)
from ge.dialects.graph.base import (
    Array,
    ConstantOp,
    GraphOp,
    dims,
    shape_of,
    tensor,
    type_of,
)
from ge.dialects.graph.ops import (
    binary,
    index,
    layout,
    linear,
    quantize,
)
from ge.lowering.kernels.vector_writer import EXACT_MOST

Shape = tuple[int, ...]


class Maker(Protocol):
    """What a row may ask of the pass."""

    def operand(self, value: SSAValue, shape: Shape | None = None) -> SSAValue:
        """The value as a kernel's operand, under another shape if one is given."""
        ...

    def in_order(self, value: SSAValue) -> SSAValue:
        """The value as an operand whose elements follow each other in memory."""
        ...

    def storage(self, value: SSAValue) -> SSAValue:
        """The value as an operand each of whose elements has a place of its own."""
        ...

    def transposed(self, value: SSAValue) -> SSAValue:
        """A matrix the other way round."""
        ...

    def constant(self, array: Array) -> SSAValue:
        """A tensor of new weights."""
        ...


Row = Callable[[Maker, Any, tuple[str, ...]], FusedOp]
ANCHORS: dict[type[GraphOp], Row] = {}


def anchor(*kinds: type[GraphOp]) -> Callable[[Row], Row]:
    """Register how an operator becomes a kernel."""

    def register(make: Row) -> Row:
        ANCHORS.update(dict.fromkeys(kinds, make))
        return make

    return register


def scalar_of(value: SSAValue) -> ConstantOp | None:
    """The constant behind a value, if it is one number that an instruction can hold."""
    owner = value.owner
    if not isinstance(owner, ConstantOp) or prod(shape_of(value)) != 1:
        return None
    exact = owner.array.dtype.kind in "fVb" or abs(int(owner.array.reshape(-1)[0])) <= EXACT_MOST
    return owner if exact else None


class Body:
    """A region while it is written: arguments first, then operations, then what it yields."""

    def __init__(self, *args: Attribute) -> None:
        self.block = Block(arg_types=args)

    def add(self, op: GraphOp) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def number(self, value: float, element: Attribute) -> SSAValue:
        """A number of a float type, as a constant of the region."""
        array = np.asarray(value, dtypes.of_ir(element).numpy)
        op = ConstantOp.of(array)
        self.block.add_op(op)
        return op.results[0]

    def end(self, value: SSAValue) -> Block:
        self.block.add_op(YieldOp(operands=[[value]]))
        return self.block


def ints(values: Sequence[int]) -> IntsAttr:
    """Whole numbers as an attribute."""
    return IntsAttr(tuple(values))


def single(kind: type[FusedOp], maker: Maker, op: GraphOp, sources: tuple[str, ...]) -> FusedOp:
    """A kernel whose region is the operator itself; constants of one number go inside."""
    numbers = {v: c for v in op.operands if (c := scalar_of(v))}
    tensors = [v for v in dict.fromkeys(op.operands) if v not in numbers]
    body = Body(*(v.type for v in tensors))
    inside: dict[SSAValue, SSAValue] = dict(zip(tensors, body.block.args, strict=True))
    for value, constant in numbers.items():
        copy = constant.clone()
        body.block.add_op(copy)
        inside[value] = copy.results[0]
    inner = op.clone(inside)
    inner.attributes.pop("source", None)
    body.block.add_op(inner)
    block = body.end(inner.results[0])
    ins = [maker.operand(v) for v in tensors]
    return kind.of(op.ONNX, sources, ins, op.results[0].type, block)


def host(maker: Maker, op: GraphOp, sources: tuple[str, ...]) -> HostOp:
    """An operator that the AI CPU computes, with its operands in order, equal ones each."""
    tensors = list(op.operands)
    block = Block(arg_types=[v.type for v in tensors])
    inner = op.clone()
    inner.operands = block.args
    inner.attributes.clear()
    block.add_ops([inner, YieldOp(operands=[inner.results])])
    return HostOp.create(
        operands=[maker.in_order(v) for v in tensors],
        properties={"kind": StringAttr(op.ONNX), "sources": strings(sources)},
        result_types=list(op.result_types),
        regions=[Region(block)],
    )


def elementwise(maker: Maker, op: GraphOp, sources: tuple[str, ...]) -> FusedOp:
    """The kernel of an operator that the vector unit does element by element."""
    return single(ElementwiseOp, maker, op, sources)


def rowwise(maker: Maker, op: GraphOp, sources: tuple[str, ...]) -> FusedOp:
    """The kernel of an operator that reduces."""
    return single(RowwiseOp, maker, op, sources)


def copy_of(value: SSAValue, operand: SSAValue, sources: tuple[str, ...]) -> FusedOp:
    """The kernel that writes a view out."""
    body = Body(value.type)
    return ElementwiseOp.of("Copy", sources, [operand], value.type, body.end(body.block.args[0]))


# Products


@anchor(linear.MatMulOp, quantize.MatMulIntegerOp)
def _matmul(maker: Maker, op: Any, sources: tuple[str, ...]) -> FusedOp:
    a, b = shape_of(op.a), shape_of(op.b)
    left = (1, *a) if len(a) == 1 else a
    right = (*b, 1) if len(b) == 1 else b
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    out = tensor((*batch, left[-2], right[-1]), type_of(op.out).element_type)
    body = Body(out)
    ins = [maker.operand(op.a, left), maker.operand(op.b, right)]
    return MatMulOp.of(op.ONNX, sources, ins, out, body.end(body.block.args[0]))


@anchor(linear.GemmOp)
def _gemm(maker: Maker, op: linear.GemmOp, sources: tuple[str, ...]) -> FusedOp:
    attrs = op.attrs
    out = type_of(op.results[0])
    a = maker.transposed(op.a) if attrs["transA"] else maker.operand(op.a)
    b = maker.transposed(op.b) if attrs["transB"] else maker.operand(op.b)
    element = out.element_type
    summand = op.c if attrs["beta"] != 0.0 else None
    body = Body(out, *([summand.type] if summand else []))
    value: SSAValue = body.block.args[0]
    if attrs["alpha"] != 1.0:
        value = body.add(binary.MulOp.make(value, body.number(attrs["alpha"], element)))
    ins = [a, b]
    if summand is not None:
        extra: SSAValue = body.block.args[1]
        if attrs["beta"] != 1.0:
            extra = body.add(binary.MulOp.make(extra, body.number(attrs["beta"], element)))
        value = body.add(binary.AddOp.make(value, extra))
        ins.append(maker.operand(summand))
    return MatMulOp.of(op.ONNX, sources, ins, out, body.end(value))


# Moves


@anchor(layout.ConcatOp)
def _concat(maker: Maker, op: layout.ConcatOp, sources: tuple[str, ...]) -> FusedOp:
    axis = op.attrs["axis"] % len(shape_of(op.results[0]))
    tensors = [v for v in op.operands if prod(shape_of(v))]
    body = Body(*(v.type for v in tensors))
    block = body.end(body.block.args[0])
    ins = [maker.operand(v) for v in tensors]
    out = op.results[0].type
    return ConcatOp.of(op.ONNX, sources, ins, out, block, axis=IntegerAttr(axis, i64))


@anchor(index.GatherOp)
def _gather(maker: Maker, op: index.GatherOp, sources: tuple[str, ...]) -> FusedOp:
    """Slice by slice; one index alone is a row of one."""
    axis = op.attrs["axis"] % len(shape_of(op.x))
    before, behind = shape_of(op.x)[:axis], shape_of(op.x)[axis + 1 :]
    places = shape_of(op.indices) or (1,)
    out = tensor((*before, *places, *behind), type_of(op.x).element_type)
    body = Body(out)
    block = body.end(body.block.args[0])
    ins = [maker.operand(op.x), maker.operand(op.indices, places)]
    return GatherOp.of(op.ONNX, sources, ins, out, block, axis=IntegerAttr(axis, i64))


@anchor(index.ScatterNDOp)
def _scatter(maker: Maker, op: index.ScatterNDOp, sources: tuple[str, ...]) -> FusedOp:
    """Slice by slice along the first axis; decompose-operators leaves no others."""
    shape = shape_of(op.x)
    count = prod(shape_of(op.indices))
    indices = maker.operand(op.indices, (count,))
    updates = maker.operand(op.updates, (count, *shape[1:]))
    return _put(maker, op, (indices, updates), 0, (0,), sources)


@anchor(index.TensorScatterOp)
def _tensor_scatter(maker: Maker, op: index.TensorScatterOp, sources: tuple[str, ...]) -> FusedOp:
    """The updates of each batch from its start on."""
    axis = op.attrs["axis"] % len(shape_of(op.x))
    zeros = np.zeros(shape_of(op.x)[0], np.int32)
    start = maker.constant(zeros) if op.start is None else maker.operand(op.start)
    return _put(maker, op, (start, maker.operand(op.updates)), axis, (0,), sources)


def _put(
    maker: Maker,
    op: index.ScatterNDOp | index.TensorScatterOp,
    rest: tuple[SSAValue, SSAValue],
    axis: int,
    by: tuple[int, ...],
    sources: tuple[str, ...],
) -> FusedOp:
    into = maker.storage(op.x)
    body = Body(rest[1].type)
    block = body.end(body.block.args[0])
    base = into.owner.source if isinstance(into.owner, ViewOp) else into
    more = {"axis": IntegerAttr(axis, i64), "by": ints(by)}
    return ScatterOp.of(op.ONNX, sources, [into, *rest], base.type, block, **more)


@anchor(layout.PadOp)
def _pad(maker: Maker, op: layout.PadOp, sources: tuple[str, ...]) -> FusedOp:
    attrs = op.attrs
    if attrs["mode"] is not layout.PadMode.CONSTANT:
        raise UnsupportedError(f"mode of Pad must be constant, got {attrs['mode']}")
    value = 0.0
    if op.value is not None:
        constant = scalar_of(op.value)
        if constant is None:
            raise UnsupportedError("value of Pad must be a constant")
        value = float(constant.array.reshape(-1)[0])
    out = type_of(op.results[0])
    body = Body(out)
    n = len(dims(out))
    return PadOp.of(
        op.ONNX,
        sources,
        [maker.operand(op.x)],
        out,
        body.end(body.block.args[0]),
        before=ints(attrs["pads"][:n]),
        value=FloatAttr(value, Float64Type()),
    )
