"""If: the branch that is known to be taken, or both of them on the device, of which one runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.ir import SSAValue

from ge.dialects.diagnostics import InputError
from ge.dialects.graph.ops.layout import ReshapeOp
from ge.frontend.onnx_bodies import Bodies, Part, choose, chosen
from ge.frontend.onnx_loops import loop
from ge.frontend.onnx_nodes import Node, Refused, Value
from ge.frontend.onnx_scan import scan


def _if(bodies: Bodies, node: Node) -> list[Value]:
    """The branch that a known condition takes, or both, of which one is run."""
    condition = node.needed(0)
    names = ("then_branch", "else_branch")
    branches = [node.graph(name, 0, len(node.used)) for name in names]
    if not isinstance(condition, SSAValue):
        return bodies.body(branches[0 if condition.reshape(-1)[0] else 1], [])
    g = bodies.builder
    then, other = (_branch(bodies, branch, condition) for branch in branches)
    if not bodies.outermost:
        # What is outermost can wait for its condition instead, and has the rank of its branch.
        _as_long(then, other)
    types = [[g.type_of(v) for v in part.results] for part in (then, other)]
    if types[0] != types[1]:
        raise Refused("branches must give one type", "branches of equal shapes", condition)
    if then.is_quick() and other.is_quick():
        pairs = zip(then.join(g), other.join(g), strict=True)
        return [chosen(g, condition, a, b) for a, b in pairs]
    return choose(g, condition, then, other)


def _as_long(*parts: Part) -> None:
    """Give results that differ only in ones in front of their shapes the longest of these."""
    for i, pair in enumerate(zip(*(part.results for part in parts), strict=True)):
        shapes = [part.builder.shape_of(v) for part, v in zip(parts, pair, strict=True)]
        longest = max(shapes, key=len)
        padded = [(1,) * (len(longest) - len(shape)) + shape for shape in shapes]
        for part, value, shape in zip(parts, pair, shapes, strict=True):
            if shape != longest and all(p == longest for p in padded):
                part.results[i] = part.builder.one(ReshapeOp, value, shape=longest)


def _branch(bodies: Bodies, graph: Any, condition: SSAValue) -> Part:
    """A branch; refuses one that these shapes rule out, for they may decide."""
    part = Part(bodies.builder.beside(), [])
    try:
        bodies.into(part, graph, [])
    except InputError as e:
        what = f"both branches must be possible with these shapes: {e.message}"
        raise Refused(what, "a known condition", condition) from None
    except Refused as e:
        nearest = e.nearest or "a known condition"
        raise Refused(e.reason, nearest, e.unknown or condition) from None
    return part


CONTROL: Mapping[str, Callable[[Bodies, Node], list[Value]]] = {
    "If": _if,
    "Loop": loop,
    "Scan": scan,
}
"""Operators with graphs inside."""
