"""The graph passes on whole models: same numbers, the operators raised, linear time."""

from __future__ import annotations

import gc
from collections import Counter
from time import process_time
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Block

from ge.dialects.graph.module import input_names, main_of, make_module
from ge.dialects.graph.ops.activation import ReluOp
from ge.dialects.graph.ops.binary import AddOp
from ge.dialects.graph.ops.layout import TransposeOp
from ge.dialects.graph.ops.unary import IdentityOp
from ge.dialects.module_text import make_context
from ge.frontend.onnx_export import export_onnx
from ge.frontend.onnx_import import import_onnx
from ge.lowering.pipelines import PIPELINES, load_pass
from ge.lowering.rewriting import Here, rewrite
from tests.models import Net, convolutional, transformer
from tests.onnx_oracle import close, run


def simplify(module: ModuleOp) -> Counter[str]:
    for name in PIPELINES["simplify-graph"]:
        load_pass(name)().apply(make_context(), module)
    module.verify()
    return Counter(op.name for op in module.walk())


def check(proto: Any) -> Counter[str]:
    """Simplify a model; the numbers must stay."""
    module = import_onnx(proto)
    counts = simplify(module)
    arg = main_of(module).body.block.args[0]
    shape = arg.type.get_shape()  # type: ignore[attr-defined]
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    (name,) = input_names(main_of(module))
    for got, want in zip(run(export_onnx(module), {name: x}), run(proto, {name: x}), strict=True):
        close(got, want, 1e-5)
    return counts


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_a_transformer_is_raised(opset: int) -> None:
    counts = check(transformer(opset))
    assert counts["graph.layer_norm"] == 2
    assert counts["graph.gelu"] == 1
    left = {"graph.erf", "graph.sqrt", "graph.reduce_mean", "graph.pow", "graph.unsqueeze"}
    assert not left & set(counts)


def test_a_convolutional_network_is_raised() -> None:
    counts = check(convolutional(13))
    assert counts["graph.hard_swish"] == 1
    assert counts["graph.clip"] == 0


def test_rms_norm_and_silu_are_raised() -> None:
    net = Net()
    square = net("ReduceMean", net("Pow", "x", np.float32(2)), axes=[-1])
    root = net("Sqrt", net("Add", square, np.float32(1e-6)))
    norm = net("Mul", net("Mul", "x", net("Reciprocal", root)), net.normal(8))
    counts = check(net.model({"x": (2, 3, 8)}, [net("Mul", norm, net("Sigmoid", norm))], 13))
    assert (counts["graph.rms_norm"], counts["graph.swish"]) == (1, 1)


def chain(n: int) -> ModuleOp:
    """n operations of which half go away."""
    block = Block(arg_types=[TensorType(f32, [4, 4])])
    value: Any = block.args[0]
    for _ in range(n // 4):
        same = IdentityOp.make(value)
        doubled = AddOp.make(same.out, same.out)
        turned = TransposeOp.make(doubled.out, perm=(1, 0))
        back = TransposeOp.make(turned.out, perm=(1, 0))
        block.add_ops([same, doubled, turned, back])
        value = back.out
    return make_module(block, [value], ["x"], ["y"])


def test_time_is_linear() -> None:
    def per_op(n: int) -> float:
        module = chain(n)
        gc.collect()
        start = process_time()
        simplify(module)
        return (process_time() - start) / n

    per_op(300)
    assert min(per_op(4000) for _ in range(2)) < 2 * max(per_op(500) for _ in range(3))


def test_a_rule_that_gives_up_leaves_nothing_behind() -> None:
    def gives_up(here: Here, op: ReluOp) -> None:
        here.make(IdentityOp, here.make(IdentityOp, op.x))

    net = Net()
    module = import_onnx(net.model({"x": (2, 3)}, [net("Relu", "x")], 17))
    before = str(module)
    rewrite(module, {ReluOp: [gives_up, gives_up]})
    assert str(module) == before
