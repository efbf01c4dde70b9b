"""Compiling takes the same time an operator, however many there are."""

from __future__ import annotations

import gc
from time import process_time
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


def _per_op(n: int) -> float:
    module = chain(n)
    gc.collect()
    # The tools raise the collector's thresholds; here it would look at all that other tests left.
    gc.disable()
    try:
        start = process_time()
        program_of(lower(module, Options(target="tiny")))
        return (process_time() - start) / n
    finally:
        gc.enable()


def test_time_is_linear() -> None:
    _per_op(200)
    short = min(_per_op(1000) for _ in range(2))
    # A second try, because other work on the machine slows one of them down.
    assert any(_per_op(4000) < 1.5 * short for _ in range(2))
