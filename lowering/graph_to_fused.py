"""`graph-to-fused`: every operator becomes a kernel of its own, or a view that costs nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects import dtypes
from ge.dialects.attributes import IntsAttr
from ge.dialects.diagnostics import InputError, UnsupportedError
from ge.dialects.fused.base import FusedOp, ViewOp
from ge.dialects.fused.ops import HostOp, ScatterOp
from ge.dialects.graph.base import Array, ConstantOp, GraphOp, shape_of, tensor, type_of
from ge.dialects.graph.control import ControlOp
from ge.dialects.graph.module import functions_of, replace_body
from ge.dialects.graph.ops.layout import ConcatOp, TransposeOp
from ge.lowering import image_anchors as image_anchors  # registers its rows
from ge.lowering.anchors import ANCHORS, copy_of, elementwise, host, rowwise
from ge.lowering.kernels.reducing_ops import REDUCING
from ge.lowering.kernels.region import place_of
from ge.lowering.kernels.vector_ops import VECTOR
from ge.lowering.views import VIEWS, Layout, reshaped, whole

Shape = tuple[int, ...]


@dataclass(frozen=True)
class GraphToFusedPass(ModulePass):
    """Make a kernel of every operator; what only rearranges strides becomes a view."""

    name = "graph-to-fused"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            replace_body(function, _Kernels(function).block)


class _Kernels:
    """Rebuilds the body of a function operator by operator."""

    def __init__(self, function: FuncOp) -> None:
        old = function.body.block
        self.block = Block(arg_types=[a.type for a in old.args])
        self.seen: dict[SSAValue, Layout] = {}
        """Where each value of the model lies."""
        self.sources: tuple[str, ...] = ()
        self.refused: list[tuple[GraphOp, str]] = []
        for before, arg in zip(old.args, self.block.args, strict=True):
            arg.name_hint = before.name_hint
            self.seen[before] = whole(arg, shape_of(arg))
        for op in old.ops:
            self.operation(op)
        self.report()

    def operation(self, op: Operation) -> None:
        if isinstance(op, ConstantOp):
            copy = op.clone()
            self.block.add_op(copy)
            self.seen[op.out] = whole(copy.out, shape_of(copy.out))
        elif isinstance(op, ReturnOp):
            self.give_back(op)
        elif isinstance(op, ControlOp):
            if all(v in self.seen for v in op.operands):
                self.control(op)
        elif isinstance(op, GraphOp):
            if all(v in self.seen for v in op.operands):
                self.sources = _sources(op)
                self.operator(op)
        else:
            raise InputError(f"'{op.name}' must not stand in a model")

    def operator(self, op: GraphOp) -> None:
        if any(all(map(_is_empty, side)) for side in (op.results, op.operands) if side):
            self.nothing(op)
            return
        if (see := VIEWS.get(type(op))) is not None:
            views = see(self.seen[op.operands[0]], op)
            computed = type(op) in ANCHORS or type(op) in VECTOR
            if None not in views or not computed:
                self.views(op, views)
                return
        if op.on_host:
            self.host(op)
            return
        try:
            kernel = self.kernel(op)
        except UnsupportedError as e:
            self.refused.append((op, e.message))
            return
        self.define(op, kernel)

    def control(self, op: ControlOp) -> None:
        """What runs functions hands tensors on as they lie."""
        new = op.on([self.in_order(v) for v in op.operands])
        self.block.add_op(new)
        for result, out in zip(op.results, new.results, strict=True):
            self.seen[result] = whole(out, shape_of(out))

    def host(self, op: GraphOp) -> None:
        """Leave an operator to the AI CPU."""
        kernel = host(self, op, self.sources)
        self.block.add_op(kernel)
        for result, out in zip(op.results, kernel.outs, strict=True):
            self.seen[result] = whole(out, shape_of(out))

    def nothing(self, op: GraphOp) -> None:
        """What has no elements is known, and so is what is computed from nothing else."""
        if all(_is_empty(r) for r in op.results):
            arrays = [_empty(r) for r in op.results]
        else:
            arrays = op.evaluate_all(
                [None if v is None else _empty(v) for v in op.arguments], op.attrs
            )
        for result, array in zip(op.results, arrays, strict=True):
            known = self.constant(array)
            self.seen[result] = whole(known, shape_of(known))

    def kernel(self, op: GraphOp) -> FusedOp:
        if not isinstance(op, ConcatOp) and any(map(_is_empty, op.operands)):
            raise UnsupportedError("operands must have elements")
        if (make := ANCHORS.get(type(op))) is not None:
            return make(self, op, self.sources)
        if type(op) in REDUCING:
            return rowwise(self, op, self.sources)
        if type(op) in VECTOR:
            return elementwise(self, op, self.sources)
        raise UnsupportedError(f"no kernel computes {op.ONNX}")

    def views(self, op: GraphOp, views: object) -> None:
        """Take the results as views; where strides cannot say it, write the operand out first."""
        assert isinstance(views, list | tuple)
        if None in views:
            dense = self.dense(op.operands[0])
            views = VIEWS[type(op)](whole(dense, shape_of(dense)), op)
        for result, view in zip(op.results, views, strict=True):
            if view is None:
                self.refused.append((op, "the result must be a view with positive steps"))
                return
            self.seen[result] = view

    def define(self, op: GraphOp, kernel: FusedOp) -> None:
        """Add a kernel; a transpose that alone reads its result is written in place of it."""
        result = op.results[0]
        uses = list(result.uses)
        reader = uses[0].operation if len(uses) == 1 else None
        same = shape_of(kernel.out) == shape_of(result)
        if isinstance(kernel, ScatterOp):
            # It leaves what it changes as it lies.
            place = place_of(kernel.ins[0])
            shape = shape_of(kernel.ins[0])
            view: Layout | None = Layout(kernel.out, shape, place.strides, place.offset)
        elif isinstance(reader, TransposeOp) and same and kernel.layout is None:
            perm = reader.attrs["perm"]
            kernel = kernel.in_layout(perm)
            stored = whole(kernel.out, shape_of(kernel.out))
            strides = tuple(stored.strides[perm.index(i)] for i in range(len(perm)))
            view = Layout(kernel.out, shape_of(result), strides)
        else:
            view = reshaped(whole(kernel.out, shape_of(kernel.out)), shape_of(result))
        assert view is not None
        self.block.add_op(kernel)
        self.seen[result] = view

    # What the rows of the table ask for

    def operand(self, value: SSAValue, shape: Shape | None = None) -> SSAValue:
        layout = self.seen[value]
        if shape is not None and shape != layout.shape:
            layout = reshaped(layout, shape) or whole(self.dense(value), shape)
        return self.as_value(layout)

    def in_order(self, value: SSAValue) -> SSAValue:
        layout = self.seen[value]
        return self.as_value(layout) if layout.is_dense else self.dense(value)

    def storage(self, value: SSAValue) -> SSAValue:
        layout = self.seen[value]
        pairs = zip(layout.shape, layout.strides, strict=True)
        apart = layout.element is None and all(stride or n == 1 for n, stride in pairs)
        return self.as_value(layout) if apart else self.dense(value)

    def transposed(self, value: SSAValue) -> SSAValue:
        layout = self.seen[value]
        return self.as_value(
            replace(layout, shape=layout.shape[::-1], strides=layout.strides[::-1])
        )

    def constant(self, array: Array) -> SSAValue:
        op = ConstantOp.of(array)
        self.block.add_op(op)
        return op.out

    def as_value(self, layout: Layout) -> SSAValue:
        """The tensor itself, or an operation that views it."""
        stored = shape_of(layout.base)
        same = layout.shape == stored and layout.element is None
        if same and layout.is_dense and layout.offset == 0:
            return layout.base
        element = layout.element or type_of(layout.base).element_type
        op = ViewOp.create(
            operands=[layout.base],
            properties={"offset": IntsAttr((layout.offset,)), "strides": IntsAttr(layout.strides)},
            result_types=[tensor(layout.shape, element)],
        )
        self.block.add_op(op)
        return op.result

    def dense(self, value: SSAValue) -> SSAValue:
        """The value in storage of its own, in order."""
        layout = self.seen[value]
        if layout.is_dense and layout.offset == 0 and _covers(layout):
            return self.as_value(layout)
        view = self.as_value(layout)
        kernel = copy_of(view, view, self.sources)
        self.block.add_op(kernel)
        return kernel.out

    def give_back(self, op: ReturnOp) -> None:
        """Each output is a tensor that one kernel alone writes, in order."""
        taken: set[SSAValue] = set()
        values = []
        for value in op.arguments:
            if value not in self.seen:
                return
            layout = self.seen[value]
            if _is_empty(value):
                values.append(self.constant(_empty(value)))
                continue
            maker = isinstance(layout.base.owner, FusedOp | HostOp | ControlOp)
            own = maker and layout.base not in taken
            if own and layout.is_dense and layout.offset == 0 and _covers(layout):
                values.append(self.as_value(layout))
                taken.add(layout.base)
            else:
                view = self.as_value(layout)
                copy = copy_of(view, view, ())
                self.block.add_op(copy)
                values.append(copy.out)
                self.behind(layout.base, view, copy)
        self.block.add_op(ReturnOp(*values))

    def behind(self, base: SSAValue, view: SSAValue, copy: FusedOp) -> None:
        """Copy right behind what makes the value: it is in the cache then."""
        maker = base.owner
        if isinstance(maker, FusedOp) and isinstance(view.owner, ViewOp):
            made = [view.owner, copy]
            for op in made:
                op.detach()
            self.block.insert_ops_after(made, maker)

    def report(self) -> None:
        """All operators without a kernel at once."""
        if not self.refused:
            return
        first: dict[str, tuple[int, str, str]] = {}
        for op, reason in self.refused:
            count, source, why = first.get(op.ONNX, (0, ", ".join(_sources(op)), reason))
            first[op.ONNX] = (count + 1, source, why)
        lines = [
            f"  {name} x {count}, first at node '{source}': {why}"
            for name, (count, source, why) in first.items()
        ]
        raise UnsupportedError(
            f"{len(self.refused)} operators have no kernel: {', '.join(first)}",
            detail="\n".join(lines),
        )


def _empty(value: SSAValue) -> Array:
    """The array of a value without elements."""
    return np.empty(shape_of(value), dtypes.of_ir(type_of(value).element_type).numpy)


def _is_empty(value: SSAValue) -> bool:
    return prod(shape_of(value)) == 0


def _covers(layout: Layout) -> bool:
    """Whether the view sees all of its tensor."""
    return prod(layout.shape) == prod(shape_of(layout.base))


def _sources(op: GraphOp) -> tuple[str, ...]:
    return tuple(op.source.split(",")) if op.source else (op.ONNX,)
