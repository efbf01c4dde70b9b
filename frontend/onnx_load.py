"""Reading ONNX files: what a file may be, where its weights lie, what shapes its inputs have."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir

from ge.dialects import dtypes
from ge.dialects.diagnostics import InputError, UnsupportedError, did_you_mean, shape_advice
from ge.dialects.graph.precision import Array

FIRST_OPSET = 7
MOST_INSIDE = 64
"""How deep functions of a model call each other."""
MOST_NODES = 1 << 18
"""Nodes of a model without its functions."""


class OpenShape(InputError):
    """An input whose shape neither the model says nor the user."""


class Input(NamedTuple):
    """What a model says of an input. `element` is None for one that is no tensor of numbers."""

    name: str
    element: dtypes.DType | None

    def check(self, array: Array, shape: tuple[int, ...] | None) -> None:
        """Raise InputError for an array of another type, or of another shape than is asked for."""
        if self.element is None:
            return
        wanted = array.shape if shape is None else shape
        if array.dtype != self.element.numpy or array.shape != wanted:
            raise InputError(
                f"input '{self.name}' must be {self.element.numpy_name} of shape {wanted}, "
                f"got {array.dtype} of shape {array.shape}"
            )


def signature(model: str | Path | onnx.ModelProto | ir.Model) -> dict[str, Input]:
    """The inputs that a run gives, by name, in the model's order."""
    graph = load_model(model)[0].graph
    inputs = [v for v in graph.inputs if v.name not in graph.initializers]
    tensors = {v for v in inputs if isinstance(v.type, ir.TensorType)}
    elements = {v: dtypes.BY_ONNX.get(int(v.dtype or 0)) for v in tensors}
    return {v.name or "": Input(v.name or "", elements.get(v)) for v in inputs}


def load_model(model: str | Path | onnx.ModelProto | ir.Model) -> tuple[ir.Model, str]:
    """The model in memory and what to call it in messages."""
    where = str(model) if isinstance(model, (str, Path)) else "model"
    if isinstance(model, (str, Path)):
        loaded = _read(Path(model))
    elif isinstance(model, onnx.ModelProto):
        loaded = _understood(lambda: ir.from_proto(model), where)
    else:
        loaded = model
    if not loaded.graph.outputs:
        raise InputError("must be an ONNX model with outputs, got none", where)
    opset = loaded.opset_imports.get("", loaded.opset_imports.get("ai.onnx"))
    if opset is not None and opset < FIRST_OPSET:
        loaded = _converted(loaded, opset, where)
    if loaded.functions:
        loaded = _inlined(loaded, where)
    _check_names(loaded, where)
    return loaded, where


def _inlined(model: ir.Model, where: str) -> ir.Model:
    """A model without functions of its own; a few of them may come to very many nodes."""
    from onnx_ir.passes.common import InlinePass

    sizes: dict[Any, int] = {}

    def nodes_of(graph: ir.Graph | ir.Function, inside: tuple[Any, ...]) -> int:
        return sum(
            size_of(n.op_identifier(), inside) for n in ir.traversal.RecursiveGraphIterator(graph)
        )

    def size_of(called: Any, inside: tuple[Any, ...]) -> int:
        function = model.functions.get(called)
        if function is None:
            return 1
        if called in inside or len(inside) == MOST_INSIDE:
            what = (
                f"functions must call each other {MOST_INSIDE} deep at most, and never themselves"
            )
            raise InputError(f"{what}, got '{called[1]}'", where)
        if called not in sizes:
            sizes[called] = nodes_of(function, (*inside, called))
        return sizes[called]

    if (count := nodes_of(model.graph, ())) > MOST_NODES:
        what = f"functions must come to at most {MOST_NODES} nodes, got {count}"
        raise UnsupportedError(what, where)
    return InlinePass()(model).model


def _converted(model: ir.Model, opset: int, where: str) -> ir.Model:
    """A model of an old opset in the first one that is read."""
    from onnx import version_converter

    try:
        proto = version_converter.convert_version(ir.to_proto(model), FIRST_OPSET)
    except (RuntimeError, ValueError, IndexError) as e:
        reason = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
        what = (
            f"opset must be {FIRST_OPSET} or newer, got {opset}; it cannot be converted: {reason}"
        )
        raise UnsupportedError(what, where) from None
    return _understood(lambda: ir.from_proto(proto), where)


def _read(path: Path) -> ir.Model:
    try:
        model = _understood(lambda: ir.load(path), str(path))
    except OSError as e:
        raise InputError(f"must be a readable file, {e.strerror or e}", str(path)) from None
    _check_external(model, path)
    return model


