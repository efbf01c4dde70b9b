"""Attributes of ONNX nodes, as the operators here have them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import onnx
import onnx_ir as ir
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.base import GraphOp
from ge.frontend.onnx_nodes import Node, Refused


def attributes(cls: type[GraphOp], node: Node) -> dict[str, Any]:
    """The attributes that the operator has here; any other must have its default."""
    kinds, attrs = cls.kinds(), {}
    for name, value in node.attrs.items():
        if name in kinds:
            attrs[name] = of_onnx(kinds[name], value, name)
        elif value != (default := _default(node, name)):
            raise Refused(f"the attribute '{name}' must be {default}, got {value}")
    return attrs


def of_onnx(kind: Any, value: Any, name: str) -> Any:
    """An attribute as the operator keeps it; raises Refused for what it cannot be."""
    try:
        return kind.of_onnx(value)
    except VerifyException as e:
        raise Refused(f"'{name}' {e}") from None
    except (TypeError, ValueError, IndexError, OverflowError):
        raise Refused(f"'{name}' must be {kind.what}, got {value!r}") from None


def _default(node: Node, name: str) -> Any:
    """The default of an attribute in the operator's own version."""
    try:
        row = onnx.defs.get_schema(node.op, node.version).attributes[name].default_value
    except (KeyError, onnx.defs.SchemaError):
        return None
    value = onnx.helper.get_attribute_value(row) if row.type else None
    return value.decode() if isinstance(value, bytes) else value


@cache
def _declared(op: str, version: int) -> tuple[dict[str, int], list[str]]:
    """By the attributes of an operator their types, and those that it needs."""
    try:
        rows: Mapping[str, Any] = onnx.defs.get_schema(op, version).attributes
    except onnx.defs.SchemaError:
        return {}, []
    types = {name: int(row.type.value) for name, row in rows.items()}
    return types, [name for name, row in rows.items() if row.required]


def check_attributes(op: str, version: int, given: Mapping[str, ir.Attr]) -> None:
    """Raise VerifyException for an attribute of a type that ONNX does not say, or none at all."""
    types, needed = _declared(op, version)
    for name, attr in given.items():
        if (want := types.get(name)) is not None and int(attr.type) != want:
            kind = ir.AttributeType(want).name
            raise VerifyException(f"the attribute '{name}' must be {kind}, got {attr.type.name}")
    for name in needed:
        if name not in given:
            raise VerifyException(f"needs the attribute '{name}'")


def python_value(attr: ir.Attr) -> Any:
    """An attribute as a Python value; a tensor as an array."""
    if attr.type == ir.AttributeType.TENSOR:
        try:
            return attr.value.numpy()
        except (OSError, ValueError, TypeError) as e:
            raise VerifyException(f"the attribute '{attr.name}' must be readable, {e}") from None
    return tuple(attr.value) if isinstance(attr.value, (list, tuple)) else attr.value
