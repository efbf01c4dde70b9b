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
from ge.dialects.fused.ops import (
    ConcatOp,
    Conv2DOp,
    ElementwiseOp,
    FusedOp,
    GatherOp,
    HostOp,
    MatMulOp,
    PadOp,
    PoolOp,
    RowwiseOp,
    YieldOp,
)
from ge.dialects.graph.base import (
    Array,
    ConstantOp,
    GraphOp,
    constant_of,
    dims,
    shape_of,
    tensor,
    type_of,
)
from ge.dialects.graph.ops import binary, conv, index, layout, linear, norm, pool, reduce, unary
from ge.dialects.graph.ops.window import Window
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


def _ints(values: Sequence[int]) -> IntsAttr:
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
    """An operator that the AI CPU computes, with its operands in order."""
    tensors = list(dict.fromkeys(op.operands))
    block = Block(arg_types=[v.type for v in tensors])
    inner = op.clone(dict(zip(tensors, block.args, strict=True)))
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


@anchor(linear.MatMulOp)
def _matmul(maker: Maker, op: linear.MatMulOp, sources: tuple[str, ...]) -> FusedOp:
    a, b = shape_of(op.a), shape_of(op.b)
    left = (1, *a) if len(a) == 1 else a
    right = (*b, 1) if len(b) == 1 else b
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    out = tensor((*batch, left[-2], right[-1]), type_of(op.a).element_type)
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


# Images


def _two_dims(values: Sequence[int], fill: int) -> tuple[int, ...]:
    """What is said for one dim, said for two: the first is one row high."""
    return tuple(values) if len(values) == 2 else (fill, *values)


def _image(shape: Shape) -> Shape:
    """A batch of images with channels; what has one spatial dim is one row high."""
    if len(shape) not in (3, 4):
        raise UnsupportedError(f"windows must have 1 or 2 spatial dims, got {len(shape) - 2}")
    return shape if len(shape) == 4 else (*shape[:2], 1, shape[2])


def _window(window: Window) -> dict[str, Attribute]:
    n = len(window.kernel)
    begins, ends = window.pads[:n], window.pads[n:]
    pads = (*_two_dims(begins, 0), *_two_dims(ends, 0))
    return {
        "strides": _ints(_two_dims(window.strides, 1)),
        "pads": _ints(pads),
        "dilations": _ints(_two_dims(window.dilations, 1)),
    }


@anchor(conv.ConvOp)
def _conv(maker: Maker, op: conv.ConvOp, sources: tuple[str, ...]) -> FusedOp:
    attrs = op.attrs
    w = shape_of(op.w)
    window = Window.of(w[2:], attrs["strides"], attrs["pads"], attrs["dilations"])
    shape = _image(shape_of(op.results[0]))
    out = tensor(shape, type_of(op.x).element_type)
    bias = tensor((w[0], 1, 1), out.element_type)
    ins = [maker.operand(op.x, _image(shape_of(op.x))), maker.operand(op.w, _image(w))]
    body = Body(out, *([bias] if op.b else []))
    value: SSAValue = body.block.args[0]
    if op.b is not None:
        value = body.add(binary.AddOp.make(value, body.block.args[1]))
        ins.append(maker.operand(op.b, (w[0], 1, 1)))
    group = IntegerAttr(attrs["group"], i64)
    kind = "Conv2D" if len(w) == 4 else "Conv1D"
    return Conv2DOp.of(kind, sources, ins, out, body.end(value), group=group, **_window(window))


@anchor(pool.MaxPoolOp)
def _max_pool(maker: Maker, op: pool.MaxPoolOp, sources: tuple[str, ...]) -> FusedOp:
    return _pool(maker, op, sources, "max", None)


@anchor(pool.AveragePoolOp)
def _average_pool(maker: Maker, op: pool.AveragePoolOp, sources: tuple[str, ...]) -> FusedOp:
    """A sum of each window, times one over how many elements count in it."""
    window = _pool_window(op)
    ones = np.ones((1, 1, *shape_of(op.x)[2:]), np.float32)
    n = len(window.kernel)
    sums = window.view(ones, 0.0).sum(axis=tuple(range(-n, 0)))
    share = pool.AveragePoolOp.evaluate(ones, **op.attrs) / sums
    return _pool(maker, op, sources, "sum", share)


def _pool_window(op: GraphOp) -> Window:
    a = op.attrs
    return Window.of(a["kernel_shape"], a["strides"], a["pads"], a["dilations"], a["ceil_mode"])