def _understood(read: Callable[[], ir.Model], where: str) -> ir.Model:
    """The model that `read` gives; what onnx-ir does not understand becomes an InputError."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from onnx_ir.serde import SerdeError

    # Names that nothing defines are logged by onnx-ir and then reported by the importer.
    logging.getLogger("onnx_ir").setLevel(logging.ERROR)
    try:
        return read()
    except (DecodeError, SerdeError, ValueError, TypeError, KeyError) as e:
        cause: BaseException = e
        while (inner := cause.__cause__ or cause.__context__) is not None:
            cause = inner  # The innermost says what it is about, the others where it was met.
        what = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
        raise InputError(f"must be an ONNX model, got something else: {what}", where) from None


def _check_names(model: ir.Model, where: str) -> None:
    """Names that are no text come as bytes, of which nothing later thinks."""
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        values = [v.name for v in (*node.inputs, *node.outputs) if v is not None]
        for name in (node.name, node.op_type, node.domain, *node.attributes, *values):
            if isinstance(name, bytes):
                raise InputError(f"names must be UTF-8 text, got {name!r}", where)
    for value in (*model.graph.inputs, *model.graph.outputs):
        if isinstance(value.name, bytes):
            raise InputError(f"names must be UTF-8 text, got {value.name!r}", where)


def _check_external(model: ir.Model, path: Path) -> None:
    """Weights outside the file must be in its folder, there, and long enough."""
    folder = path.parent.resolve()
    for value in model.graph.initializers.values():
        data = value.const_value
        if not isinstance(data, ir.ExternalTensor):
            continue
        file = (folder / data.location).resolve()
        if folder not in file.parents:
            what = f"external data of '{value.name}' must lie in the model's folder"
            raise InputError(f"{what}, got '{data.location}'", str(path))
        if not file.is_file():
            what = f"external data of '{value.name}' must be there, no file '{data.location}'"
            raise InputError(what, str(path))
        end = (data.offset or 0) + (data.length or data.nbytes)
        if file.stat().st_size < end:
            what = f"'{data.location}' must have {end} bytes for '{value.name}'"
            raise InputError(f"{what}, got {file.stat().st_size}", str(path))


def concrete_shapes(
    model: str | Path | onnx.ModelProto | ir.Model, shapes: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    """The shapes of all inputs by name; raises OpenShape where they are not known."""
    loaded, where = load_model(model)
    return {v.name or "": s for v, s in model_shapes(loaded, shapes, where).items()}


def model_shapes(
    model: ir.Model, shapes: Mapping[str, Sequence[int]], where: str
) -> dict[ir.Value, tuple[int, ...]]:
    """The concrete shape of each input that is no initializer."""
    inputs = [v for v in model.graph.inputs if v.name not in model.graph.initializers]
    names = [v.name or "" for v in inputs]
    for name in shapes:
        if name not in names:
            known = ", ".join(f"'{n}'" for n in names)
            near = did_you_mean(name, names) or f", the model has {known}"
            raise InputError(f"a shape must be for an input, got one for '{name}'{near}", where)
    symbols: dict[str, int] = {}
    given = {v: shapes.get(v.name or "") for v in inputs}
    for v, shape in given.items():
        if shape is not None:
            _bind(v, tuple(shape), symbols, where)
    return {
        v: _concrete(v, symbols, where) if shape is None else tuple(shape)
        for v, shape in given.items()
    }


def known_inputs(model: ir.Model, values: Mapping[str, Any], where: str) -> dict[ir.Value, Array]:
    """The inputs whose values are given, as arrays of their declared types and ranks."""
    inputs = {v.name or "": v for v in model.graph.inputs}
    found = {}
    for name, given in values.items():
        if name not in inputs:
            near = did_you_mean(name, inputs)
            raise InputError(f"a value must be for an input, got one for '{name}'{near}", where)
        value = inputs[name]
        element = dtypes.BY_ONNX.get(int(value.dtype or 0))
        array = np.asarray(given, None if element is None else element.numpy)
        declared = _declared(value)
        if declared is not None and None not in declared and array.ndim == 1:
            fixed = [d for d in declared if isinstance(d, int)]
            if len(fixed) == len(declared) and prod(fixed) == array.size:
                array = array.reshape(fixed)
        found[value] = array
    return found


def _declared(value: ir.Value) -> list[int | str | None] | None:
    """A declared shape: numbers, names of open dims, None for nameless ones."""
    if value.shape is None:
        return None
    raw = [d if isinstance(d, int) else d.value for d in value.shape]
    # Some exporters write 0 or -1 where they mean an open dim, or call all of them '?'.
    return [None if d == "?" or (isinstance(d, int) and d <= 0) else d for d in raw]


def _text(dims: Sequence[int | str | None]) -> str:
    return "[" + ", ".join("?" if d is None else str(d) for d in dims) + "]"


def _bind(value: ir.Value, given: tuple[int, ...], symbols: dict[str, int], where: str) -> None:
    """Check a given shape against the declared one, and note what its open dims are.

    One name may stand for several sizes: exporters call dims alike that have nothing in common.
    """
    declared = _declared(value)
    if declared is None:
        return
    fits = len(declared) == len(given) and all(0 <= n < 2**63 for n in given)
    for d, g in zip(declared, given, strict=False):
        fits = fits and (d == g or not isinstance(d, int))
        if isinstance(d, str):
            symbols.setdefault(d, g)
    if not fits:
        what = f"the shape of '{value.name}' must fit {_text(declared)}, got {_text(given)}"
        raise InputError(what, where)


def _concrete(value: ir.Value, symbols: Mapping[str, int], where: str) -> tuple[int, ...]:
    declared = _declared(value)
    if declared is None:
        what = f"input '{value.name}' must have a shape, the model gives none"
        raise OpenShape(f"{what}; {shape_advice(value.name or '', '1,2,...')}", where)
    shape = [symbols.get(d) if isinstance(d, str) else d for d in declared]
    if None in shape:
        open_dims = ", ".join(
            f"'{d}'" if isinstance(d, str) else f"dim {i}"
            for i, (d, s) in enumerate(zip(declared, shape, strict=True))
            if s is None
        )
        example = ",".join(str(s or 1) for s in shape)
        what = f"input '{value.name}' must have a concrete shape, got {_text(declared)}"
        advice = shape_advice(value.name or "", example)
        raise OpenShape(f"{what} with {open_dims} open; {advice}", where)
    return tuple(s for s in shape if s is not None)
