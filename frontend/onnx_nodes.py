"""One ONNX node on its way in, and the builder that turns it into operations or constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np
import onnx_ir as ir
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

from ge.dialects import dtypes
from ge.dialects.graph.base import Array, ConstantOp, GraphOp, Tensor, dims, of_array, worth_folding
from ge.dialects.npu.program import ELEMENTS_MOST

Value: TypeAlias = "SSAValue | np.ndarray[Any, np.dtype[Any]]"
"""A value of the model: computed when it runs, or known already."""


class Refused(Exception):
    """Why a node has no form here; `nearest` says what would work.

    `unknown` is the value that would have to be known.
    """

    def __init__(self, reason: str, nearest: str = "", unknown: SSAValue | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.nearest = nearest
        self.unknown = unknown


class Items(tuple[Value, ...]):
    """A sequence of tensors: it stands for a value, but no operation has one."""


class TooLarge(Refused):
    """A result that would not fit, however it was computed."""


@dataclass
class Node:
    """An ONNX node with its inputs looked up and its attributes as Python values."""

    op: str
    version: int
    name: str
    inputs: list[Value | None]
    attrs: dict[str, Any]
    used: list[bool] = field(default_factory=lambda: [True])
    """For each output whether anything reads it."""

    def input(self, i: int) -> Value | None:
        """The i-th input, None when absent."""
        return self.inputs[i] if i < len(self.inputs) else None

    def needed(self, i: int) -> Value:
        """The i-th input; refuses a node without it."""
        if (value := self.input(i)) is None:
            raise Refused(f"needs input {i}")
        return value

    def known(self, i: int, what: str) -> Array | None:
        """The array of an input that decides a shape; refuses one known only at run time."""
        value = self.input(i)
        if isinstance(value, SSAValue):
            raise Refused(f"'{what}' must be known when compiling", f"a constant '{what}'", value)
        return value

    def ints(self, i: int, what: str) -> tuple[int, ...] | None:
        """`known` as whole numbers."""
        array = self.known(i, what)
        return None if array is None else tuple(int(v) for v in array.reshape(-1))

    def graph(self, name: str, inputs: int, outputs: int) -> ir.Graph:
        """A graph of the node; refuses one that does not fit what the node takes and gives."""
        graph = self.attrs.get(name)
        if not isinstance(graph, ir.Graph):
            raise Refused(f"needs the graph '{name}'")
        if len(graph.inputs) != inputs or len(graph.outputs) < outputs:
            found = f"{len(graph.inputs)} and {len(graph.outputs)}"
            raise Refused(f"'{name}' must take {inputs} values and give {outputs}, got {found}")
        return graph

    def drop(self, *names: str) -> None:
        """Forget attributes that change nothing here."""
        for name in names:
            self.attrs.pop(name, None)

    def only_first_output(self, instead: str = "") -> None:
        """Refuse when an output after the first one is read."""
        if any(self.used[1:]):
            raise Refused("outputs after the first must not be read", instead)


class Builder:
    """Appends operations to a block, and computes what is known instead."""

    def __init__(self, block: Block, functions: list[FuncOp] | None = None) -> None:
        self.block = block
        self.functions: list[FuncOp] = [] if functions is None else functions
        """What control flow runs."""
        self.counted: dict[SSAValue, list[Any]] = {}
        """What loops around count, each with the limits that something relies on."""
        self.images: dict[SSAValue, tuple[int, ...]] = {}
        """The shapes of the images that places found by pooling are in."""
        self.source = ""
        self._constants: dict[int, tuple[Array, SSAValue]] = {}

    def beside(self) -> Builder:
        """A builder for a block of its own, for the same node."""
        other = Builder(Block(), self.functions)
        other.source, other.counted, other.images = self.source, self.counted, self.images
        return other

    def type_of(self, value: Value) -> Tensor:
        """The type of a value."""
        if isinstance(value, SSAValue):
            return cast(Tensor, value.type)
        if value is None or isinstance(value, Items):
            what = "an optional value" if value is None else "a sequence"
            raise Refused(f"{what} must not leave the part of the model that makes it")
        try:
            return of_array(value)
        except KeyError as e:
            raise Refused(f"a tensor of {e.args[0]} must not be used") from None

    def shape_of(self, value: Value) -> tuple[int, ...]:
        """The shape of a value."""
        return dims(self.type_of(value))

    def numpy_type(self, value: Value) -> np.dtype[Any]:
        """The numpy element type of a value."""
        return dtypes.of_ir(self.type_of(value).element_type).numpy

    def ssa(self, value: Value) -> SSAValue:
        """A value as an operand: one constant operation for each known array."""
        if isinstance(value, SSAValue):
            return value
        known = self._constants.get(id(value))
        if known is None:
            self.type_of(value)
            op = ConstantOp.of(value)
            self.add(op)
            # Holding the array keeps its identity from being given to another one.
            known = self._constants[id(value)] = (value, op.out)
        return known[1]

    def emit(self, cls: type[GraphOp], *operands: Value | None, **attrs: Any) -> list[Value]:
        """The results of an operator: computed if all operands are known, else an operation."""
        full = cls.with_defaults(attrs)
        present = [v for v in operands if v is not None]
        arrays = [v for v in operands if not isinstance(v, SSAValue)]
        if len(arrays) == len(operands):
            types = [None if v is None else self.type_of(v) for v in operands]
            outs = cls.infer_types(types, full)
            if worth_folding(outs, [self.type_of(v) for v in present]):
                return list(cls.evaluate_all(arrays, full))
        ssa = [None if v is None else self.ssa(v) for v in operands]
        op = cls.make(*ssa, **attrs)
        for result in op.results:
            if prod(self.shape_of(result)) > ELEMENTS_MOST:
                raise Refused(f"a tensor must have at most {ELEMENTS_MOST} elements")
        return list(self.add(op))

    def one(self, cls: type[GraphOp], *operands: Value | None, **attrs: Any) -> Value:
        """The only result of an operator."""
        return self.emit(cls, *operands, **attrs)[0]

    def add(self, op: Any) -> Sequence[SSAValue]:
        """An operation that is made for the current node; its results."""
        op.attributes["source"] = StringAttr(self.source)
        self.block.add_op(op)
        return op.results  # type: ignore[no-any-return]