def _pool(
    maker: Maker, op: GraphOp, sources: tuple[str, ...], reduction: str, share: Array | None
) -> FusedOp:
    window = _pool_window(op)
    out = tensor(_image(shape_of(op.results[0])), type_of(op.operands[0]).element_type)
    ins = [maker.operand(op.operands[0], _image(shape_of(op.operands[0])))]
    extra: list[Attribute] = []
    uniform = share is None or bool((share == share.flat[0]).all())
    if share is not None and not uniform:
        share = share.astype(dtypes.of_ir(out.element_type).numpy).reshape(_image(share.shape))
        ins.append(maker.constant(share))
        extra = [ins[1].type]
    body = Body(out, *extra)
    value: SSAValue = body.block.args[0]
    if share is not None:
        number = body.number(float(share.flat[0]), out.element_type) if uniform else None
        value = body.add(binary.MulOp.make(value, number or body.block.args[1]))
    properties = _window(window)
    properties["window"] = _ints(_two_dims(window.kernel, 1))
    properties["reduction"] = StringAttr(reduction)
    return PoolOp.of(op.ONNX, sources, ins, out, body.end(value), **properties)


@anchor(pool.GlobalAveragePoolOp, pool.GlobalMaxPoolOp)
def _global_pool(maker: Maker, op: pool.GlobalPoolOp, sources: tuple[str, ...]) -> FusedOp:
    """A reduction over all spatial dims."""
    x = type_of(op.x)
    body = Body(x)
    axes = tuple(range(2, len(dims(x))))
    largest = isinstance(op, pool.GlobalMaxPoolOp)
    reduction = reduce.ReduceMaxOp if largest else reduce.ReduceMeanOp
    value = body.add(reduction.make(body.block.args[0], axes=axes, keepdims=True))
    return RowwiseOp.of(op.ONNX, sources, [maker.operand(op.x)], value.type, body.end(value))


@anchor(norm.BatchNormalizationOp)
def _batch_norm(maker: Maker, op: norm.BatchNormalizationOp, sources: tuple[str, ...]) -> FusedOp:
    """A factor and a summand for each channel, computed now: they are weights."""
    known = [constant_of(v) for v in (op.scale, op.b, op.mean, op.var)]
    arrays = [a.astype(np.float64) for a in known if a is not None]
    if len(arrays) != len(known):
        return _computed_batch_norm(maker, op, sources)
    factor, summand = folded_batch_norm(arrays, op.attrs["epsilon"])
    x = type_of(op.x)
    numpy = dtypes.of_ir(x.element_type).numpy
    column = (-1, *(1,) * (len(dims(x)) - 2))
    ins = [maker.operand(op.x)]
    ins += [maker.constant(v.astype(numpy).reshape(column)) for v in (factor, summand)]
    body = Body(*(v.type for v in ins))
    args = body.block.args
    scaled = body.add(binary.MulOp.make(args[0], args[1]))
    value = body.add(binary.AddOp.make(scaled, args[2]))
    return ElementwiseOp.of(op.ONNX, sources, ins, x, body.end(value))


def _computed_batch_norm(
    maker: Maker, op: norm.BatchNormalizationOp, sources: tuple[str, ...]
) -> FusedOp:
    """`(x - mean) / sqrt(var + epsilon) * scale + b` with parameters known at run time only."""
    x = type_of(op.x)
    column = (dims(x)[1], *(1,) * (len(dims(x)) - 2))
    parameters = (op.scale, op.b, op.mean, op.var)
    ins = [maker.operand(op.x), *(maker.operand(v, column) for v in parameters)]
    body = Body(*(v.type for v in ins))
    value, scale, b, mean, var = body.block.args
    epsilon = body.number(op.attrs["epsilon"], type_of(op.var).element_type)
    deviation = body.add(unary.SqrtOp.make(body.add(binary.AddOp.make(var, epsilon))))
    factor = body.add(binary.DivOp.make(scale, deviation))
    centred = body.add(binary.SubOp.make(value, mean))
    result = body.add(binary.AddOp.make(body.add(binary.MulOp.make(centred, factor)), b))
    return ElementwiseOp.of(op.ONNX, sources, ins, x, body.end(result))


def folded_batch_norm(parameters: Sequence[Array], epsilon: float) -> tuple[Array, Array]:
    """What `scale, b, mean, var` multiply by and add, channel by channel."""
    scale, b, mean, var = parameters
    factor = scale / np.sqrt(var + epsilon)
    return factor, b - mean * factor


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
        before=_ints(attrs["pads"][:n]),
        value=FloatAttr(value, Float64Type()),
    )
