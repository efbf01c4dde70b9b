"""The `npu` dialect's programs: tensors in device memory, calls of kernels, and instructions.

There is one operation for each row of the instruction table, made from the row.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any, ClassVar

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Data
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolOpInterface, SymbolTable
from xdsl.utils.exceptions import VerifyException

from ge.dialects.attributes import IntsAttr
from ge.dialects.npu.instr import Inst, Instr
from ge.dialects.npu.isa import INSTRS
from ge.dialects.npu.operands import Value
from ge.dialects.npu.routine import Routine
from ge.dialects.npu.syntax import instance
from ge.dialects.npu.tree_types import HbmType


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """
    A program for one machine: its tensors, its kernels, and the calls in order.

    Once its instructions are emitted the calls have become the function `main`.
    """

    name = "npu.program"
    target = prop_def(StringAttr)
    cores = prop_def(IntegerAttr[I64])
    native = prop_def(IntegerAttr[I64])
    arena = opt_prop_def(IntsAttr)
    """Bytes of the arena as planned, its lower bound, and without reuse."""
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolTable(), NoTerminator())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$target `cores` $cores `native` $native attr-dict-with-keyword $body"


@irdl_op_definition
class TensorOp(IRDLOperation):
    """
    A tensor in device memory: an `input`, an `output`, a `weight` or a `temp`.

    `address` is its place in the arena once that is planned. An output that lies where an input
    does has that one's label as `over`.
    """

    name = "npu.tensor"
    role = prop_def(StringAttr)
    label = opt_prop_def(StringAttr)
    value = opt_prop_def(Attribute)
    address = opt_prop_def(IntegerAttr[I64])
    over = opt_prop_def(StringAttr)
    result = result_def(HbmType)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$role attr-dict `:` type($result)"

    @property
    def bytes(self) -> int:
        """The size of its elements together."""
        return prod(self.result.type.shape) * self.result.type.dtype.bytes


@irdl_op_definition
class InvokeOp(IRDLOperation):
    """
    Run a kernel on tensors, each seen from an offset in elements on.

    The last `outs` of them are written. `sources` names the model's nodes this run stands for.
    Inside loops, `steps` has a number for each loop and tensor, the outermost loop's first: so
    many elements further on the tensor is seen with each trip.
    """

    name = "npu.invoke"
    callee = prop_def(SymbolRefAttr)
    outs = prop_def(IntegerAttr[I64])
    offsets = prop_def(IntsAttr)
    sources = prop_def(ArrayAttr[StringAttr])
    steps = opt_prop_def(IntsAttr)
    args = var_operand_def(HbmType)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$callee $args `outs` $outs `offsets` $offsets attr-dict `:` type($args)"

    @property
    def written(self) -> int:
        """The number of the first operand that is written."""
        return len(self.args) - self.outs.value.data

    def verify_(self) -> None:
        _check_steps(self, len(self.args))


def _check_steps(op: InvokeOp | ChooseOp | RepeatOp, operands: int) -> None:
    """As many steps as operands in each loop around."""
    if op.steps is None:
        return
    loops, above = 0, op.parent_op()
    while above is not None:
        loops += isinstance(above, RepeatOp)
        above = above.parent_op()
    if len(op.steps.data) != loops * operands:
        have = len(op.steps.data)
        raise VerifyException(f"{op.name}: must have {loops * operands} steps, got {have}")


@irdl_op_definition
class ChooseOp(IRDLOperation):
    """
    Run the first calls if the element of `condition` at `offset` is not 0, else the second ones.

    `steps` are as those of a call.
    """

    name = "npu.choose"
    condition = operand_def(HbmType)
    offset = prop_def(IntegerAttr[I64])
    steps = opt_prop_def(IntsAttr)
    then = region_def("single_block")
    otherwise = region_def("single_block")
    traits = traits_def(NoTerminator())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$condition `at` $offset attr-dict-with-keyword `:` type($condition) "
        "$then `else` $otherwise"
    )

    def verify_(self) -> None:
        _check_steps(self, 1)


@irdl_op_definition
class RepeatOp(IRDLOperation):
    """
    Run calls `trips` times, 0 for no end, while the element of `condition` at `offset` is not 0.

    Without a condition it runs them `trips` times. `steps` are as those of a call.
    """

    name = "npu.repeat"
    condition = opt_operand_def(HbmType)
    trips = prop_def(IntegerAttr[I64])
    offset = prop_def(IntegerAttr[I64])
    steps = opt_prop_def(IntsAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$trips (`while` $condition^ `:` type($condition))? `at` $offset "
        "attr-dict-with-keyword $body"
    )

    def verify_(self) -> None:
        _check_steps(self, 1 if self.condition else 0)
        if self.condition is None and self.trips.value.data < 1:
            raise VerifyException(f"{self.name}: must have a condition or a number of trips")


@irdl_op_definition
class RoutineOp(IRDLOperation):
    """What the AI CPU is asked to compute: the text of one operator of the `graph` dialect."""

    name = "npu.routine"
    sym_name = prop_def(SymbolNameConstraint())
    text = prop_def(StringAttr)
    traits = traits_def(SymbolOpInterface())
    assembly_format = "$sym_name $text attr-dict"

    def verify_(self) -> None:
        try:
            _ = Routine(self.sym_name.data, self.text.data).operation
        except ValueError as e:
            raise VerifyException(f"{self.name}: {e}") from e


@irdl_op_definition
class FunctionOp(IRDLOperation):
    """A function that is no kernel: `main`."""

    name = "npu.function"
    sym_name = prop_def(SymbolNameConstraint())
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface(), NoTerminator())
    assembly_format = "$sym_name attr-dict-with-keyword $body"


@irdl_op_definition
class LabelOp(IRDLOperation):
    """A place in the code that a branch can name."""

    name = "npu.label"
    label = prop_def(StringAttr)
    assembly_format = "$label attr-dict"


@irdl_op_definition
class SourceOp(IRDLOperation):
    """The model's nodes that the next instruction, a call, stands for."""

    name = "npu.source"
    sources = prop_def(ArrayAttr[StringAttr])
    assembly_format = "$sources attr-dict"


