"""Control flow: operations whose work is that of other functions of the module.

A function that is called so has no other caller, and gives what each result is from its arguments
alone: it reads nothing of its caller but what it is handed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import I64, IntegerAttr, SymbolRefAttr, TensorType, UnitAttr, i1, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure, SymbolTable
from xdsl.utils.exceptions import VerifyException

from ge.dialects.attributes import IntsAttr
from ge.dialects.graph.base import TENSOR, Tensor, dims, tensor

CONDITION = tensor((), i1)
"""The type of a condition."""


class ControlOp(IRDLOperation):
    """What runs functions: the same operation on the levels `graph` and `fused`."""

    ONNX: ClassVar[str] = ""
    """The operator's name in ONNX."""

    ins = var_operand_def(TENSOR)
    outs = var_result_def(TENSOR)
    traits = traits_def(Pure())

    @property
    def callees(self) -> Sequence[SymbolRefAttr]:
        """The functions that it may run."""
        found = self.properties.values()
        return [attr for attr in found if isinstance(attr, SymbolRefAttr)]

    @property
    def functions(self) -> list[FuncOp]:
        """Those functions themselves; raises VerifyException for one that is not there."""
        return [_function(self, callee) for callee in self.callees]

    @property
    def source(self) -> str:
        """The model nodes this operation stands for, joined by ','."""
        attr = self.attributes.get("source")
        return getattr(attr, "data", "")

    def on(self, operands: Sequence[SSAValue]) -> Self:
        """The same operation on other operands of the same types, in no block yet."""
        made = self.create(
            operands=operands, properties=dict(self.properties), result_types=self.result_types
        )
        made.attributes.update(self.attributes)
        for before, after in zip(self.results, made.results, strict=True):
            after.name_hint = before.name_hint
        return made


def _function(op: Operation, callee: SymbolRefAttr) -> FuncOp:
    found = SymbolTable.lookup_symbol(op, callee)
    if not isinstance(found, FuncOp) or not found.body.blocks:
        name = callee.string_value()
        raise VerifyException(
            f"{op.name}: '{name}' must be a function of the module, there is none"
        )
    return found


def _check_types(
    op: ControlOp, function: FuncOp, takes: Sequence[Attribute], gives: Sequence[Attribute]
) -> None:
    """Refuse a function that does not take values of those types and give such results."""
    type_ = function.function_type
    for what, has, must in (("take", type_.inputs, takes), ("give", type_.outputs, gives)):
        if list(has) != list(must):
            types = [", ".join(map(str, side)) for side in (must, has)]
            name = function.sym_name.data
            raise VerifyException(f"{op.name}: '{name}' must {what} {types[0]}, got {types[1]}")


