"""Convolutions and pools over images with channels second.

A convolution is the product of the weights, as they lie, and windows of the image: what would be
the unfolded image is only ever a strided view of the box that is loaded. The result then has the
image's own layout.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from ge.dialects.dtypes import F32, DType
from ge.dialects.fused.base import FusedOp
from ge.dialects.fused.ops import Conv2DOp, PoolOp
from ge.dialects.graph.base import shape_of
from ge.dialects.npu.axes import Axis
from ge.dialects.npu.isa.cube import accumulator
from ge.lowering.kernels.collapse import collapse
from ge.lowering.kernels.description import (
    Description,
    Dim,
    DimKind,
    Matrix,
    Operand,
    Step,
    Value,
    Vector,
)
from ge.lowering.kernels.matmul import with_epilogue
from ge.lowering.kernels.region import RegionWriter, dtype_of, operand, result, tile_of
from ge.lowering.kernels.vector_writer import Tile, VectorWriter

_Body = Callable[[VectorWriter], tuple[Tile, list[Step]]]
"""Writes what comes before the window loop; gives the accumulated tile and the loop's steps."""


WINDOW = ("ky", "kx")
"""The places of a window, walked one by one."""


def _tap(writer: VectorWriter, operand: Operand) -> tuple[Tile, list[Step]]:
    """What one place of the window sees of an operand, in f32, and the step that makes it so."""
    if operand.dtype is F32:
        return tile_of(operand), []
    wide = writer.new([d for d in operand.dims if d not in WINDOW], F32)
    return wide, [Step("vconv", wide.name, (operand.name,), words=("rint",), over=WINDOW)]


def _axis(*terms: tuple[str, int], offset: int = 0) -> Axis:
    return Axis(tuple(terms), offset)


def _windows(op: Conv2DOp | PoolOp) -> list[Axis]:
    """The image's rows and columns that an output place and a window place meet at."""
    strides, dilations, pads = op.strides.data, op.dilations.data, op.pads.data
    return [
        _axis(("y", strides[0]), ("ky", dilations[0]), offset=-pads[0]),
        _axis(("x", strides[1]), ("kx", dilations[1]), offset=-pads[1]),
    ]


