"""Transposed convolutions as plain ones: for each phase of the stride, or over spread images."""

from __future__ import annotations

from itertools import chain
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects.graph.base import Array, constant_of, shape_of
from ge.dialects.graph.ops.conv import ConvOp, ConvTransposeOp
from ge.dialects.graph.ops.layout import PadOp, SliceOp, TransposeOp
from ge.dialects.graph.ops.window import Window
from ge.lowering.decompose_indexing import part, reshape
from ge.lowering.rewriting import Here, Rules

Shape = tuple[int, ...]


def _phases(here: Here, op: ConvTransposeOp) -> SSAValue | None:
    """Transposed convolution -> for each place between two steps a convolution, then woven

    Output `q * s + r` sums `x[q - j] * w[r + j * s]` over j: for one r a convolution, and those of
    all r are more output channels of one.
    """
    attrs = op.attrs
    weights, b = constant_of(op.w), None if op.b is None else constant_of(op.b)
    window = Window.of(shape_of(op.w)[2:], attrs["strides"], attrs["pads"], attrs["dilations"])
    plain = prod(window.dilations) == 1 and prod(window.strides) > 1
    if not plain or weights is None or (op.b is not None and b is None):
        return None
    k, steps = len(window.kernel), window.strides
    size, out = shape_of(op.x)[2:], shape_of(op.out)
    begins = window.pads[:k]
    ends = [p + n for p, n in zip(begins, out[2:], strict=True)]
    taps = [
        -(-max(w, end - (n - 1) * s) // s)
        for w, end, n, s in zip(window.kernel, ends, size, steps, strict=True)
    ]
    first = [p // s for p, s in zip(begins, steps, strict=True)]
    count = [-(-end // s) - q for end, s, q in zip(ends, steps, first, strict=True)]
    low = [t - 1 - q for t, q in zip(taps, first, strict=True)]
    high = [c + t - 1 - n - p for c, t, n, p in zip(count, taps, size, low, strict=True)]
    image = op.x
    if min(*low, *high) < 0:
        image = here.make(PadOp, image, pads=(0, 0, *low, 0, 0, *high))
        low = high = [0] * k
    kernels = here.constant(_woven(weights, attrs["group"], steps, taps))
    bias = None if b is None else here.constant(np.repeat(b, prod(steps)))
    made = here.make(ConvOp, image, kernels, bias, group=attrs["group"], pads=(*low, *high))
    rows = reshape(here, made, (*out[:2], *steps, *count))
    order = (0, 1, *chain.from_iterable((2 + k + i, 2 + i) for i in range(k)))
    turned = here.make(TransposeOp, rows, perm=order)
    wide = tuple(c * s for c, s in zip(count, steps, strict=True))
    value = reshape(here, turned, (*out[:2], *wide))
    for i in range(k):
        start = begins[i] - first[i] * steps[i]
        value = part(here, value, 2 + i, start, start + out[2 + i])
    return value


def _woven(weights: Array, group: int, steps: Shape, taps: list[int]) -> Array:
    """Weights C x M/group x kernel as those of M x phases channels, C/group x taps each."""
    inputs, outputs, *kernel = weights.shape
    k = len(kernel)
    more = [(0, t * s - n) for t, s, n in zip(taps, steps, kernel, strict=True)]
    wide = np.pad(weights, [(0, 0), (0, 0), *more])
    pairs = tuple(chain.from_iterable(zip(taps, steps, strict=True)))
    apart = wide.reshape(group, inputs // group, outputs, *pairs)
    phases = tuple(4 + 2 * i for i in range(k))
    places = tuple(3 + 2 * i for i in range(k))
    turned = apart.transpose(0, 2, *phases, 1, *places)
    flipped = np.flip(turned, tuple(range(-k, 0)))
    made = flipped.reshape(group * outputs * prod(steps), inputs // group, *taps)
    return np.ascontiguousarray(made)


def _over_spread(here: Here, op: ConvTransposeOp) -> SSAValue:
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


TRANSPOSED_CONVS: Rules = {ConvTransposeOp: [_phases, _over_spread]}
