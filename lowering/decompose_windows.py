"""Windows over volumes as windows over images, and transposed convolutions as plain ones."""

from __future__ import annotations

from itertools import chain
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects.graph.base import Array, constant_of, shape_of
from ge.dialects.graph.ops.binary import AddOp, MulOp
from ge.dialects.graph.ops.conv import ConvOp, ConvTransposeOp
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


def _conv_transpose(here: Here, op: ConvTransposeOp) -> SSAValue:
    """Transposed convolution -> zeros between the elements, then a convolution, weights turned"""
    attrs = op.attrs
    window = Window.of(shape_of(op.w)[2:], attrs["strides"], attrs["pads"], attrs["dilations"])
    k = len(window.kernel)
    reach = [extent - 1 for extent in window.extent]
    extra = attrs["output_padding"] or (0,) * k
    low = [r - p for r, p in zip(reach, window.pads[:k], strict=True)]
    ends = zip(reach, window.pads[k:], extra, window.strides, strict=True)
    high = [r - p + e - step + 1 for r, p, e, step in ends]
    image = _spread(here, op.x, window.strides)
    pads = (*low, *high)
    if min(pads) < 0:
        image = here.make(PadOp, image, pads=(0, 0, *low, 0, 0, *high))
        pads = (0,) * len(pads)
    known = constant_of(op.w)
    group = attrs["group"]
    turned = _turned(here, op.w, group) if known is None else here.constant(_known(known, group))
    how = {"group": group, "dilations": window.dilations, "pads": pads}
    return here.make(ConvOp, image, turned, op.b, **how)


def _spread(here: Here, x: SSAValue, strides: Shape) -> SSAValue:
    """The image with `strides[i] - 1` zeros behind each element along spatial dim i."""
    if prod(strides) == 1:
        return x
    shape, size = shape_of(x), shape_of(x)[2:]
    apart = tuple(chain.from_iterable((s, 1) for s in size))
    behind = tuple(chain.from_iterable((0, step - 1) for step in strides))
    lone = reshape(here, x, (*shape[:2], *apart))
    spread = here.make(PadOp, lone, pads=(*(0,) * (len(behind) + 2), 0, 0, *behind))
    wide = tuple(s * step for s, step in zip(size, strides, strict=True))
    return reshape(here, spread, (*shape[:2], *wide))


def _known(weights: Array, group: int) -> Array:
    """Weights C x M/group of a transposed convolution as those, M x C/group, of a plain one."""
    inputs, outputs, *kernel = weights.shape
    flipped = np.flip(weights, tuple(range(2, weights.ndim)))
    apart = flipped.reshape(group, inputs // group, outputs, *kernel)
    swapped = np.swapaxes(apart, 1, 2).reshape(group * outputs, inputs // group, *kernel)
    return np.ascontiguousarray(swapped)


def _turned(here: Here, weights: SSAValue, group: int) -> SSAValue:
    """The same of weights that are computed when the model runs."""
    inputs, outputs, *kernel = shape_of(weights)
    apart = reshape(here, weights, (group, inputs // group, outputs, *kernel))
    swapped = here.make(TransposeOp, apart, perm=(0, 2, 1, *range(3, 3 + len(kernel))))
    value = reshape(here, swapped, (group * outputs, inputs // group, *kernel))
    axes = [axis for axis, n in enumerate(kernel, 2) if n > 1]
    if not axes:
        return value
    count = len(axes)
    ends = tuple(-n - 1 for n in (shape_of(value)[a] for a in axes))
    how: dict[str, Any] = {
        "starts": (-1,) * count,
        "ends": ends,
        "axes": tuple(axes),
        "steps": (-1,) * count,
    }
    return here.make(SliceOp, value, **how)


WINDOWS: Rules = {
    MaxPoolOp: [_max_pool],
    AveragePoolOp: [_average_pool],
    ConvOp: [_conv],
    ConvTransposeOp: [_conv_transpose],
}
