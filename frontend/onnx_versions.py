"""What differs between operator versions, brought to the newest form: one adapter an operator.

An adapter changes the node in place, or returns its results when those are no single operator.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects import dtypes
from ge.dialects.graph.base import GraphOp, need
from ge.dialects.graph.ops.binary import AddOp, DivOp, MaxOp, MinOp, MulOp
from ge.dialects.graph.ops.layout import ReshapeOp
from ge.dialects.graph.ops.norm import HardmaxOp, LogSoftmaxOp, SoftmaxOp
from ge.dialects.graph.ops.unary import AbsOp, CastOp, DropoutOp, IdentityOp, LogOp
from ge.frontend.onnx_nodes import Builder, Node, Refused, TooLarge, Value
from ge.frontend.onnx_places import moving_range, moving_slice

Adapter = Callable[[Builder, Node], "list[Value] | None"]
ADAPTERS: dict[str, Adapter] = {}
CONSTANT_MOST = 2**28
"""Elements of a constant that a model describes and does not hold."""

NO_END = (2**31 - 1, 2**63 - 1)
"""Ends of a slice that say none: backwards too, in onnxruntime."""


def adapts(*names: str) -> Callable[[Adapter], Adapter]:
    """Register an adapter for operators by their ONNX names."""

    def add(adapter: Adapter) -> Adapter:
        ADAPTERS.update(dict.fromkeys(names, adapter))
        return adapter

    return add


def _chain(cls: Any) -> Adapter:
    """N operands become n - 1 operations on two."""

    def adapter(g: Builder, node: Node) -> list[Value]:
        total = node.needed(0)
        for i in range(1, len(node.inputs)):
            total = g.one(cls, total, node.needed(i))
        return [total]

    return adapter


ADAPTERS |= {"Sum": _chain(AddOp), "Max": _chain(MaxOp), "Min": _chain(MinOp)}


@adapts("Mean")
def _mean(g: Builder, node: Node) -> list[Value]:
    (total,) = _chain(AddOp)(g, node) or []
    count = np.asarray(len(node.inputs), g.numpy_type(total))
    return [g.one(DivOp, total, count)]


@adapts("Constant")
def _constant(g: Builder, node: Node) -> list[Value]:
    floats = {"value_float", "value_floats"}
    for name, value in node.attrs.items():
        if name == "value":
            return [np.asarray(value)]
        if name in floats or name in {"value_int", "value_ints"}:
            return [np.asarray(value, np.float32 if name in floats else np.int64)]
        raise Refused(f"the attribute '{name}' is not supported", "'value'")
    raise Refused("needs the attribute 'value'")


@adapts("Shape")
def _shape(g: Builder, node: Node) -> list[Value]:
    shape = g.shape_of(node.needed(0))
    start, end = node.attrs.get("start", 0), node.attrs.get("end", len(shape))
    return [np.asarray(shape[start:end] if end > -len(shape) - 1 else (), np.int64)]


@adapts("Size")
def _size(g: Builder, node: Node) -> list[Value]:
    return [np.asarray(prod(g.shape_of(node.needed(0))), np.int64)]


def _check_count(count: int) -> None:
    """A few bytes of a model may ask for more memory than there is."""
    if count > CONSTANT_MOST:
        raise TooLarge(f"a constant must have at most {CONSTANT_MOST} elements, got {count}")


@adapts("ConstantOfShape")
def _constant_of_shape(g: Builder, node: Node) -> list[Value]:
    fill = np.asarray(node.attrs.get("value", np.zeros(1, np.float32)))
    shape = node.ints(0, "input") or ()
    need(min(shape, default=0) >= 0, f"dims must be 0 or more, got {list(shape)}")
    _check_count(prod(shape))
    return [np.full(shape, fill.reshape(-1)[0], fill.dtype)]


@adapts("Range")
def _range(g: Builder, node: Node) -> list[Value]:
    if (moving := moving_range(g, *(node.needed(i) for i in range(3)))) is not None:
        return [moving]
    start, limit, delta = (node.known(i, w) for i, w in enumerate(("start", "limit", "delta")))
    if start is None or limit is None or delta is None:
        raise Refused("needs three inputs")
    start, limit, delta = (v.reshape(-1)[0] for v in (start, limit, delta))
    ends = bool(delta) and bool(np.isfinite([start, limit, delta]).all())
    need(ends, f"a range must end, got one from {start} to {limit} in steps of {delta}")
    count = max(0, int(np.ceil((limit - start) / delta)))
    _check_count(count)
    return [(start + np.arange(count, dtype=start.dtype) * delta).astype(start.dtype)]


@adapts("EyeLike")
def _eye_like(g: Builder, node: Node) -> list[Value]:
    x = node.needed(0)
    to = node.attrs.get("dtype")
    dtype = g.numpy_type(x) if to is None else dtypes.BY_ONNX[to].numpy
    rows, columns = g.shape_of(x)
    _check_count(rows * columns)
    return [np.eye(rows, columns, k=node.attrs.get("k", 0), dtype=dtype)]


@adapts("Dropout")
def _dropout(g: Builder, node: Node) -> list[Value]:
    training = node.known(2, "training_mode")
    ratio = node.known(1, "ratio")
    given = node.attrs.get("ratio", 0.5) if ratio is None else float(ratio.reshape(-1)[0])
    if training is not None and bool(training) and given:
        raise Refused("'training_mode' must be false, or the ratio 0", "inference")
    x = node.needed(0)
    outs = [g.one(DropoutOp, x, ratio=given)]
    return [*outs, np.ones(g.shape_of(x), bool)] if len(node.used) > 1 else outs


_ROWS: dict[str, type[GraphOp]] = {c.ONNX: c for c in (SoftmaxOp, LogSoftmaxOp, HardmaxOp)}


@adapts(*_ROWS)
def _softmax(g: Builder, node: Node) -> list[Value] | None:
    if node.version >= 13:
        return None
    x = node.needed(0)
    shape = g.shape_of(x)
    axis = node.attrs.get("axis", 1) % max(1, len(shape))
    # Before version 13 all dims from the axis on were one row.
    if axis == len(shape) - 1:
        node.attrs["axis"] = -1
        return None
    rows = g.one(ReshapeOp, x, shape=(prod(shape[:axis]), prod(shape[axis:])))
    return [g.one(ReshapeOp, g.one(_ROWS[node.op], rows, axis=-1), shape=shape)]


@adapts("LayerNormalization", "RMSNormalization")
def _row_norm(g: Builder, node: Node) -> None:
    node.only_first_output()
    node.drop("stash_type")


@adapts("GroupNormalization")
def _group_norm(g: Builder, node: Node) -> None:
    node.drop("stash_type")
    channels = g.shape_of(node.needed(0))[1]
    for i in (1, 2):
        parameter = node.needed(i)
        if node.version < 21 and g.shape_of(parameter) != (channels,):
            known = node.known(i, "scale and bias")
            assert known is not None
            node.inputs[i] = np.repeat(known, channels // known.size)


def _sum_of_one(g: Builder, op: str, x: Value) -> Value:
    """What is summed, of each element alone: no axis is gone over."""
    if op == "ReduceSumSquare":
        return g.one(MulOp, x, x)
    rows: dict[str, Any] = {"ReduceL1": AbsOp, "ReduceL2": AbsOp, "ReduceLogSum": LogOp}
    return g.one(rows.get(op, IdentityOp), x)


@adapts("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2")
@adapts("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
def _reduce(g: Builder, node: Node) -> list[Value] | None:
    axes = node.attrs.pop("axes", None) or node.ints(1, "axes")
    noop = node.attrs.pop("noop_with_empty_axes", 0)
    if not axes and noop:
        return [_sum_of_one(g, node.op, node.needed(0))]
    node.attrs["axes"] = axes or tuple(range(len(g.shape_of(node.needed(0)))))
    del node.inputs[1:]
    return None


@adapts("PRelu")
def _prelu(g: Builder, node: Node) -> None:
    # Old models give a slope a channel, whatever dims are behind the channels.
    slope, shape = g.shape_of(node.needed(1)), g.shape_of(node.needed(0))
    if node.version < 9 and len(slope) == 1 and len(shape) > 2 and slope[0] == shape[1]:
        node.inputs[1] = g.one(ReshapeOp, node.needed(1), shape=(*slope, *(1,) * (len(shape) - 2)))


@adapts("Squeeze")
def _squeeze(g: Builder, node: Node) -> None:
    axes = node.attrs.get("axes") or node.ints(1, "axes")
    shape = g.shape_of(node.needed(0))
    node.attrs["axes"] = axes or tuple(i for i, d in enumerate(shape) if d == 1)
    del node.inputs[1:]


@adapts("Gather", "GatherElements", "ScatterElements", "Scatter")
def _known_places(g: Builder, node: Node) -> None:
    """Places that are known must be there: nothing looks when the program runs."""
    shape, at = g.shape_of(node.needed(0)), node.needed(1)
    axis = node.attrs.get("axis", 0)
    if isinstance(at, SSAValue) or not at.size or not -len(shape) <= axis < len(shape):
        return
    n = shape[axis]
    need(-n <= at.min() and at.max() < n, f"indices must be in [{-n}, {n - 1}], got {at.max()}")


@adapts("Split")
def _split(g: Builder, node: Node) -> None:
    node.drop("num_outputs")
    sizes = node.attrs.get("split") or node.ints(1, "split")
    if not sizes:
        whole = g.shape_of(node.needed(0))[node.attrs.get("axis", 0)]
        part = -(-whole // len(node.used))
        sizes = tuple(max(0, min(part, whole - i * part)) for i in range(len(node.used)))
    node.attrs["split"] = sizes
    del node.inputs[1:]


@adapts("Slice")
def _slice(g: Builder, node: Node) -> list[Value] | None:
    if node.version >= 10:
        x, *ends = (node.needed(i) for i in range(3))
        if (moving := moving_slice(g, x, ends, node.input(3), node.input(4))) is not None:
            return [moving]
    for i, name in enumerate(("starts", "ends", "axes", "steps"), 1):
        value = node.ints(i, name) if node.version >= 10 else node.attrs.get(name)
        if value is not None:
            node.attrs[name] = value
    count = len(node.attrs.get("starts", ()))
    node.attrs.setdefault("axes", tuple(range(count)))
    node.attrs.setdefault("steps", (1,) * count)
    pairs = zip(node.attrs.get("ends", ()), node.attrs["steps"], strict=False)
    node.attrs["ends"] = tuple(-e if e in NO_END and s < 0 else e for e, s in pairs)
    del node.inputs[1:]
    return None


@adapts("Pad")
def _pad(g: Builder, node: Node) -> None:
    x = node.needed(0)
    rank = len(g.shape_of(x))
    value: Value | None = node.input(2)
    if node.version < 11:
        value = np.asarray(node.attrs.pop("value", 0.0), g.numpy_type(x))
    pads = node.attrs.get("pads") if node.version < 11 else node.ints(1, "pads")
    axes = node.ints(3, "axes")
    if pads is None:
        raise Refused("needs 'pads'")
    if axes is not None:
        full = [0] * 2 * rank
        for i, a in enumerate(axes):
            full[a % rank], full[rank + a % rank] = pads[i], pads[len(axes) + i]
        pads = tuple(full)
    node.attrs["pads"] = pads
    node.inputs = [x, None, value]


@adapts("Clip")
def _clip(g: Builder, node: Node) -> None:
    if node.version < 11:
        dtype = g.numpy_type(node.needed(0))
        for name in ("min", "max"):
            bound = node.attrs.pop(name, None)
            node.inputs.append(None if bound is None else np.asarray(bound, dtype))


@adapts("Cast")
def _cast(g: Builder, node: Node) -> None:
    node.drop("saturate", "round_mode")


@adapts("CastLike")
def _cast_like(g: Builder, node: Node) -> list[Value]:
    to = dtypes.of_ir(g.type_of(node.needed(1)).element_type)
    return [g.one(CastOp, node.needed(0), to=to)]


@adapts("Reshape")
def _reshape(g: Builder, node: Node) -> None:
    asked = node.ints(1, "shape")
    if asked is None:
        asked = node.attrs.get("shape", ())
    keep_zero = node.attrs.pop("allowzero", 0)
    old = g.shape_of(node.needed(0))
    shape = [
        old[i] if d == 0 and not keep_zero and i < len(old) else d for i, d in enumerate(asked)
    ]
    if shape.count(-1) == 1:
        rest = prod(d for d in shape if d != -1)
        shape[shape.index(-1)] = prod(old) // rest if rest else 0
    node.attrs["shape"] = tuple(shape)
    del node.inputs[1:]


@adapts("Expand")
def _expand(g: Builder, node: Node) -> None:
    asked = node.ints(1, "shape") or ()
    node.attrs["shape"] = np.broadcast_shapes(asked, g.shape_of(node.needed(0)))
    del node.inputs[1:]


@adapts("Transpose")
def _transpose(g: Builder, node: Node) -> None:
    rank = len(g.shape_of(node.needed(0)))
    node.attrs.setdefault("perm", tuple(reversed(range(rank))))


@adapts("SpaceToDepth")
def _space_to_depth(g: Builder, node: Node) -> None:
    if node.attrs.pop("mode", "DCR") != "DCR":
        raise Refused("'mode' must be 'DCR'", "'DCR'")


@adapts("Attention")
def _attention(g: Builder, node: Node) -> None:
    node.only_first_output()
    if any(v is not None for v in node.inputs[4:]):
        raise Refused("past keys and values are not supported", "the whole sequence at once")
    for name in ("left_window_size", "right_window_size"):
        if node.attrs.pop(name, -1) != -1:
            raise Refused(f"'{name}' is not supported", "a mask")
    node.drop("qk_matmul_output_mode", "softmax_precision")
    del node.inputs[4:]


@adapts("Scatter")
def _scatter(g: Builder, node: Node) -> None:
    node.op = "ScatterElements"
