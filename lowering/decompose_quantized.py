"""Quantised operators: products of signed bytes on the cube, with corrections for zero points.

`sum (a - p)(b - q) = sum a b - p sum b - q sum a + k p q`, all of it in integers.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects import dtypes
from ge.dialects.graph.base import constant_of, shape_of
from ge.dialects.graph.ops.activation import ClipOp
from ge.dialects.graph.ops.binary import AddOp, BinaryOp, DivOp, MulOp, SubOp, WhereOp
from ge.dialects.graph.ops.layout import ExpandOp, PadMode, PadOp
from ge.dialects.graph.ops.quantize import (
    ConvIntegerOp,
    DequantizeLinearOp,
    MatMulIntegerOp,
    QuantizeLinearOp,
    spread,
)
from ge.dialects.graph.ops.reduce import ReduceSumOp
from ge.dialects.graph.ops.unary import RoundOp
from ge.lowering.decompose_indexing import cast, dtype_of, number, part, reshape
from ge.lowering.rewriting import Here, Rules

MIDDLE = 128
"""What turns bytes without sign into bytes with one."""


def _parameter(here: Here, x: SSAValue, value: SSAValue, axis: int, block: int) -> SSAValue:
    """Scales or zero points under a shape that broadcasts to x."""
    shape, own = shape_of(x), shape_of(value)
    if not block:
        return reshape(here, value, spread(shape, own, axis, block))
    a = axis % len(shape)
    apart = reshape(here, value, (*own[: a + 1], 1, *own[a + 1 :]))
    wide = here.make(ExpandOp, apart, shape=(*own[: a + 1], block, *own[a + 1 :]))
    repeated = reshape(here, wide, (*own[:a], own[a] * block, *own[a + 1 :]))
    return part(here, repeated, a, 0, shape[a])


def _quantize(here: Here, op: QuantizeLinearOp) -> SSAValue:
    """Quantise -> divide, round, add the zero point, clip, cast"""
    axis, block = op.attrs["axis"], op.attrs["block_size"]
    to = dtype_of(op.out)
    x = cast(here, op.x, dtypes.F32)
    scale = _parameter(here, op.x, cast(here, op.scale, dtypes.F32), axis, block)
    steps = here.make(RoundOp, here.make(DivOp, x, scale))
    if op.zero_point is not None:
        zero = cast(here, op.zero_point, dtypes.F32)
        steps = here.make(AddOp, steps, _parameter(here, op.x, zero, axis, block))
    info = np.iinfo(to.numpy)
    low, high = (number(here, float(v), dtypes.F32) for v in (info.min, info.max))
    return cast(here, here.make(ClipOp, steps, low, high), to)


def _dequantize(here: Here, op: DequantizeLinearOp) -> SSAValue:
    """Dequantise -> subtract the zero point, multiply"""
    axis, block = op.attrs["axis"], op.attrs["block_size"]
    wide = dtypes.I32 if dtype_of(op.x) is dtypes.I32 else dtypes.F32
    steps = cast(here, op.x, wide)
    if op.zero_point is not None:
        zero = cast(here, op.zero_point, wide)
        steps = here.make(SubOp, steps, _parameter(here, op.x, zero, axis, block))
    scale = _parameter(here, op.x, cast(here, op.scale, dtypes.F32), axis, block)
    made = here.make(MulOp, cast(here, steps, dtypes.F32), scale)
    return cast(here, made, dtype_of(op.out))


def _signed(here: Here, x: SSAValue, zero: SSAValue | None) -> tuple[SSAValue, SSAValue | None]:
    """Bytes with sign, and their zero point in 32 bits; None where that is 0."""
    known = None if zero is None else constant_of(zero)
    none = zero is None or (known is not None and not known.any())
    if dtype_of(x) is dtypes.I8:
        return x, None if none or zero is None else cast(here, zero, dtypes.I32)
    weights = constant_of(x)
    if weights is not None:
        turned = here.constant((weights.astype(np.int16) - MIDDLE).astype(np.int8))
    else:
        turned = cast(here, here.make(AddOp, x, number(here, MIDDLE, dtypes.U8)), dtypes.I8)
    if none or known is not None:
        zeros = np.zeros((), np.int32) if known is None else known.astype(np.int32)
        return turned, here.constant(np.asarray(zeros - MIDDLE, np.int32))
    assert zero is not None
    return turned, here.make(SubOp, cast(here, zero, dtypes.I32), number(here, MIDDLE, dtypes.I32))


def _sum(here: Here, x: SSAValue, *axes: int) -> SSAValue:
    """The sum of bytes in 32 bits; of weights it is known."""
    if (known := constant_of(x)) is not None:
        return here.constant(known.sum(axis=axes, dtype=np.int32, keepdims=True))
    return here.make(ReduceSumOp, cast(here, x, dtypes.I32), axes=axes, keepdims=True)


def _less(here: Here, total: SSAValue, kind: type[BinaryOp], a: SSAValue, b: SSAValue) -> SSAValue:
    return here.make(kind, total, here.make(MulOp, a, b))


def _matmul(here: Here, op: MatMulIntegerOp) -> SSAValue | None:
    """A product of bytes -> one of bytes with sign and no zero points, and its corrections"""
    a, p = _signed(here, op.a, op.a_zero)
    b, q = _signed(here, op.b, op.b_zero)
    if a is op.a and b is op.b and op.a_zero is None and op.b_zero is None:
        return None
    a_shape, b_shape = shape_of(a), shape_of(b)
    a = reshape(here, a, (1, *a_shape)) if len(a_shape) == 1 else a
    b = reshape(here, b, (*b_shape, 1)) if len(b_shape) == 1 else b
    total = here.make(MatMulIntegerOp, a, b)
    rows, columns = len(shape_of(a)), len(shape_of(b))
    p = None if p is None else _one_or(here, p, (-1, 1))
    q = None if q is None else _one_or(here, q, (-1,))
    if p is not None:
        total = _less(here, total, SubOp, _sum(here, b, columns - 2), p)
    if q is not None:
        total = _less(here, total, SubOp, _sum(here, a, rows - 1), q)
    if p is not None and q is not None:
        count = number(here, shape_of(a)[-1], dtypes.I32)
        total = _less(here, total, AddOp, here.make(MulOp, p, count), q)
    return reshape(here, total, shape_of(op.out))


def _one_or(here: Here, value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    """One number without axes, or several along one."""
    n = int(np.prod(shape_of(value)))
    return reshape(here, value, tuple(n if d < 0 else d for d in shape) if n > 1 else ())


def _conv(here: Here, op: ConvIntegerOp) -> SSAValue | None:
    """A convolution of bytes -> one of bytes with sign and no zero points, and its corrections"""
    x, p = _signed(here, op.x, op.x_zero)
    w, q = _signed(here, op.w, op.w_zero)
    if x is op.x and w is op.w and op.x_zero is None and op.w_zero is None:
        return None
    attrs = dict(op.attrs)
    n = len(shape_of(x)) - 2
    pads = attrs["pads"]
    if p is not None and any(pads):
        x, attrs["pads"] = _padded(here, x, p, pads), (0,) * 2 * n
    total = here.make(ConvIntegerOp, x, w, **attrs)
    column = (-1, *(1,) * n)
    q = None if q is None else _one_or(here, q, column)
    sums = reshape(here, _sum(here, w, *range(1, n + 2)), (shape_of(w)[0], *(1,) * n))
    if p is not None:
        total = _less(here, total, SubOp, sums, _one_or(here, p, ()))
    if q is not None:
        ones = here.constant(np.ones(shape_of(w), np.int8))
        windows = here.make(ConvIntegerOp, x, ones, **attrs)
        total = _less(here, total, SubOp, windows, q)
    if p is not None and q is not None:
        count = number(here, float(np.prod(shape_of(w)[1:])), dtypes.I32)
        total = _less(here, total, AddOp, here.make(MulOp, _one_or(here, p, ()), count), q)
    return total


def _padded(here: Here, x: SSAValue, p: SSAValue, pads: tuple[int, ...]) -> SSAValue:
    """The image with its zero point around it."""
    n = len(pads) // 2
    whole = (0, 0, *pads[:n], 0, 0, *pads[n:])
    ones = np.ones((1, 1, *shape_of(x)[2:]), bool)
    inside = PadOp.evaluate(ones, pads=whole, mode=PadMode.CONSTANT)
    wide = here.make(PadOp, x, pads=whole)
    zero = cast(here, _one_or(here, p, ()), dtypes.I8)
    return here.make(WhereOp, here.constant(np.asarray(inside)), wide, zero)


QUANTIZED: Rules = {
    QuantizeLinearOp: [_quantize],
    DequantizeLinearOp: [_dequantize],
    MatMulIntegerOp: [_matmul],
    ConvIntegerOp: [_conv],
}
