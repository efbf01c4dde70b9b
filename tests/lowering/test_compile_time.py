"""Compiling takes the same work an operator, however many there are."""

from __future__ import annotations

from cProfile import Profile
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Block

from ge.codegen.from_npu import program_of
from ge.dialects.graph.base import ConstantOp
from ge.dialects.graph.module import make_module
from ge.dialects.graph.ops.activation import ReluOp
from ge.dialects.graph.ops.binary import AddOp
from ge.dialects.graph.ops.linear import MatMulOp
from ge.lowering.pipelines import Options
from tests.compiled import lower


def chain(n: int) -> ModuleOp:
    """n operators: products with a summand of their own, sums with what came before."""
    block = Block(arg_types=[TensorType(f32, [16, 16])])
    weights = ConstantOp.of(np.eye(16, dtype=np.float32))
    block.add_op(weights)
    value: Any = block.args[0]
    before = value
    for _ in range(n // 4):
        product = MatMulOp.make(value, weights.out)
        summed = AddOp.make(product.out, before)
        before = value
        limited = ReluOp.make(summed.out)
        again = AddOp.make(limited.out, before)
        block.add_ops([product, summed, limited, again])
        value = again.out
    return make_module(block, [value], ["x"], ["y"])


def _calls_per_op(n: int) -> float:
    """Function calls, not seconds: the same on every machine, whatever else it does."""
    module = chain(n)
    profile = Profile()
    profile.runcall(lambda: program_of(lower(module, Options(target="tiny"))))
    return sum(row.callcount for row in profile.getstats()) / n


def test_work_is_linear() -> None:
    assert _calls_per_op(1600) < 1.15 * _calls_per_op(400)
