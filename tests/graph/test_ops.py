"""Every operator's example: read, printed, exported, run by onnxruntime, equal to `evaluate`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.context import Context
from xdsl.dialects import builtin, func, test
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block
from xdsl.parser import Parser

from ge.dialects import dtypes
from ge.dialects.graph import OPS, Graph
from ge.dialects.graph.base import GraphOp, dims
from ge.dialects.graph.kinds import REQUIRED
from ge.dialects.graph.module import make_module
from ge.dialects.weights import make_weights_dialect
from ge.frontend.onnx_export import export_onnx
from tests.onnx_oracle import close, run

ops = pytest.mark.parametrize("cls", OPS.values(), ids=[c.name for c in OPS.values()])
WHOLE = [c for c in OPS.values() if not c.BOUNDED]
whole = pytest.mark.parametrize("cls", WHOLE, ids=[c.name for c in WHOLE])
"""Operators whose results are as long as their types say."""


def context() -> Context:
    ctx = Context()
    for dialect in (builtin.Builtin, func.Func, test.Test):
        ctx.load_dialect(dialect)
    ctx.register_dialect("ge", make_weights_dialect)
    ctx.register_dialect("graph", lambda: Graph)
    return ctx


def parse(text: str) -> ModuleOp:
    return Parser(context(), text).parse_module()


def example_of(cls: type[GraphOp]) -> str:
    found = re.search(r"```mlir\n(.*?)```", cls.__doc__ or "", re.S)
    assert found, f"{cls.name} needs an example in its docstring"
    return " ".join(found[1].split())


def example_module(cls: type[GraphOp]) -> ModuleOp:
    """The example in a function whose arguments are its operands."""
    text = example_of(cls)
    body, _, types = text.rpartition(" : ")
    names = re.findall(r"%\w+", body.partition("=")[2])
    operand_types = types.partition(" -> ")[0].strip("()")
    made = f'{", ".join(names)} = "test.op"() : () -> ({operand_types})\n{text}'
    source, op = parse(made).body.block.ops
    assert isinstance(op, cls)
    block = Block(arg_types=[v.type for v in source.results])
    for old, new in zip(source.results, block.args, strict=True):
        old.replace_all_uses_with(new)
    op.detach()  # type: ignore[no-untyped-call]
    block.add_op(op)
    outs = [f"out{i}" for i in range(len(op.results))]
    module = make_module(block, op.results, [f"in{i}" for i in range(len(names))], outs)
    module.verify()
    return module


def random_of(type_: TensorType[Any], rng: np.random.Generator) -> Any:
    dtype = dtypes.of_ir(type_.element_type)
    if dtype is dtypes.B8:
        return rng.integers(0, 2, dims(type_)).astype(bool)
    if dtype.is_float:
        return rng.uniform(0.05, 2, dims(type_)).astype(dtype.numpy)
    # An array, not a number of numpy, though there be one element.
    return np.asarray(rng.integers(0, 2, dims(type_)) + (dtype is dtypes.I32), dtype.numpy)


@ops
def test_example_round_trips(cls: type[GraphOp]) -> None:
    text = str(example_module(cls))
    assert str(parse(text)) == text


@whole
def test_example_runs_in_onnxruntime_as_evaluate_says(cls: type[GraphOp]) -> None:
    module = example_module(cls)
    op = next(o for o in module.walk() if isinstance(o, cls))
    rng = np.random.default_rng(0)
    types: list[Any] = [v.type for v in op.operands]
    arrays = {f"in{i}": random_of(t, rng) for i, t in enumerate(types)}
    given = iter(arrays.values())
    mine = op.evaluate_all([None if v is None else next(given) for v in op.arguments], op.attrs)
    exported = export_onnx(module)
    onnx.checker.check_model(exported, full_check=True)
    for want, got in zip(run(exported, arrays), mine, strict=True):
        close(got, want)


@ops
def test_names_and_defaults_are_those_of_onnx(cls: type[GraphOp]) -> None:
    schema = onnx.defs.get_schema(cls.ONNX)
    kinds = cls.kinds()
    for name in set(kinds) - set(cls.onnx_inputs()):
        default = schema.attributes[name].default_value
        if kinds[name].default in (REQUIRED, None, ()):
            continue
        value = onnx.helper.get_attribute_value(default)
        value = value.decode() if isinstance(value, bytes) else value
        assert kinds[name].to_onnx(kinds[name].default) == pytest.approx(value)
    assert len(cls.onnx_inputs()) <= schema.max_input
