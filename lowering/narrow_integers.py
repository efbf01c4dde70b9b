"""`narrow-integers`: 64-bit integers computed in 32 bits, the signature left as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects import dtypes
from ge.dialects.diagnostics import InputError
from ge.dialects.graph.base import ConstantOp, GraphOp, type_of
from ge.dialects.graph.control import ControlOp
from ge.dialects.graph.kinds import ElementType
from ge.dialects.graph.module import functions_of, replace_body
from ge.dialects.graph.ops import unary

LEAST, MOST = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class NarrowIntegersPass(ModulePass):
    """Compute 64-bit integers in 32 bits, the signature left as it is.

    Indices and positions of a framework need no more. An input is read by its low words.
    Constants that do not fit stay as they are, and so does what only they are combined with.
    """

    name = "narrow-integers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            replace_body(function, _Narrowed(function).block)


class _Narrowed:
    """Rebuilds the body of a function operator by operator."""

    def __init__(self, function: FuncOp) -> None:
        old = function.body.block
        self.block = Block(arg_types=[a.type for a in old.args])
        self.values: dict[SSAValue, SSAValue] = {}
        for before, arg in zip(old.args, self.block.args, strict=True):
            arg.name_hint = before.name_hint
            self.values[before] = self.narrow(arg)
        for op in old.ops:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        if isinstance(op, ConstantOp):
            self.values[op.out] = self.narrow(self.add(op.clone()))
        elif isinstance(op, ReturnOp):
            self.block.add_op(ReturnOp(*(self.declared(v) for v in op.arguments)))
        elif isinstance(op, ControlOp):
            # What it runs takes and gives the types that it had.
            self.place(op, op.on([self.declared(v) for v in op.operands]))
        elif isinstance(op, GraphOp):
            self.rebuild(op)
        else:
            raise InputError(f"'{op.name}' must not stand in a model")

    def rebuild(self, op: GraphOp) -> None:
        operands = [None if v is None else self.values[v] for v in op.arguments]
        kinds, attrs = op.kinds(), op.attrs
        for name, value in attrs.items():
            if isinstance(kinds[name], ElementType) and value is dtypes.I64:
                attrs[name] = dtypes.I32
        if isinstance(op, unary.CastOp):
            source = self.values[op.x]
            if dtypes.of_ir(type_of(source).element_type) is attrs["to"]:
                # A cast of what is narrow already changes nothing.
                self.values[op.out] = source
                return
        self.place(op, type(op).make(*operands, **attrs))

    def place(self, op: GraphOp | ControlOp, new: GraphOp | ControlOp) -> None:
        """Take an operator's new form."""
        new.attributes.update(op.attributes)
        self.block.add_op(new)
        for before, after in zip(op.results, new.results, strict=True):
            after.name_hint = before.name_hint
            self.values[before] = self.narrow(after)

    def narrow(self, value: SSAValue) -> SSAValue:
        """The value in 32 bits, if it is a 64-bit integer."""
        if dtypes.of_ir(type_of(value).element_type) is not dtypes.I64:
            return value
        if isinstance(value.owner, ConstantOp):
            array = value.owner.array
            if array.size and not (array.min() >= LEAST and array.max() <= MOST):
                return value
            return self.add(ConstantOp.of(array.astype(np.int32)))
        return self.add(unary.CastOp.make(value, to=dtypes.I32))

    def declared(self, value: SSAValue) -> SSAValue:
        """An output in the type that the model declares."""
        found = self.values[value]
        if found.type == value.type:
            return found
        return self.add(unary.CastOp.make(found, to=dtypes.I64))

    def add(self, op: Any) -> SSAValue:
        self.block.add_op(op)
        result: SSAValue = op.results[0]
        return result
