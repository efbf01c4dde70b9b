"""`graph` to ONNX: standard operators of the oldest opset, from 21 on, that has them all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from ge.dialects.diagnostics import InputError, UnsupportedError
from ge.dialects.graph.base import Array, ConstantOp, GraphOp
from ge.dialects.graph.control import ControlOp
from ge.dialects.graph.module import input_names, main_of, output_names, return_of
from ge.frontend.onnx_export_control import export_control, fresh, info

BASE_OPSET = 21
IR_VERSION = 10
EXTERNAL_BYTES = 1_500_000_000
"""Above this a file keeps its initializers beside it: protobuf ends at 2 GiB."""


def export_onnx(module: ModuleOp) -> onnx.ModelProto:
    """The model as ONNX, inputs and outputs under their own names."""
    return _Export(main_of(module)).model()


def save_onnx(module: ModuleOp, path: str | Path) -> None:
    """Write the model to a file, large initializers to `<path>.data` beside it."""
    path = Path(path)
    model = export_onnx(module)
    large = sum(len(t.raw_data) for t in model.graph.initializer) > EXTERNAL_BYTES
    try:
        if large:
            # An old data file would be appended to.
            path.with_name(path.name + ".data").unlink(missing_ok=True)
            onnx.save_model(model, path, save_as_external_data=True, location=path.name + ".data")
        else:
            onnx.save_model(model, path)
    except OSError as e:
        raise InputError(f"must be writable, {e.strerror}", str(path)) from None


class _Export:
    """One walk over the function: values get names, operations become nodes."""

    def __init__(self, main: FuncOp) -> None:
        self.main = main
        self.names: dict[SSAValue, str] = {}
        self.taken: set[str] = set()
        self.node_names: set[str] = set()
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.opset = BASE_OPSET

    def model(self) -> onnx.ModelProto:
        block = self.main.body.block
        ins, outs = input_names(self.main), output_names(self.main)
        self.taken.update(ins, outs)
        self.names.update(zip(block.args, ins, strict=True))
        returned = list(return_of(self.main).arguments)
        self._name_outputs(returned, outs)
        for op in block.ops:
            self.operation(op)
        self._copy_outputs(returned, outs)
        graph = helper.make_graph(
            self.nodes,
            "main",
            [info(n, a) for n, a in zip(ins, block.args, strict=True)],
            [info(n, v) for n, v in zip(outs, returned, strict=True)],
            self.initializers,
        )
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="ge"
        )

    def _name_outputs(self, returned: Sequence[SSAValue], outs: Sequence[str]) -> None:
        """A value that an operator makes takes the name of the first output it is."""
        for name, value in zip(outs, returned, strict=True):
            if isinstance(value.owner, GraphOp | ControlOp):
                self.names.setdefault(value, name)

    def _copy_outputs(self, returned: Sequence[SSAValue], outs: Sequence[str]) -> None:
        for name, value in zip(outs, returned, strict=True):
            if self.names[value] != name:
                self.nodes.append(helper.make_node("Identity", [self.names[value]], [name]))

    def operation(self, op: Any) -> None:
        """Add what stands for an operation."""
        if isinstance(op, ConstantOp):
            self.names[op.out] = self.initializer(op.array, "c")
        elif isinstance(op, GraphOp) and not op.BOUNDED:
            self._node(op)
        elif isinstance(op, ControlOp):
            export_control(self, op)
        elif not isinstance(op, ReturnOp):
            raise UnsupportedError(f"only graph operations have an ONNX form, got {op.name}")

    def _node(self, op: GraphOp) -> None:
        attrs, kinds = op.attrs, op.kinds()
        operands = dict(zip(op.slots(), op.arguments, strict=False)) if not op.variadic() else {}
        inputs: list[str] = []
        for name in op.onnx_inputs():
            if name == op.variadic():
                inputs += [self.names[v] for v in op.operands]
            elif name in kinds and name in op.properties:
                inputs.append(self.initializer(kinds[name].as_input(attrs.pop(name)), name))
            else:
                attrs.pop(name or "", None)
                value = operands.get(name or "")
                inputs.append("" if value is None else self.names[value])
        while inputs and not inputs[-1]:
            inputs.pop()
        given = {n: kinds[n].to_onnx(v) for n, v in attrs.items() if n in op.properties}
        outs = [self.name(v, "v") for v in op.results]
        source = op.source.split(",")[0]
        name = fresh(source or op.name, self.node_names)
        self.nodes.append(helper.make_node(op.ONNX, inputs, outs, name, **given))
        while not onnx.defs.has(op.ONNX, self.opset):
            self.opset += 1

    def name(self, value: SSAValue, stem: str) -> str:
        """The name of a value."""
        if value not in self.names:
            self.names[value] = fresh(value.name_hint or stem, self.taken)
        return self.names[value]

    def initializer(self, array: Array, stem: str) -> str:
        """The name of a constant."""
        name = fresh(stem, self.taken)
        self.initializers.append(numpy_helper.from_array(array, name))
        return name
