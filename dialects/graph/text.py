"""The one text form: `%r = graph.conv %x, %w {strides = [2, 2]} : (types) -> type`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from xdsl.dialects.builtin import FunctionType
from xdsl.ir import Attribute
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ge.dialects.graph.kinds import REQUIRED

if TYPE_CHECKING:
    from ge.dialects.graph.base import GraphOp

OpT = TypeVar("OpT", bound="GraphOp")


def print_operation(op: GraphOp, printer: Printer) -> None:
    """Operands (`_` for an absent one), attributes that differ from their defaults, types."""
    args = list(op.arguments)
    while args and args[-1] is None:
        args.pop()
    for i, v in enumerate(args):
        printer.print_string(", " if i else " ")
        if v is None:
            printer.print_string("_")
        else:
            printer.print_operand(v)
    _print_attributes(op, printer)
    printer.print_string(" : ")
    printer.print_function_type(op.operand_types, op.result_types)


def _print_attributes(op: GraphOp, printer: Printer) -> None:
    kinds = op.kinds()
    names = [n for n in kinds if n in op.properties]
    if not names and not op.attributes:
        return
    printer.print_string(" {")
    for i, name in enumerate(names):
        text = kinds[name].text(kinds[name].to_python(op.properties[name]))
        printer.print_string(f"{', ' if i else ''}{name} = {text}")
    for i, (name, attr) in enumerate(op.attributes.items(), len(names)):
        printer.print_string(", " if i else "")
        printer.print_identifier_or_string_literal(name)
        printer.print_string(" = ")
        printer.print_attribute(attr)
    printer.print_string("}")


def parse_operation(cls: type[OpT], parser: Parser) -> OpT:
    """Read back what `print_operation` wrote."""
    at = parser.pos
    names = _parse_operands(parser)
    properties: dict[str, Attribute] = {}
    attributes: dict[str, Attribute] = {}
    if parser.parse_optional_punctuation("{") is not None:
        while parser.parse_optional_punctuation("}") is None:
            _parse_attribute(cls, parser, properties, attributes)
            if parser.parse_optional_punctuation(",") is None:
                parser.parse_punctuation("}")
                break
    parser.parse_punctuation(":")
    op = _build(cls, parser, at, names, parser.parse_function_type(), properties)
    op.attributes.update(attributes)
    return op


def _parse_operands(parser: Parser) -> list[UnresolvedOperand | None]:
    names: list[UnresolvedOperand | None] = []
    while True:
        if parser.parse_optional_keyword("_") is not None:
            names.append(None)
        elif (name := parser.parse_optional_unresolved_operand()) is not None:
            names.append(name)
        else:
            return names
        if parser.parse_optional_punctuation(",") is None:
            return names


def _parse_attribute(
    cls: type[GraphOp],
    parser: Parser,
    properties: dict[str, Attribute],
    attributes: dict[str, Attribute],
) -> None:
    at = parser.pos
    name = parser.parse_identifier_or_str_literal()
    if name in properties or name in attributes:
        parser.raise_error(f"'{name}' must be given once", at)
    parser.parse_punctuation("=")
    if (kind := cls.kinds().get(name)) is not None:
        properties[name] = kind.to_attr(kind.parse(parser))
    else:
        attributes[name] = parser.parse_attribute()


def _build(
    cls: type[OpT],
    parser: Parser,
    at: int,
    names: Sequence[UnresolvedOperand | None],
    type_: FunctionType,
    properties: dict[str, Attribute],
) -> OpT:
    present = [n for n in names if n is not None]
    if len(present) != len(type_.inputs):
        parser.raise_error(f"{len(present)} operand types expected, got {len(type_.inputs)}", at)
    values = iter(parser.resolve_operands(present, type_.inputs.data, at))
    operands = [None if n is None else next(values) for n in names]
    needed = [n for n, kind in cls.kinds().items() if kind.default is REQUIRED]
    missing = [n for n in needed if n not in properties]
    if missing:
        parser.raise_error(f"{cls.name} needs the attribute '{missing[0]}'", at)
    try:
        return cls.assemble(operands, properties, type_.outputs.data)
    except VerifyException as e:
        parser.raise_error(str(e), at)