@irdl_op_definition
class IfOp(ControlOp):
    """
    Run the first function if the condition, the first operand, holds, and the second one if not.

    Both take the operands behind the condition.

    ```mlir
    %r = graph.if @then @else(%c, %x) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "graph.if"
    ONNX: ClassVar = "If"
    then = prop_def(SymbolRefAttr)
    otherwise = prop_def(SymbolRefAttr)
    assembly_format = "$then $otherwise `(` $ins `)` attr-dict `:` functional-type($ins, $outs)"

    @classmethod
    def of(
        cls, then: FuncOp, otherwise: FuncOp, condition: SSAValue, takes: Sequence[SSAValue]
    ) -> Self:
        """The choice between two functions of the same types."""
        return cls.create(
            operands=[condition, *takes],
            properties={
                "then": SymbolRefAttr(then.sym_name),
                "otherwise": SymbolRefAttr(otherwise.sym_name),
            },
            result_types=list(then.function_type.outputs),
        )

    def verify_(self) -> None:
        if not self.ins or self.ins[0].type != CONDITION:
            raise VerifyException(f"{self.name}: its condition must be {CONDITION}")
        takes = [v.type for v in self.ins[1:]]
        for function in self.functions if self.parent_op() else ():
            _check_types(self, function, takes, list(self.result_types))


@irdl_op_definition
class LoopOp(ControlOp):
    """
    Run a function again and again, on what it gave the time before.

    The first `carried` operands are what the first trip takes and the first results what the last
    one gives. With `conditional` the first of those is a condition: there is a trip only while it
    holds. There are `trips` at most. Behind the carried operands stand those that every trip
    takes alike, then as many as `slices` has numbers: of those trip `t` takes place `t` of the
    first axis, for -1 from the end. The results behind the carried ones are made of what each
    trip gives beside those, a place of the first axis each, for -1 of `rows` from the end.

    ```mlir
    %h, %y = graph.loop @step(%h0, %w, %x) {carried = 1, trips = 3, slices = #ge.ints<1>}
      : (tensor<4xf32>, tensor<4xf32>, tensor<3x4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>)
    ```
    """

    name = "graph.loop"
    ONNX: ClassVar = "Loop"
    body = prop_def(SymbolRefAttr)
    carried = prop_def(IntegerAttr[I64])
    trips = opt_prop_def(IntegerAttr[I64])
    conditional = opt_prop_def(UnitAttr)
    slices = opt_prop_def(IntsAttr)
    rows = opt_prop_def(IntsAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$body `(` $ins `)` attr-dict `:` functional-type($ins, $outs)"

    @classmethod
    def of(
        cls,
        body: FuncOp,
        ins: Sequence[SSAValue],
        carried: int,
        trips: int | None,
        *,
        conditional: bool = False,
        slices: Sequence[int] = (),
        rows: Sequence[int] = (),
    ) -> Self:
        """The loop over a body; the length of what it collects is that of `trips`."""
        properties: dict[str, Attribute] = {
            "body": SymbolRefAttr(body.sym_name),
            "carried": IntegerAttr(carried, i64),
        }
        if trips is not None:
            properties["trips"] = IntegerAttr(trips, i64)
        if conditional:
            properties["conditional"] = UnitAttr()
        for name, directions in (("slices", slices), ("rows", rows)):
            if directions:
                properties[name] = IntsAttr(tuple(directions))
        gives = list(body.function_type.outputs)
        wide = [_with_places(type_, trips or 0) for type_ in gives[carried:]]
        return cls.create(
            operands=list(ins), properties=properties, result_types=[*gives[:carried], *wide]
        )

    @property
    def most(self) -> int | None:
        """The trips at most; None where the condition alone ends it."""
        return None if self.trips is None else self.trips.value.data

    @property
    def turns(self) -> tuple[Sequence[int], Sequence[int]]:
        """The directions of slices and rows."""
        return (
            () if self.slices is None else self.slices.data,
            () if self.rows is None else self.rows.data,
        )

    def verify_(self) -> None:
        slices, rows = self.turns
        carried, most = self.carried.value.data, self.most
        if most is None and (slices or rows or not self.conditional):
            raise VerifyException(f"{self.name}: 'trips' must be given, or a condition alone")
        if carried > len(self.outs) or len(self.outs) - carried != len(rows):
            raise VerifyException(f"{self.name}: must give {carried} values and {len(rows)} rows")
        if carried + len(slices) > len(self.ins) or {*slices, *rows} - {1, -1}:
            raise VerifyException(f"{self.name}: needs its operands, directions must be 1 or -1")
        if self.conditional and (not carried or self.ins[0].type != CONDITION):
            raise VerifyException(f"{self.name}: its condition must be {CONDITION}")
        whole = len(self.ins) - len(slices)
        takes = [v.type for v in self.ins[:whole]]
        takes += [_place_of(self, v.type, most or 0) for v in self.ins[whole:]]
        gives = list(self.result_types[:carried])
        gives += [_place_of(self, type_, most or 0) for type_ in self.result_types[carried:]]
        for function in self.functions if self.parent_op() else ():
            _check_types(self, function, takes, gives)


def _with_places(type_: Attribute, places: int) -> Tensor:
    assert isinstance(type_, TensorType)
    return tensor((places, *type_.get_shape()), type_.element_type)


def _place_of(op: LoopOp, type_: Attribute, places: int) -> Tensor:
    """The type of one place of the first axis."""
    assert isinstance(type_, TensorType)
    shape = dims(type_)
    if not shape or shape[0] != places:
        raise VerifyException(f"{op.name}: slices and rows must have {places} places, got {type_}")
    return tensor(shape[1:], type_.element_type)


CONTROL_OPS: tuple[type[ControlOp], ...] = (IfOp, LoopOp)
