"""What the AI CPU computes: one operator of the `graph` dialect, kept as its text.

The text is the whole of a routine, in assembly and in objects; operator, types and attributes are
read from it when somebody needs them.
"""

from __future__ import annotations

from functools import cache, cached_property
from io import StringIO
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ge.dialects.dtypes import DType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.context import Context
    from xdsl.ir import Operation

    from ge.dialects.graph.base import GraphOp

MOST_CHARACTERS = 1 << 16
"""Characters of a routine's text at most."""


class Operand(NamedTuple):
    """A tensor that a routine reads or writes, its elements in order."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.bytes


class Routine:
    """A symbol and the text of the operator behind it."""

    def __init__(self, symbol: str, text: str) -> None:
        self.symbol = symbol
        self.text = text

    @cached_property
    def operation(self) -> GraphOp:
        """The operator; raises ValueError for a text that is not one the AI CPU computes."""
        from ge.dialects.graph.base import GraphOp

        op = _read(self.text)
        if not isinstance(op, GraphOp) or not op.on_host:
            raise ValueError(f"'{op.name}' must be an operator that the AI CPU computes")
        if text_of(op) != self.text:
            raise ValueError(f"the text must be as it is printed: {text_of(op)}")
        return op

    @cached_property
    def reads(self) -> tuple[Operand, ...]:
        """What it reads, in the order of its addresses; what it writes comes behind."""
        return _operands(self.operation.operand_types)

    @cached_property
    def writes(self) -> tuple[Operand, ...]:
        """What it writes."""
        return _operands(self.operation.result_types)

    @property
    def operator(self) -> str:
        """The operator's name in ONNX."""
        return self.operation.ONNX

    @property
    def bytes(self) -> int:
        """Bytes of all it reads and writes."""
        return sum(operand.bytes for operand in (*self.reads, *self.writes))

    def compute(self, arrays: Sequence[Any]) -> list[Any]:
        """The results; raises ValueError where the operator has none for these values."""
        given = iter(arrays)
        op = self.operation
        operands = [None if v is None else next(given) for v in op.arguments]
        try:
            return op.evaluate_all(operands, op.attrs)
        except (TypeError, LookupError, ArithmeticError, MemoryError) as e:
            raise ValueError(f"{op.ONNX} has no result: {e}") from e

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Routine) and (self.symbol, self.text) == (other.symbol, other.text)

    def __hash__(self) -> int:
        return hash((self.symbol, self.text))

    def __repr__(self) -> str:
        return f"Routine({self.symbol!r}, {self.text!r})"


def text_of(op: Operation) -> str:
    """The operator's text: operands are called x0, x1, ..., results y0, y1, ..."""
    from xdsl.printer import Printer

    for stem, values in (("x", dict.fromkeys(op.operands)), ("y", op.results)):
        for number, value in enumerate(values):
            value.name_hint = f"{stem}{number}"
    out = StringIO()
    Printer(stream=out).print_op(op)
    return out.getvalue()


def _read(text: str) -> Operation:
    from ge.dialects.diagnostics import InputError
    from ge.dialects.module_text import parse_operation

    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"the text must have at most {MOST_CHARACTERS} characters")
    try:
        return parse_operation(text, "", _context())
    except InputError as e:
        raise ValueError(e.message) from None


@cache
def _context() -> Context:
    """Knows the operators and nothing else."""
    from xdsl.context import Context
    from xdsl.dialects.builtin import Builtin

    from ge.dialects.graph import Graph

    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Graph)
    return context


def _operands(types: Sequence[Any]) -> tuple[Operand, ...]:
    from ge.dialects import dtypes

    return tuple(Operand(dtypes.of_ir(t.element_type), tuple(t.get_shape())) for t in types)