def describe_conv(op: Conv2DOp) -> Description:
    """A convolution on the cube, or on the vector unit where a group has one channel."""
    if shape_of(op.ins[1])[1] == 1 and op.group.value.data > 1:
        return _depthwise(op)
    image, weights = op.ins[0], op.ins[1]
    batch, channels, height, width = shape_of(op.body.block.args[0])
    groups = op.group.value.data
    inputs, ky, kx = shape_of(weights)[1:]
    extents = {
        "g": groups,
        "b": batch,
        "o": channels // groups,
        "y": height,
        "x": width,
        "i": inputs,
        "ky": ky,
        "kx": kx,
    }
    over = ("i", "ky", "kx")
    dims = [
        Dim(d, n, DimKind.REDUCE if d in over else DimKind.PARALLEL) for d, n in extents.items()
    ]
    channel = _axis(("g", channels // groups), ("o", 1)) if groups > 1 else _axis(("o", 1))
    source = _axis(("g", inputs), ("i", 1)) if groups > 1 else _axis(("i", 1))
    if groups == 1:
        dims = dims[1:]
    if op.channels_last:
        dims = _behind(dims, "o")
    reached = _windows(op)
    x = operand("x", image, [_axis(("b", 1)), source, *reached], windows=reached)
    w = operand("w", weights, [channel, *(_axis((d, 1)) for d in over)])
    rows = ("g", "o") if groups > 1 else ("o",)
    axes = [_axis(("b", 1)), channel, _axis(("y", 1)), _axis(("x", 1))]
    dtype = accumulator(dtype_of(image))
    if op.channels_last:
        acc = Value((*rows[:-1], "b", "y", "x", "o"), dtype)
        return collapse(with_epilogue(op, dims, (x, w), Matrix("acc", "x", "w", over), acc, axes))
    acc = Value((*rows, "b", "y", "x"), dtype)
    return with_epilogue(op, dims, (x, w), Matrix("acc", "w", "x", over), acc, axes)


def _behind(dims: list[Dim], channel: str) -> list[Dim]:
    """The dimensions with that of the channels behind those of the places."""
    moved = [d for d in dims if d.name != channel]
    at = next(i for i, d in enumerate(moved) if d.name == "x") + 1
    moved.insert(at, next(d for d in dims if d.name == channel))
    return moved


def _depthwise(op: Conv2DOp) -> Description:
    """One channel in, `channels / groups` out: multiply and add on the vector unit."""
    image, weights = op.ins[0], op.ins[1]
    batch, channels, height, width = shape_of(op.body.block.args[0])
    groups = op.group.value.data
    ky, kx = shape_of(weights)[2:]
    many = channels // groups
    outer = {"b": batch, "c": groups, **({"j": many} if many > 1 else {})}
    extents = {**outer, "y": height, "x": width, "ky": ky, "kx": kx}
    channel = _axis(("c", many), ("j", 1)) if many > 1 else _axis(("c", 1))
    reached = _windows(op)
    x = operand("img", image, [_axis(("b", 1)), _axis(("c", 1)), *reached], windows=reached)
    w = operand("w", weights, [channel, _axis(), _axis(("ky", 1)), _axis(("kx", 1))])
    axes = [_axis(("b", 1)), channel, _axis(("y", 1)), _axis(("x", 1))]

    def body(writer: VectorWriter) -> tuple[Tile, list[Step]]:
        acc = writer.fill(0.0, (*outer, "y", "x"), F32)
        (image_tile, first), (weight, second) = (_tap(writer, t) for t in (x, w))
        names = (image_tile.name, weight.name)
        return acc, [*first, *second, Step("vmla", acc.name, names, over=WINDOW)]

    return _window_kernel(op, extents, (x, w), axes, body)


def lowest(dtype: DType) -> float:
    """What no element of a type lies below."""
    if dtype.is_float:
        return -inf
    return 0.0 if dtype.name[0] == "u" else -(2.0 ** (dtype.bits - 1))


def describe_pool(op: PoolOp) -> Description:
    """The largest element, or the sum, of each window."""
    image = op.ins[0]
    batch, channels, height, width = shape_of(op.body.block.args[0])
    ky, kx = op.window.data
    extents = {"b": batch, "c": channels, "y": height, "x": width, "ky": ky, "kx": kx}
    largest = op.reduction.data == "max"
    axes = [_axis((d, 1)) for d in ("b", "c", "y", "x")]
    least = lowest(dtype_of(image))
    reached, outside = _windows(op), least if largest else 0.0
    x = operand("img", image, [*axes[:2], *reached], outside, reached)

    def body(writer: VectorWriter) -> tuple[Tile, list[Step]]:
        dims = ("b", "c", "y", "x")
        if largest:
            acc = writer.fill(least, dims, x.dtype)
            return acc, [Step("vmax", acc.name, (acc.name, x.name), over=WINDOW)]
        acc = writer.fill(0.0, dims, F32)
        wide, steps = _tap(writer, x)
        return acc, [*steps, Step("vadd", acc.name, (acc.name, wide.name), over=WINDOW)]

    return collapse(_window_kernel(op, extents, (x,), axes, body))


def _window_kernel(
    op: FusedOp,
    extents: dict[str, int],
    anchor: tuple[Operand, ...],
    axes: list[Axis],
    body: _Body,
) -> Description:
    """A kernel of the vector unit that walks windows, then runs the region."""
    dims = [
        Dim(d, n, DimKind.WHOLE if d in WINDOW else DimKind.PARALLEL) for d, n in extents.items()
    ]
    if op.channels_last:
        dims = _behind(dims, "c")
    writer = VectorWriter({d.name: d.extent for d in dims})
    region = RegionWriter(writer, extents)
    acc, steps = body(writer)
    writer.steps += steps
    args = list(op.body.block.args)
    if not (element := dtype_of(args[0])).is_float:
        acc = writer.convert(acc, element)
    region.bind(args[0], acc, axes)
    extras = [operand(f"x{i}", v, axes) for i, v in enumerate(op.extras)]
    for value, tensor in zip(args[1:], extras, strict=True):
        region.bind(value, tile_of(tensor), axes)
    out = result("y", op, axes)
    writer.finish(region.run(op), "y", acc.dims, out.dtype)
    return Description(
        kind=op.kind.data,
        dims=tuple(dims),
        operands=(*anchor, *extras),
        results=(out,),
        body=(Vector(writer.done()),),
        values=tuple(writer.values.items()),
    )
