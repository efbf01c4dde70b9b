"""How operators on images become kernels: convolutions, pools, batch norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, SSAValue

from ge.dialects import dtypes
from ge.dialects.diagnostics import UnsupportedError
from ge.dialects.fused.base import FusedOp
from ge.dialects.fused.ops import Conv2DOp, ElementwiseOp, PoolOp, RowwiseOp
from ge.dialects.graph.base import Array, GraphOp, constant_of, dims, shape_of, tensor, type_of
from ge.dialects.graph.ops import binary, conv, norm, pool, quantize, reduce, unary
from ge.dialects.graph.ops.window import Window
from ge.lowering.anchors import Body, Maker, anchor, ints

Shape = tuple[int, ...]


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
        "strides": ints(_two_dims(window.strides, 1)),
        "pads": ints(pads),
        "dilations": ints(_two_dims(window.dilations, 1)),
    }


@anchor(conv.ConvOp, quantize.ConvIntegerOp)
def _conv(maker: Maker, op: Any, sources: tuple[str, ...]) -> FusedOp:
    attrs = op.attrs
    w = shape_of(op.w)
    window = Window.of(w[2:], attrs["strides"], attrs["pads"], attrs["dilations"])
    shape = _image(shape_of(op.results[0]))
    out = tensor(shape, type_of(op.out).element_type)
    bias = tensor((w[0], 1, 1), out.element_type)
    ins = [maker.operand(op.x, _image(shape_of(op.x))), maker.operand(op.w, _image(w))]
    summand = op.b if isinstance(op, conv.ConvOp) else None
    body = Body(out, *([bias] if summand else []))
    value: SSAValue = body.block.args[0]
    if summand is not None:
        value = body.add(binary.AddOp.make(value, body.block.args[1]))
        ins.append(maker.operand(summand, (w[0], 1, 1)))
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
    properties["window"] = ints(_two_dims(window.kernel, 1))
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
