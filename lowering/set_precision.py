"""`set-precision`: the element types that a model is computed in, its signature left as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects import dtypes
from ge.dialects.diagnostics import InputError, did_you_mean
from ge.dialects.dtypes import DType
from ge.dialects.graph import OPS
from ge.dialects.graph.base import ConstantOp, GraphOp, constant_of, type_of
from ge.dialects.graph.control import ControlOp
from ge.dialects.graph.kinds import ElementType
from ge.dialects.graph.module import functions_of, replace_body
from ge.dialects.graph.ops import binary, norm, quantize, reduce, unary
from ge.lowering.image_anchors import folded_batch_norm
from ge.lowering.kernels.vector_ops import VECTOR
from ge.lowering.rewriting import Here, rewrite
from ge.lowering.views import VIEWS

MODES = {"fp32": dtypes.F32, "fp16": dtypes.F16, "bf16": dtypes.BF16, "mixed": dtypes.F16}
"""What each mode computes in."""

WIDE: tuple[type[GraphOp], ...] = (
    norm.SoftmaxOp,
    norm.LogSoftmaxOp,
    norm.LayerNormalizationOp,
    norm.RMSNormalizationOp,
    norm.GroupNormalizationOp,
    norm.InstanceNormalizationOp,
    reduce.ReduceOp,
    reduce.CumSumOp,
    unary.ExpOp,
)
"""What `mixed` computes in f32. Batch norms are not here: they fold into what is before them."""

TOTALS = (quantize.MatMulIntegerOp, quantize.ConvIntegerOp)


def _plain_batch_norm(here: Here, op: norm.BatchNormalizationOp) -> SSAValue | None:
    """A known norm as a factor and a summand: a variance may be more than a half float holds."""
    known = [constant_of(v) for v in (op.scale, op.b, op.mean, op.var)]
    arrays = [a.astype(np.float64) for a in known if a is not None]
    if len(arrays) != len(known) or op.attrs["epsilon"] == 0:
        return None
    factor, summand = folded_batch_norm(arrays, op.attrs["epsilon"])
    dtype = dtypes.of_ir(type_of(op.scale).element_type).numpy
    rows = (factor, summand, np.zeros_like(factor), np.ones_like(factor))
    made = [here.constant(row.astype(dtype)) for row in rows]
    return here.make(norm.BatchNormalizationOp, op.x, *made, epsilon=0.0)


@dataclass(frozen=True)
class SetPrecisionPass(ModulePass):
    """Compute every float tensor in f32, f16 or bf16, or in f16 with exceptions (`mixed`).

    In `mixed` f32 is kept for softmax, norms, exponentials, reductions, what they alone read, what
    reads them, and additions of two computed tensors (the residual stream). In any mode it is kept
    for sums of integer products until they are scaled, and for the operators and the nodes named in
    `keep`, separated by commas. Inputs and outputs keep their declared types.
    Constants are rounded as numpy does: beyond the range they become infinite, tiny ones zero.
    """

    name = "set-precision"
    mode: str = "fp16"
    keep: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.mode not in MODES:
            hint = did_you_mean(self.mode, MODES)
            raise InputError(f"'mode' must be one of {', '.join(MODES)}, got '{self.mode}'{hint}")
        rewrite(op, {norm.BatchNormalizationOp: [_plain_batch_norm]})
        kept = self._kept(op)
        for function in functions_of(op):
            block = _Retyped(function, MODES[self.mode], self.mode == "mixed", kept).block
            replace_body(function, block)

    def _kept(self, module: ModuleOp) -> frozenset[str]:
        """The names in `keep`; raises InputError for one that the model does not have."""
        members = (op for function in functions_of(module) for op in function.body.block.ops)
        ops = [op for op in members if isinstance(op, GraphOp)]
        known = {n for op in ops for n in (op.ONNX, *op.source.split(","))}
        names = [n for n in self.keep.split(",") if n]
        for name in names:
            if name not in known and name not in OPS:
                hint = did_you_mean(name, [*known, *OPS])
                raise InputError(f"'keep' must name operators or nodes, got '{name}'{hint}")
        return frozenset(names)


class _Retyped:
    """Rebuilds the body of a function operator by operator."""

    def __init__(self, of: FuncOp, element: DType, mixed: bool, keep: frozenset[str]) -> None:
        old = of.body.block
        self.element = element
        self.mixed = mixed
        self.keep = keep
        self.block = Block(arg_types=[a.type for a in old.args])
        self.values: dict[SSAValue, SSAValue] = {}
        """What stands for each value of the model, in the type it was computed in."""
        self.sums: set[SSAValue] = set()
        """What reductions give, and what is computed elementwise from that and constants alone."""
        self.totals: set[SSAValue] = set()
        """What integer products give, and the same: more than a half float holds."""
        self.casts: dict[tuple[SSAValue, DType], SSAValue] = {}
        for before, arg in zip(old.args, self.block.args, strict=True):
            arg.name_hint = before.name_hint
            self.values[before] = arg
        for op in old.ops:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        if isinstance(op, ConstantOp):
            # Added when something reads it, in the type in which it is read.
            self.values[op.out] = op.out
        elif isinstance(op, ReturnOp):
            declared = [self.read(v, _element(v)) for v in op.arguments]
            self.block.add_op(ReturnOp(*declared))
        elif isinstance(op, unary.CastOp) and _is_float(op.x) and op.attrs["to"].is_float:
            # The model's own rounding goes: the mode says what is computed in what.
            self.values[op.out] = self.values[op.x]
        elif isinstance(op, unary.BitCastOp):
            # Bits have a meaning in the type that the model gives them only.
            self.place(op, op.make(self.read(op.x, _element(op.x)), **op.attrs))
        elif isinstance(op, ControlOp):
            # What it runs is rebuilt by itself, behind the types that it had.
            self.place(op, op.on([self.read(v, _element(v)) for v in op.operands]))
        elif isinstance(op, GraphOp):
            self.rebuild(op)
        else:
            raise InputError(f"'{op.name}' must not stand in a model")

    def rebuild(self, op: GraphOp) -> None:
        element = self.element_of(op)
        operands = [None if v is None else self.read(v, element) for v in op.arguments]
        kinds, attrs = op.kinds(), op.attrs
        for name, value in attrs.items():
            if isinstance(kinds[name], ElementType) and value is not None and value.is_float:
                attrs[name] = element
        self.place(op, type(op).make(*operands, **attrs))
        computed = {v for v in op.operands if not _is_constant(v)}
        if isinstance(op, reduce.ReduceOp) or (
            type(op) in VECTOR and computed and computed <= self.sums
        ):
            self.sums.update(op.results)
        scaled = type(op) in VECTOR and not isinstance(op, quantize.QuantizeLinearOp)
        if isinstance(op, TOTALS) or (scaled and computed and computed <= self.totals):
            self.totals.update(op.results)

    def place(self, op: GraphOp | ControlOp, new: GraphOp | ControlOp) -> None:
        """Take an operator's new form."""
        new.attributes.update(op.attributes)
        self.block.add_op(new)
        for before, after in zip(op.results, new.results, strict=True):
            after.name_hint = before.name_hint
            self.values[before] = after

    def element_of(self, op: GraphOp) -> DType:
        """The type in which an operator computes."""
        if self.keep.intersection((op.ONNX, *op.source.split(","))):
            return dtypes.F32
        if type(op) in VECTOR and not self.totals.isdisjoint(op.operands):
            return dtypes.F32
        if not self.mixed:
            return self.element
        if isinstance(op, WIDE) or _is_residual(op) or _is_summed(op):
            return dtypes.F32
        if type(op) in VECTOR and not self.sums.isdisjoint(op.operands):
            return dtypes.F32
        first = op.operands[0] if type(op) in VIEWS else None
        if first is not None and _is_float(first) and not _is_constant(first):
            # What only looks at a tensor in another way leaves it in its type.
            return _element(self.values[first])
        return self.element

    def read(self, value: SSAValue, element: DType) -> SSAValue:
        """The value as an operator reads it: floats in `element`, all else as it is."""
        current = self.values[value]
        wanted = element if _is_float(current) else _element(current)
        if wanted is _element(current) and not _is_constant(current):
            return current
        key = current, wanted
        if key not in self.casts:
            self.casts[key] = self.cast(current, wanted)
        return self.casts[key]

    def cast(self, value: SSAValue, element: DType) -> SSAValue:
        op: Any
        constant = value.owner
        if isinstance(constant, ConstantOp):
            with np.errstate(over="ignore"):
                op = ConstantOp.of(constant.array.astype(element.numpy, copy=False))
            op.attributes.update(constant.attributes)
        else:
            op = unary.CastOp.make(value, to=element)
        op.out.name_hint = value.name_hint
        self.block.add_op(op)
        result: SSAValue = op.out
        return result


def _element(value: SSAValue) -> DType:
    assert isinstance(value.type, TensorType)
    return dtypes.of_ir(value.type.element_type)


def _is_float(value: SSAValue) -> bool:
    return _element(value).is_float


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, ConstantOp)


def _is_summed(op: GraphOp) -> bool:
    """A product that reductions alone read: its numbers may be large."""
    readers = [use.operation for result in op.results for use in result.uses]
    summed = bool(readers) and all(isinstance(reader, reduce.ReduceOp) for reader in readers)
    return type(op) in VECTOR and summed


def _is_residual(op: GraphOp) -> bool:
    """An addition of two tensors that are both computed: the residual stream, mostly."""
    return isinstance(op, binary.AddOp) and not any(_is_constant(v) for v in op.operands)
