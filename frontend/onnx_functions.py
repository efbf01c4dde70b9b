"""Operators that ONNX itself defines by a body of simpler ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir
from onnx import helper

from ge.dialects import dtypes
from ge.dialects.graph.base import Tensor, dims


@dataclass
class Body:
    """The nodes of a function, its parameters and results, and the opsets it is written in."""

    function: ir.Function
    opsets: dict[str, int]
    outputs: list[ir.Value | None]
    """None for an output that this use of the operator does not have."""

    @property
    def inputs(self) -> Sequence[ir.Value]:
        return list(self.function.inputs)

    def present(self, count: int, given: Sequence[bool]) -> Iterator[ir.Node]:
        """The nodes, where parameters that got no value are absent inputs."""
        absent = {v for i, v in enumerate(self.function.inputs) if i >= count or not given[i]}
        for node in self.function:
            for i, v in enumerate(node.inputs):
                if v in absent:
                    node.replace_input_with(i, None)
            yield node


def has_body(op: str, version: int) -> bool:
    """Whether ONNX defines an operator by simpler ones, at least for some inputs."""
    try:
        schema: Any = onnx.defs.get_schema(op, version)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def function_body(node: ir.Node, version: int, types: Sequence[Tensor | None]) -> Body | None:
    """The body of an operator for these input types, its attributes filled in; None without one."""
    # onnx's own type stubs leave out the function members of a schema.
    schema: Any
    try:
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return None
    proto = _body(schema, node, version, types)
    if proto is None:
        return None
    # A body that depends on the node leaves out what the node does not ask for.
    names = list(proto.output)
    made = {name for inner in proto.node for name in inner.output}
    del proto.output[:]
    proto.output.extend(name for name in names if name in made)
    function: Any = ir.from_proto(proto)
    _fill_attributes(function, node, schema)
    values = {v.name: v for v in function.outputs}
    return Body(function, dict(function.opset_imports), [values.get(name) for name in names])


def _body(
    schema: Any, node: ir.Node, version: int, types: Sequence[Tensor | None]
) -> onnx.FunctionProto | None:
    if schema.function_opset_versions:
        chosen = _not_newer(schema.function_opset_versions, version)
        return _parsed(schema.get_function_with_opset_version(chosen))
    if schema.context_dependent_function_opset_versions:
        chosen = _not_newer(schema.context_dependent_function_opset_versions, version)
        protos = [_type_proto(t).SerializeToString() for t in types]
        text = ir.to_proto(node).SerializeToString()
        made = schema.get_context_dependent_function_with_opset_version(chosen, text, protos)
        return _parsed(made) if made else None
    return None


def _not_newer(versions: Sequence[int], version: int) -> int:
    """The newest body that the model's opset may use, or the oldest there is."""
    return max((v for v in versions if v <= version), default=min(versions))


def _parsed(body: onnx.FunctionProto | bytes) -> onnx.FunctionProto:
    if isinstance(body, onnx.FunctionProto):
        return body
    proto = onnx.FunctionProto()
    proto.ParseFromString(body)
    return proto


def _type_proto(type_: Tensor | None) -> onnx.TypeProto:
    if type_ is None:
        return onnx.TypeProto()
    return helper.make_tensor_type_proto(dtypes.of_ir(type_.element_type).onnx, dims(type_))


def _fill_attributes(function: ir.Function, node: ir.Node, schema: Any) -> None:
    """Replace references to the operator's attributes by their values, or their defaults."""
    for inner in function.all_nodes():
        for name, attr in list(inner.attributes.items()):
            if not attr.is_ref():
                continue
            outer = attr.ref_attr_name or ""
            default = schema.attributes[outer].default_value
            if outer in node.attributes:
                value: Any = node.attributes[outer]
            elif default.type:
                value = ir.from_proto(default)
            else:
                del inner.attributes[name]
                continue
            inner.attributes[name] = ir.Attr(name, value.type, value.value)
