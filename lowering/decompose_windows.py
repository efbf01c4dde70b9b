"""Windows over volumes as windows over images, and transposed convolutions as plain ones."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects.graph.base import shape_of
from ge.dialects.graph.ops.binary import AddOp, MulOp
from ge.dialects.graph.ops.conv import ConvOp
from ge.dialects.graph.ops.layout import PadOp, SliceOp, TransposeOp
from ge.dialects.graph.ops.pool import AveragePoolOp, MaxPoolOp
from ge.dialects.graph.ops.window import Window
from ge.lowering.decompose_indexing import dtype_of, part, reshape
from ge.lowering.rewriting import Here, Rules

Shape = tuple[int, ...]
WIDE = 1 << 14
"""Elements that a window spans before it is taken apart."""
VOLUME = 3
"""Spatial dims of a volume: what the kernels have not."""


def _flat(window: Window, dims: slice) -> dict[str, Any]:
    """What a window says of some of its dims."""
    n = len(window.kernel)
    return {
        "strides": window.strides[dims],
        "pads": (*window.pads[:n][dims], *window.pads[n:][dims]),
        "dilations": window.dilations[dims],
    }


def _max_pool(here: Here, op: MaxPoolOp) -> SSAValue | None:
    """The largest of a volume -> of each of its images, then across them"""
    shape = shape_of(op.x)
    if len(shape) != 2 + VOLUME:
        return _wide_max_pool(here, op)
    attrs = op.attrs
    window = Window.of(attrs["kernel_shape"], attrs["strides"], attrs["pads"], attrs["dilations"])
    ceil = attrs["ceil_mode"]
    rows = reshape(here, op.x, (shape[0], shape[1] * shape[2], *shape[3:]))
    inner: dict[str, Any] = {"kernel_shape": window.kernel[1:], **_flat(window, slice(1, None))}
    made = here.make(MaxPoolOp, rows, ceil_mode=ceil, **inner)
    size = shape_of(made)[2:]
    columns = reshape(here, made, (prod(shape[:2]), 1, shape[2], prod(size)))
    how = _flat(window, slice(0, 1))
    across: dict[str, Any] = {"kernel_shape": (window.kernel[0], 1), "ceil_mode": ceil}
    across |= {"strides": (*how["strides"], 1), "dilations": (*how["dilations"], 1)}
    pads = (how["pads"][0], 0, how["pads"][1], 0)
    return reshape(here, here.make(MaxPoolOp, columns, pads=pads, **across), shape_of(op.out))


def _wide_max_pool(here: Here, op: MaxPoolOp) -> SSAValue | None:
    """The largest of windows that no memory holds -> of their columns, then of those"""
    attrs = op.attrs
    window = Window.of(attrs["kernel_shape"], attrs["strides"], attrs["pads"], attrs["dilations"])
    if prod(window.extent) <= WIDE or len(window.kernel) != 2 or 1 in window.kernel:
        return None
    value: SSAValue = op.x
    for axis in (0, 1):
        how = _flat(window, slice(axis, axis + 1))
        pairs = [(1, *how["strides"]), (1, *how["dilations"]), (1, window.kernel[axis])]
        strides, dilations, kernel = (p if axis else p[::-1] for p in pairs)
        low, high = how["pads"]
        pads = (0, low, 0, high) if axis else (low, 0, high, 0)
        sides = {"strides": strides, "dilations": dilations, "pads": pads}
        value = here.make(
            MaxPoolOp, value, kernel_shape=kernel, ceil_mode=attrs["ceil_mode"], **sides
        )
    return value


def _average_pool(here: Here, op: AveragePoolOp) -> SSAValue | None:
    """The mean of a volume -> sums of each of its images, then across them, over their elements"""
    shape = shape_of(op.x)
    if len(shape) != 2 + VOLUME:
        return None
    attrs = op.attrs
    window = Window.of(
        *(attrs[n] for n in ("kernel_shape", "strides", "pads", "dilations", "ceil_mode"))
    )
    ones = np.ones((1, 1, *shape[2:]), np.float32)
    sums = window.view(ones, 0.0).sum(axis=tuple(range(-VOLUME, 0)))
    share = AveragePoolOp.evaluate(ones, **attrs) / sums
    begins = window.pads[:VOLUME]
    rows = zip(shape[2:], window.out(shape[2:]), window.strides, window.extent, begins, strict=True)
    ends = [max(0, (out - 1) * step + e - d - p) for d, out, step, e, p in rows]
    wide = here.make(PadOp, op.x, pads=(0, 0, *begins, 0, 0, *ends))
    total = _sums(here, wide, window)
    factor = np.asarray(share * prod(window.kernel)).astype(dtype_of(op.x).numpy)
    return here.make(MulOp, total, here.constant(factor))


def _sums(here: Here, x: SSAValue, window: Window) -> SSAValue:
    """The mean of each window of a volume that needs no padding."""
    shape = shape_of(x)
    rows = reshape(here, x, (shape[0], shape[1] * shape[2], *shape[3:]))
    inner = _flat(window, slice(1, None))
    inner["pads"] = ()
    made = here.make(AveragePoolOp, rows, kernel_shape=window.kernel[1:], **inner)
    size = shape_of(made)[2:]
    columns = reshape(here, made, (prod(shape[:2]), 1, shape[2], prod(size)))
    across = here.make(
        AveragePoolOp,
        columns,
        kernel_shape=(window.kernel[0], 1),
        strides=(window.strides[0], 1),
        dilations=(window.dilations[0], 1),
    )
    return reshape(here, across, (*shape[:2], shape_of(across)[2], *size))


def _conv(here: Here, op: ConvOp) -> SSAValue | None:
    """A convolution of volumes -> one of images for each layer of the kernel, added up"""
    shape, weights = shape_of(op.x), shape_of(op.w)
    if len(shape) != 2 + VOLUME:
        return None
    attrs = op.attrs
    window = Window.of(weights[2:], attrs["strides"], attrs["pads"], attrs["dilations"])
    batch, channels, depth = shape_of(op.out)[:3]
    pads = (0, 0, window.pads[0], 0, 0, 0, 0, window.pads[VOLUME], 0, 0)
    x = here.make(PadOp, op.x, pads=pads) if any(pads) else op.x
    how = {**_flat(window, slice(1, None)), "group": attrs["group"]}
    total: SSAValue | None = None
    for layer in range(window.kernel[0]):
        first, step = layer * window.dilations[0], window.strides[0]
        last = first + (depth - 1) * step + 1
        cut = here.make(SliceOp, x, starts=(first,), ends=(last,), axes=(2,), steps=(step,))
        images = reshape(
            here,
            here.make(TransposeOp, cut, perm=(0, 2, 1, 3, 4)),
            (batch * depth, shape[1], *shape[3:]),
        )
        kernel = reshape(here, part(here, op.w, 2, layer, layer + 1), (*weights[:2], *weights[3:]))
        made = here.make(ConvOp, images, kernel, op.b if total is None else None, **how)
        total = made if total is None else here.make(AddOp, total, made)
    assert total is not None
    size = shape_of(op.out)[3:]
    return here.make(
        TransposeOp, reshape(here, total, (batch, depth, channels, *size)), perm=(0, 2, 1, 3, 4)
    )


def _far_apart(here: Here, op: ConvOp) -> SSAValue | None:
    """Taps far apart along one dim -> that dim in runs of the distance, where taps are neighbours

    Element `i * d + r` of the dim becomes element r of run i: what a window touches has one r.
    """
    weights, out = shape_of(op.w), shape_of(op.out)
    window = Window.of(weights[2:], *(op.attrs[name] for name in ("strides", "pads", "dilations")))
    long = [i for i, n in enumerate(window.kernel) if n > 1]
    too_wide = prod(window.extent) * weights[1] > WIDE
    if len(long) != 1 or not too_wide or prod(window.strides) != 1 or prod(window.dilations) == 1:
        return None
    dim, k = 2 + long[0], len(window.kernel)
    step, taps = window.dilations[long[0]], weights[dim]
    runs = -(-out[dim] // step) + taps - 1
    low, high = [0, 0, *window.pads[:k]], [0, 0, *window.pads[k:]]
    high[dim] = runs * step - shape_of(op.x)[dim] - low[dim]
    wide = here.make(PadOp, op.x, pads=(*low, *high))
    order = (0, 1, dim, *(i for i in range(2, 2 + k) if i != dim))
    size = shape_of(wide)
    turned = here.make(TransposeOp, wide, perm=order)
    rest = [size[i] for i in order[3:]]
    image = reshape(here, turned, (*size[:2], runs, step * prod(rest)))
    column = reshape(here, op.w, (*weights[:2], taps, 1))
    made = here.make(ConvOp, image, column, op.b, group=op.attrs["group"])
    rows = reshape(here, made, (*out[:2], (runs - taps + 1) * step, *rest))
    back = here.make(TransposeOp, rows, perm=tuple(order.index(i) for i in range(2 + k)))
    return part(here, back, dim, 0, out[dim])


WINDOWS: Rules = {
    MaxPoolOp: [_max_pool],
    AveragePoolOp: [_average_pool],
    ConvOp: [_conv, _far_apart],
}
