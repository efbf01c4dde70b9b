"""Attributes that more than one dialect uses."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer


def strings(words: Iterable[str]) -> ArrayAttr[StringAttr]:
    """Words as an attribute."""
    return ArrayAttr([StringAttr(w) for w in words])


@irdl_attr_definition
class IntsAttr(Data[tuple[int, ...]]):
    """A list of integers: `#ge.ints<0, 64>`."""

    name = "ge.ints"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[int, ...]:
        angle = parser.Delimiter.ANGLE
        return tuple(parser.parse_comma_separated_list(angle, parser.parse_integer))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(", ".join(map(str, self.data)))
