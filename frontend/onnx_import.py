"""ONNX to `graph`: every opset from 7 on, shapes made concrete, constants folded on the way."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from ge.dialects import dtypes
from ge.dialects.diagnostics import InputError, UnsupportedError
from ge.dialects.graph import OPS
from ge.dialects.graph.base import GraphOp, shape_of, tensor
from ge.dialects.graph.kinds import REQUIRED
from ge.dialects.graph.module import make_module
from ge.dialects.graph.ops.bounded import BoundedOp
from ge.frontend.onnx_adapters import ADAPTERS
from ge.frontend.onnx_attributes import attributes, check_attributes, of_onnx, python_value
from ge.frontend.onnx_bodies import Bodies
from ge.frontend.onnx_control import CONTROL
from ge.frontend.onnx_functions import function_body, has_body
from ge.frontend.onnx_load import FIRST_OPSET, OpenShape, known_inputs, load_model, model_shapes
from ge.frontend.onnx_nodes import Builder, Node, Refused, TooLarge, Value
from ge.frontend.onnx_stages import (
    DECIDING_MOST,
    Bounded,
    NeedsStage,
    NeedsValues,
    Pending,
    Stage,
    arguments_behind,
    counted,
)

STANDARD = ("", "ai.onnx")
"""What the domain of ONNX itself is called."""
MAX_DEPTH = 16
"""Function bodies may use operators that have function bodies, but not for ever."""


def import_onnx(
    model: str | Path | onnx.ModelProto | ir.Model,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Any] | None = None,
    stage: Stage | None = None,
) -> ModuleOp:
    """The model as a module; `shapes` gives inputs with open dims their shapes.

    Inputs that `values` gives become constants. Raises NeedsStage for a model of which a part has
    to run before the shapes of the rest are known; a `stage` is such a part, or what is behind it.
    """
    loaded, where = load_model(model)
    return _Import(loaded, where, dict(shapes or {}), dict(values or {}), stage or Stage()).module()


class _Import:
    """One walk over the nodes in order, with the value of every name."""

    def __init__(
        self,
        model: ir.Model,
        where: str,
        shapes: dict[str, Sequence[int]],
        values: dict[str, Any],
        stage: Stage,
    ) -> None:
        self.model = model
        self.where = where
        self.stage = stage
        self.depth = 0
        """How many graphs the current node is inside of."""
        self.pending: Pending = {}
        """The nodes that have to run first."""
        self.results: dict[str, SSAValue] = {}
        """What a stage ends with."""
        self.values: dict[ir.Value, Value] = {}
        self.unknown: set[ir.Value] = set()
        self.refused: dict[tuple[str, str, str, int, str], list[str]] = {}
        self.deciding: set[SSAValue] = set()
        """Arguments whose values would have to be known."""
        self.block = Block()
        self.builder = Builder(self.block)
        try:
            self.inputs = self._arguments(shapes, values)
        except OpenShape:
            # That the operators are no use is worth more than that a shape is missing.
            for node in model.graph:
                self.builder.source = _called(node, 0)
                self._only_check(node, dict(model.opset_imports))
            if self.refused:
                raise self._unsupported() from None
            raise

    def module(self) -> ModuleOp:
        graph = self.model.graph
        self._nodes(graph, dict(self.model.opset_imports), 0, "")
        if self.deciding:
            named = zip(self.block.args, self.inputs, strict=True)
            raise NeedsValues(self._unsupported(), [n for a, n in named if a in self.deciding])
        if self.refused:
            raise self._unsupported()
        if self.stage.until:
            outs, names = list(self.results.values()), list(self.results)
            return make_module(self.block, outs, self.inputs, names, self.builder.functions)
        if self.pending:
            raise NeedsStage(self.pending, self.where)
        outs = [self._output(v) for v in graph.outputs]
        names = [v.name or f"out{i}" for i, v in enumerate(graph.outputs)]
        return make_module(self.block, outs, self.inputs, names, self.builder.functions)

    def _output(self, value: ir.Value) -> SSAValue:
        try:
            return self.builder.ssa(self._value(value))
        except Refused as e:
            what = f"output '{value.name}' must be a tensor: {e.reason}"
            raise UnsupportedError(what, self.where) from None

    def _arguments(self, shapes: dict[str, Sequence[int]], values: dict[str, Any]) -> list[str]:
        arrays = known_inputs(self.model, values, self.where)
        self.values.update(arrays)
        shapes = {**shapes, **{v.name or "": a.shape for v, a in arrays.items()}}
        known = model_shapes(self.model, shapes, self.where)
        known = {v: shape for v, shape in known.items() if v not in arrays}
        for value, shape in known.items():
            element = dtypes.BY_ONNX.get(int(value.dtype or 0))
            if element is None:
                raise UnsupportedError(
                    f"input '{value.name}' must be a tensor of numbers, got {value.dtype}",
                    self.where,
                )
            arg = self.block.insert_arg(tensor(shape, element.ir), len(self.block.args))
            _hint(arg, value.name)
            self.values[value] = arg
        return [value.name or "" for value in known] + self._resumed()

    def _resumed(self) -> list[str]:
        """Take the values that an earlier stage has computed as more inputs, or as constants."""
        made = {v.name: v for node in self.model.graph for v in node.outputs}
        names = []
        for name, known in self.stage.known.items():
            if not isinstance(known, tuple):
                self.values[made[name]] = known
                continue
            shape, element = known
            arg = self.block.insert_arg(tensor(shape, element.ir), len(self.block.args))
            _hint(arg, name)
            self.values[made[name]] = arg
            names.append(name)
        return names

    def _value(self, value: ir.Value) -> Value:
        if value not in self.values:
            if value.const_value is None:
                raise InputError(
                    f"'{value.name}' must come from a node, an input or an initializer", self.where
                )
            self.values[value] = self._array(value.const_value)
        return self.values[value]

    def _array(self, constant: ir.TensorProtocol) -> Any:
        if int(constant.dtype) not in dtypes.BY_ONNX:
            raise Refused(f"a tensor of {constant.dtype.name} must not be used")
        try:
            return constant.numpy()
        except (OSError, ValueError, TypeError) as e:
            what = f"the values of '{constant.name}' must be readable, {e}"
            raise InputError(what, self.where) from None

    def _nodes(self, nodes: Any, opsets: dict[str, int], depth: int, outer: str) -> None:
        for i, node in enumerate(nodes):
            self.builder.source = outer or _called(node, i)
            self.depth = depth
            if all(v.name in self.stage.known for v in node.outputs if v.name):
                continue
            if any(v in self.unknown for v in node.inputs if v is not None):
                self._only_check(node, opsets)
                continue
            try:
                self._node(node, opsets, depth, self.builder.source)
            except Bounded as e:
                self._pause(node, e)
            except Refused as e:
                self.depth = depth  # The graphs inside the node were deeper.
                self._refuse(node, opsets, e)
            except (VerifyException, IndexError) as e:
                where = f"node '{self.builder.source}' ({node.op_type})"
                raise InputError(f"{where}: {e}", self.where) from None

    def _pause(self, node: ir.Node, bounded: Bounded) -> None:
        """Nothing behind a node can be typed whose results only the data give a length."""
        self.unknown.update(node.outputs)
        names = [v.name or "" for v in node.outputs]
        *results, count = bounded.results
        ends = dict(zip(names, bounded.axes, strict=False))
        self.pending[names[0]] = {name: axis for name, axis in ends.items() if name}
        if names[0] in self.stage.until:
            made = dict(zip(names, results, strict=False))
            self.results |= {name: made[name] for name in self.pending[names[0]]}
            self.results[counted(names[0])] = count

    def _only_check(self, node: ir.Node, opsets: dict[str, int]) -> None:
        """Behind an unsupported node types are not known: only look whether the operator is."""
        self.unknown.update(node.outputs)
        version = node.version or opsets.get(node.domain, FIRST_OPSET)
        if node.domain in STANDARD:
            tables: tuple[Container[str], ...] = (OPS, ADAPTERS, CONTROL)
            known = any(node.op_type in t for t in tables) or has_body(node.op_type, version)
        else:
            known = f"{node.domain}.{node.op_type}" in ADAPTERS
        if not known:
            self._refuse(node, opsets, Refused(""))

    def _refuse(self, node: ir.Node, opsets: dict[str, int], why: Refused) -> None:
        self.unknown.update(node.outputs)
        behind = set() if why.unknown is None else arguments_behind(why.unknown)
        if why.unknown is not None and not behind and self._waits_for(why.unknown):
            return
        self.deciding |= behind
        version = opsets.get(node.domain, 0)
        key = (node.op_type, node.domain, why.reason, version, why.nearest)
        self.refused.setdefault(key, []).append(self.builder.source)

    def _waits_for(self, value: SSAValue) -> bool:
        """Whether the model can run up to a value that decides shapes, to be compiled for it."""
        names = (v.name for v, known in self.values.items() if known is value and v.producer())
        name = None if self.depth else next(names, None)
        if name is None or prod(shape_of(value)) > DECIDING_MOST:
            return False
        self.pending[name] = {name: None}
        if name in self.stage.until:
            self.results[name] = value
        return True

    def _node(self, node: ir.Node, opsets: dict[str, int], depth: int, source: str) -> None:
        standard = node.domain in STANDARD
        op = node.op_type if standard else f"{node.domain}.{node.op_type}"
        if not standard and op not in ADAPTERS:
            raise Refused("")
        version = node.version or opsets.get("", opsets.get("ai.onnx", FIRST_OPSET))
        if standard:
            check_attributes(op, version, node.attributes)
        view = Node(
            op,
            version,
            source,
            [None if v is None else self._value(v) for v in node.inputs],
            {n: python_value(a) for n, a in node.attributes.items()},
            [bool(v.uses()) or v.is_graph_output() for v in node.outputs],
        )
        try:
            outs = self._results(view, opsets, depth)
        except TooLarge:
            raise
        except Refused as e:
            if e.unknown is not None or depth >= MAX_DEPTH or not self._inline(node, view, depth):
                raise
            return
        for value, out in zip(node.outputs, outs, strict=False):
            self.values[value] = out
            if isinstance(out, SSAValue) and out.name_hint is None:
                _hint(out, value.name)

    def _results(self, node: Node, opsets: dict[str, int], depth: int) -> list[Value]:
        if (control := CONTROL.get(node.op)) is not None:
            return control(Bodies(self, (opsets, depth + 1, node.name)), node)
        adapter = ADAPTERS.get(node.op)
        done = None if adapter is None else adapter(self.builder, node)
        if done is not None:
            return done
        cls = OPS.get(node.op)
        if cls is None:
            raise Refused("")
        return self._operator(cls, node)

    def body(
        self,
        graph: Any,
        inputs: Sequence[Value],
        opsets: dict[str, int],
        depth: int,
        source: str,
    ) -> list[Value]:
        """The results of a graph inside a node; raises Refused if one is not supported."""
        if depth > MAX_DEPTH:
            raise Refused(f"graphs must be at most {MAX_DEPTH} inside each other")
        self.values.update(zip(graph.inputs, inputs, strict=True))
        made = {v for node in graph for v in node.outputs}
        self.unknown -= made
        for value in made:
            self.values.pop(value, None)
        self._nodes(graph, opsets, depth, source)
        if any(v in self.unknown for v in graph.outputs):
            raise Refused("its body has unsupported operators")
        return [self._value(v) for v in graph.outputs]

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Forget what was found unsupported if it ends with an error: another way may do."""
        kept = {k: list(v) for k, v in self.refused.items()}, set(self.deciding), set(self.unknown)
        outer, made = self.builder, len(self.builder.functions)
        try:
            yield
        except (Refused, InputError):
            self.refused, self.deciding, self.unknown = kept
            del outer.functions[made:]
            raise
        finally:
            self.builder = outer

    def _operator(self, cls: type[GraphOp], node: Node) -> list[Value]:
        """The operator of a node in its newest form: its inputs and attributes by name."""
        kinds, attrs = cls.kinds(), attributes(cls, node)
        operands: dict[str | None, Value | None] = {}
        for i, name in enumerate(cls.onnx_inputs()):
            if name == cls.variadic() and name is not None:
                return self.builder.emit(cls, *node.inputs[i:], **attrs)
            if name is not None and name in kinds:
                if (array := node.known(i, name)) is not None:
                    attrs[name] = of_onnx(kinds[name], array, name)
            else:
                operands[name] = node.input(i)
        for name, kind in kinds.items():
            if kind.default is REQUIRED and name not in attrs:
                raise Refused(f"needs '{name}'")
        for name in cls.slots():
            if operands[name] is None and name not in cls.optional():
                raise Refused(f"needs its input '{name}'")
        made = self.builder.emit(cls, *[operands[name] for name in cls.slots()], **attrs)
        return self._cut(cls, node, made, attrs) if issubclass(cls, BoundedOp) else made

    def _cut(
        self, cls: type[BoundedOp], node: Node, made: list[Value], attrs: dict[str, Any]
    ) -> list[Value]:
        """The results of an operator as long as they are, if that is known."""
        rank = len(self.builder.shape_of(node.needed(0)))
        full = cls.with_defaults(attrs)
        unknown = [v for v in made if isinstance(v, SSAValue)]
        if not unknown:
            return list(cls.cut([v for v in made if not isinstance(v, SSAValue)], rank, full))
        if self.depth:
            raise Refused("its length must be known inside another graph")
        raise Bounded(unknown, cls.axes(rank, **full))

    def _inline(self, node: ir.Node, view: Node, depth: int) -> bool:
        """Import the body by which ONNX defines the operator, where it has one."""
        types = [None if v is None else self.builder.type_of(v) for v in view.inputs]
        body = function_body(node, view.version, types)
        if body is None:
            return False
        for parameter, value in zip(body.inputs, view.inputs, strict=False):
            if value is not None:
                self.values[parameter] = value
        inner = body.present(len(view.inputs), [v is not None for v in view.inputs])
        self._nodes(inner, body.opsets, depth + 1, view.name)
        for result, out in zip(node.outputs, body.outputs, strict=False):
            if out in self.unknown:
                self.unknown.add(result)
            elif out is not None:
                self.values[result] = self._value(out)
        return True

    def _unsupported(self) -> UnsupportedError:
        """All that is unsupported, the most frequent first."""
        rows = sorted(self.refused.items(), key=lambda r: -len(r[1]))
        total = sum(len(names) for _, names in rows)
        found = ", ".join(dict.fromkeys(op for (op, *_), _ in rows))
        message = f"{total} node{'s' * (total != 1)} must be of supported operators, got {found}"
        lines = []
        for (op, domain, reason, version, nearest), names in rows:
            full = f"{domain}.{op}" if domain else op
            line = f"  {len(names)} x {full}-{version}, first '{names[0]}'"
            line += f": {reason}" if reason else ": no such operator here"
            lines.append(line + (f"; works: {nearest}" if nearest else ""))
        return UnsupportedError(message, self.where, "\n".join(lines))


def _called(node: ir.Node, place: int) -> str:
    return node.name or (node.outputs[0].name if node.outputs else "") or f"node{place}"


def _hint(value: SSAValue, name: str | None) -> None:
    """Keep the model's name in the text where it can stand there."""
    clean = "".join(c if c.isalnum() and c.isascii() else "_" for c in name or "")
    if clean and not clean.isdigit() and SSAValue.is_valid_name(clean):
        value.name_hint = clean