@irdl_attr_definition
class ArgsAttr(Data[tuple[Value, ...]]):
    """The operands of an instruction; printed as part of it."""

    name = "npu.args"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Value, ...]:
        parser.raise_error("operands are written behind their instruction")

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


_BLANK = re.compile(r"(?:\s|//[^\n]*)*+").fullmatch
"""Nothing but space and comments."""


class InstOp(IRDLOperation):
    """One instruction, written as in assembly."""

    ROW: ClassVar[Instr]
    args = prop_def(ArgsAttr)

    @classmethod
    def of(cls, *args: Value) -> InstOp:
        """The operation; raises ValueError where the table forbids an operand."""
        return cls.create(properties={"args": ArgsAttr(cls.ROW(*args).args)})

    @property
    def inst(self) -> Inst:
        return Inst(self.ROW, self.args.data)

    def verify_(self) -> None:
        try:
            self.ROW(*self.args.data)
        except ValueError as e:
            raise VerifyException(str(e)) from e

    @classmethod
    def parse(cls, parser: Parser) -> InstOp:
        # The operands are the assembler's: read the rest of the line behind the name as text.
        content = str(parser.lexer.input.content)
        # The dialect's name may be left out, and a comment may name the instruction again.
        start = parser.pos
        while True:
            start = content.rindex(cls.ROW.mnemonic, 0, start)
            if _BLANK(content, start + len(cls.ROW.mnemonic), parser.pos):
                break
        start += len(cls.ROW.mnemonic)
        end = content.find("\n", start)
        line = content[start : end if end >= 0 else len(content)].partition("//")[0]
        try:
            args = instance(cls.ROW, line.strip()).args
        except ValueError as e:
            parser.raise_error(str(e), start, start + len(line.rstrip()))
        parser._resume_from(start + len(line))
        return cls.create(properties={"args": ArgsAttr(args)})

    def print(self, printer: Printer) -> None:
        if text := self.inst.operands_text():
            printer.print_string(" " + text)


def _define(row: Instr) -> type[InstOp]:
    body: dict[str, Any] = {
        "name": f"npu.{row.mnemonic}",
        "ROW": row,
        "__doc__": row.doc,
        "__module__": __name__,
        "__annotations__": {"ROW": ClassVar[Instr]},
    }
    return irdl_op_definition(type(f"{row.mnemonic}Op", (InstOp,), body))


INST_OPS: dict[str, type[InstOp]] = {row.mnemonic: _define(row) for row in INSTRS.values()}

PROGRAM_OPS: tuple[type[IRDLOperation], ...] = (
    ProgramOp,
    TensorOp,
    InvokeOp,
    ChooseOp,
    RepeatOp,
    RoutineOp,
    FunctionOp,
    LabelOp,
    SourceOp,
)
