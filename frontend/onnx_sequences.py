"""Sequences and optional values: known when a model is imported, so that no program has any."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ge.dialects.graph.base import need
from ge.dialects.graph.ops.layout import ReshapeOp, SliceOp
from ge.frontend.onnx_bodies import stacked
from ge.frontend.onnx_maths import Maths
from ge.frontend.onnx_nodes import Builder, Items, Node, Refused, Value
from ge.frontend.onnx_versions import adapts


def _items(node: Node) -> Items:
    value: Any = node.needed(0)
    if not isinstance(value, Items):
        raise Refused("must be given a sequence that the model makes itself")
    return value


def _sequence(parts: Any) -> list[Value]:
    """A sequence stands where a value stands, until one of its tensors is taken out."""
    return [cast(Value, Items(parts))]


def _position(node: Node, i: int, count: int, most: int) -> int | None:
    """A place in a sequence of so many tensors; None if none is said."""
    known = node.ints(i, "position")
    if known is None:
        return None
    at = known[0]
    need(-count <= at < most, f"'position' must be in [{-count}, {most - 1}], got {at}")
    return at % count if at < 0 else at


@adapts("SequenceEmpty")
def _empty(g: Builder, node: Node) -> list[Value]:
    return _sequence(())


@adapts("SequenceConstruct")
def _construct(g: Builder, node: Node) -> list[Value]:
    return _sequence(node.needed(i) for i in range(len(node.inputs)))


@adapts("SequenceInsert")
def _insert(g: Builder, node: Node) -> list[Value]:
    items = _items(node)
    at = _position(node, 2, len(items), len(items) + 1)
    at = len(items) if at is None else at
    return _sequence((*items[:at], node.needed(1), *items[at:]))


@adapts("SequenceErase")
def _erase(g: Builder, node: Node) -> list[Value]:
    items = _items(node)
    at = _position(node, 1, len(items), len(items))
    at = len(items) - 1 if at is None else at
    return _sequence((*items[:at], *items[at + 1 :]))


@adapts("SequenceAt")
def _at(g: Builder, node: Node) -> list[Value]:
    items = _items(node)
    at = _position(node, 1, len(items), len(items))
    if at is None:
        raise Refused("needs a position")
    return [items[at]]


@adapts("SequenceLength")
def _length(g: Builder, node: Node) -> list[Value]:
    return [np.asarray(len(_items(node)), np.int64)]


@adapts("SplitToSequence")
def _split(g: Builder, node: Node) -> list[Value]:
    x = node.needed(0)
    shape = g.shape_of(x)
    axis = node.attrs.get("axis", 0) % len(shape)
    size, given = shape[axis], node.known(1, "split")
    known = None if given is None else tuple(int(v) for v in given.reshape(-1))
    if given is not None and given.ndim and known is not None:
        sizes = known
    else:
        step = 1 if known is None else known[0]
        need(step > 0, f"'split' must be positive, got {step}")
        sizes = tuple(min(step, size - start) for start in range(0, size, step))
    whole = sum(sizes) == size and min(sizes, default=0) >= 0
    need(whole, f"'split' must add up to {size}, got {list(sizes)}")
    ends = np.cumsum(sizes).tolist()
    cuts = [
        g.one(SliceOp, x, starts=(end - n,), ends=(end,), axes=(axis,), steps=(1,))
        for n, end in zip(sizes, ends, strict=True)
    ]
    if known is None and not node.attrs.get("keepdims", 1):
        thin = (*shape[:axis], *shape[axis + 1 :])
        cuts = [g.one(ReshapeOp, cut, shape=thin) for cut in cuts]
    return _sequence(cuts)


@adapts("ConcatFromSequence")
def _concat(g: Builder, node: Node) -> list[Value]:
    items, axis = _items(node), node.attrs.get("axis", 0)
    need(len(items) > 0, "a sequence to be joined must have tensors")
    if node.attrs.get("new_axis", 0):
        return [stacked(g, items, axis)]
    return [Maths(g).concat(items, axis)]


@adapts("Optional")
def _optional(g: Builder, node: Node) -> list[Value]:
    return [cast(Value, node.input(0) if node.inputs else None)]


@adapts("OptionalHasElement")
def _has_element(g: Builder, node: Node) -> list[Value]:
    return [np.asarray(bool(node.inputs) and node.input(0) is not None)]


@adapts("OptionalGetElement")
def _element(g: Builder, node: Node) -> list[Value]:
    return [node.needed(0)]
