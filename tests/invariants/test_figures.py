"""What holds in every run, whatever the model, the target and the switches."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import onnx
import pytest
from onnx import numpy_helper

from ge.dialects import dtypes
from ge.dialects.npu.isa.cube import CUBE, DEPTH_BYTES, mmad
from ge.dialects.npu.target import Target
from ge.runtime.stats import Stats
from tests.invariants.cases import CASES, Case, compiled, model
from tests.invariants.multiply_adds import executed

every_case = pytest.mark.parametrize("case", CASES, ids=str)


@every_case
def test_the_time_is_enough_for_the_traffic(case: Case) -> None:
    stats = compiled(case).stats()
    target = stats.target
    transfer = (stats.hbm_read + stats.hbm_write) / target.bytes_per_cycle("hbm")
    assert cycles(stats) >= transfer - target.limits["hbm"].credit_cycles


@every_case
def test_the_traffic_has_each_weight_input_and_output_once(case: Case) -> None:
    program, stats = compiled(case).program, compiled(case).stats()
    weights = sum(blob.bytes for blob in program.weights)
    assert stats.hbm_read >= weights + sum(tensor.bytes for tensor in program.inputs)
    assert stats.hbm_write >= sum(tensor.bytes for tensor in program.outputs)


@every_case
def test_no_kernel_is_faster_than_its_products(case: Case) -> None:
    stats = compiled(case).stats()
    counts = dict(multiply_adds(model(case.model)))
    peak = multiply_adds_a_cycle(stats.target, "f16" if case.precision == "fp16" else "f32")
    left = dict(counts)
    for kernel in stats.kernels:
        work = sum(left.pop(name, 0) for name in kernel.source_ops)
        assert kernel.cycles >= work / (peak * stats.program.cores), kernel.name
    assert not left, "each product must belong to a kernel"


@every_case
def test_the_cube_does_all_products(case: Case) -> None:
    done = executed(compiled(case).program)
    assert done >= sum(count for _, count in multiply_adds(model(case.model)))


@every_case
def test_no_unit_is_busy_for_longer_than_the_run(case: Case) -> None:
    stats = compiled(case).stats()
    assert stats.unit_busy is not None
    assert all(busy <= cycles(stats) * stats.program.cores for busy in stats.unit_busy.values())
    assert all(0 <= k.start <= k.end <= cycles(stats) for k in stats.kernels)


def cycles(stats: Stats) -> int:
    assert stats.cycles is not None
    return stats.cycles


def multiply_adds_a_cycle(target: Target, dtype: str) -> float:
    """The most that the cube of one core does."""
    items = CUBE * CUBE * DEPTH_BYTES / dtypes.BY_NAME[dtype].bytes
    return items / target.rate(mmad.rate, dtype).item


def multiply_adds(model: onnx.ModelProto) -> Iterator[tuple[str, int]]:
    """By node: what a product or a convolution that the cube does has to multiply and add."""
    shapes = _shapes(model)
    for node in model.graph.node:
        out = prod(shapes[node.output[0]])
        if node.op_type in ("MatMul", "Gemm"):
            transposed = any(a.name == "transA" and a.i for a in node.attribute)
            yield node.name, out * shapes[node.input[0]][0 if transposed else -1]
        if node.op_type == "Conv":
            channels, *window = shapes[node.input[1]][1:]
            grouped = any(a.name == "group" and a.i > 1 for a in node.attribute)
            # The vector unit does what sums over one channel only.
            yield node.name, 0 if grouped and channels == 1 else out * channels * prod(window)


def _shapes(model: onnx.ModelProto) -> dict[str, Any]:
    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    found = {i.name: numpy_helper.to_array(i).shape for i in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        found[value.name] = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
    return found
