"""Branches and loops as ONNX has them: graphs inside a node that read the values around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import helper
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from ge.dialects import dtypes
from ge.dialects.diagnostics import UnsupportedError
from ge.dialects.graph.base import Array, dims
from ge.dialects.graph.control import ControlOp, IfOp, LoopOp
from ge.dialects.graph.module import return_of

BACKWARDS = -(1 << 62)
"""Where a slice ends that goes back over all of an axis."""


class Exporter(Protocol):
    """What exports a model."""

    names: dict[SSAValue, str]
    taken: set[str]
    nodes: list[onnx.NodeProto]
    """The nodes of the graph that is written now."""

    def operation(self, op: Any) -> None:
        """Add what stands for an operation."""
        ...

    def name(self, value: SSAValue, stem: str) -> str:
        """The name of a value."""
        ...

    def initializer(self, array: Array, stem: str) -> str:
        """The name of a constant."""
        ...


def export_control(e: Exporter, op: ControlOp) -> None:
    """Add the node that stands for a branch or a loop."""
    if isinstance(op, IfOp):
        takes = [e.names[v] for v in op.ins[1:]]
        graphs = [_graph(e, function, takes) for function in op.functions]
        outs = [e.name(v, "v") for v in op.outs]
        branches = dict(zip(("then_branch", "else_branch"), graphs, strict=True))
        e.nodes.append(helper.make_node("If", [e.names[op.ins[0]]], outs, **branches))
        return
    assert isinstance(op, LoopOp)
    _loop(e, op)


def _graph(e: Exporter, function: FuncOp, takes: Sequence[str]) -> onnx.GraphProto:
    """A function as a graph; its arguments have the names of what it is given."""
    outer, e.nodes = e.nodes, []
    outs = _inside(e, function, takes)
    inner, e.nodes = e.nodes, outer
    return helper.make_graph(inner, function.sym_name.data, [], outs)


def _inside(e: Exporter, function: FuncOp, takes: Sequence[str]) -> list[onnx.ValueInfoProto]:
    """Add the nodes of a function; what it gives, each made in its graph."""
    e.names.update(zip(function.body.block.args, takes, strict=True))
    for op in function.body.block.ops:
        if not isinstance(op, ReturnOp):
            e.operation(op)
    outs = []
    for value in return_of(function).arguments:
        outs.append(info(fresh("r", e.taken), value))
        _add(e, "Identity", [e.names[value]], outs[-1].name)
    return outs


def _add(e: Exporter, op: str, inputs: Sequence[str], out: str, **attrs: Any) -> str:
    e.nodes.append(helper.make_node(op, list(inputs), [out], fresh(op, e.taken), **attrs))
    return out


def _loop(e: Exporter, op: LoopOp) -> None:
    own, first = op.carried.value.data, int(op.conditional is not None)
    _, rows = op.turns
    if first and (rows or op.outs[0].first_use is not None):
        raise UnsupportedError("a loop that the data end must give only what it carries")
    most = "" if op.most is None else e.initializer(np.asarray(op.most, np.int64), "trips")
    begin = e.names[op.ins[0]] if first else ""
    inputs = [most, begin, *(e.names[v] for v in op.ins[first:own])]
    outs = [e.name(v, "v") for v in op.outs[first:own]]
    backwards = []
    for value, turn in zip(op.outs[own:], rows, strict=True):
        outs.append(e.name(value, "v") if turn > 0 else fresh("rows", e.taken))
        if turn < 0:
            backwards.append((outs[-1], e.name(value, "v")))
    node = helper.make_node("Loop", inputs, outs, body=_body(e, op))
    e.nodes.append(node)
    for name, out in backwards:
        places = [e.initializer(np.asarray([n], np.int64), "at") for n in (-1, BACKWARDS, 0, -1)]
        _add(e, "Slice", [name, *places], out)


def _body(e: Exporter, op: LoopOp) -> onnx.GraphProto:
    """The body: it takes the trip, the condition and what is carried; slices it cuts itself."""
    (function,) = op.functions
    args, own = list(function.body.block.args), op.carried.value.data
    first, (slices, _) = int(op.conditional is not None), op.turns
    trip, on = (fresh(stem, e.taken) for stem in ("trip", "on"))
    carried = [fresh("s", e.taken) for _ in args[first:own]]
    outer, e.nodes = e.nodes, []
    whole = len(op.ins) - len(slices)
    takes = [*([on] * first), *carried, *(e.names[v] for v in op.ins[own:whole])]
    for value, turn in zip(op.ins[whole:], slices, strict=True):
        place = trip
        if turn < 0:
            last = e.initializer(np.asarray((op.most or 0) - 1, np.int64), "last")
            place = _add(e, "Sub", [last, trip], fresh("place", e.taken))
        takes.append(_add(e, "Gather", [e.names[value], place], fresh("cut", e.taken), axis=0))
    outs = _inside(e, function, takes)
    if not first:
        _add(e, "Identity", [on], fresh("on", e.taken))
        going = helper.make_tensor_value_info(e.nodes[-1].output[0], onnx.TensorProto.BOOL, [])
        outs.insert(0, going)
    inner, e.nodes = e.nodes, outer
    ins = [
        helper.make_tensor_value_info(trip, onnx.TensorProto.INT64, []),
        helper.make_tensor_value_info(on, onnx.TensorProto.BOOL, []),
        *(info(n, a) for n, a in zip(carried, args[first:own], strict=True)),
    ]
    return helper.make_graph(inner, function.sym_name.data, ins, outs)


def fresh(stem: str, taken: set[str]) -> str:
    """A name that no other has; numbered on from how many there are, so that this stays linear."""
    name, n = stem, len(taken)
    while name in taken:
        name, n = f"{stem}_{n}", n + 1
    taken.add(name)
    return name


def info(name: str, value: SSAValue) -> onnx.ValueInfoProto:
    """The declaration of a value."""
    type_: Any = value.type
    element = dtypes.of_ir(type_.element_type).onnx
    return helper.make_tensor_value_info(name, element, dims(type_))
