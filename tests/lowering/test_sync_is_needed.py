"""Every flag that insert-sync places is taken out in turn: the checker reports what then races."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from ge.codegen.from_npu import program_of
from ge.dialects.diagnostics import CheckFailed
from ge.dialects.module_text import make_context
from ge.dialects.npu.places import Unit
from ge.dialects.npu.tree import FlagOp, ForOp
from ge.frontend.onnx_import import import_onnx
from ge.lowering.pipelines import Level, Options, passes
from ge.lowering.programs import kernels_of, programs_of
from ge.runtime.simulator import simulate
from tests.compiled import random_inputs
from tests.models import Net

Flag = tuple[str, Unit, Unit, int, int]
"""Kernel, units, first number and how many: one place of sets and waits in one loop body."""
OPTIONS = Options(target="tiny")


def _matmul(net: Net) -> Any:
    value = net("MatMul", "x", net.normal(96, 48, scale=0.2))
    value = net("Relu", net("Add", value, net.normal(48)))
    return net.model({"x": (110, 96)}, [value], 17)


def _attention(net: Net) -> Any:
    keys = net("Transpose", "k", perm=[0, 2, 1])
    scores = net("Mul", net("MatMul", "q", keys), np.float32(0.25))
    value = net("MatMul", net("Softmax", scores), "v")
    shapes = {"q": (9, 40, 16), "k": (9, 70, 16), "v": (9, 70, 16)}
    return net.model(shapes, [value], 17)


def _conv(net: Net) -> Any:
    weights = net.normal(20, 8, 3, 3, scale=0.2)
    value = net("Conv", "x", weights, net.normal(20), pads=[1, 1, 1, 1])
    return net.model({"x": (2, 8, 24, 24)}, [net("Relu", value)], 17)


def _layer_norm(net: Net) -> Any:
    total = net("Add", "x", "y")
    norm = net("LayerNormalization", total, net.normal(60), net.normal(60))
    return net.model({"x": (50, 60), "y": (50, 60)}, [norm], 17)


def _scheduled(model: Any) -> tuple[ModuleOp, list[Any]]:
    """The module with its flags in place, and the passes that are left."""
    module, ctx = import_onnx(model), make_context()
    stages = [*passes(Level.GRAPH, OPTIONS), *passes(Level.FUSED, OPTIONS)]
    flags = [p.name for p in stages].index("insert-sync") + 1
    for p in stages[:flags]:
        p.apply(ctx, module)
    return module, stages[flags:]


def _flags(module: ModuleOp) -> Iterator[tuple[str, FlagOp]]:
    for _, kernel in kernels_of(module):
        for op in kernel.body.walk():
            if isinstance(op, FlagOp):
                yield kernel.sym_name.data, op


def _in_loops(module: ModuleOp) -> list[Flag]:
    """The flags by place; what the kernel does before and behind its loops belongs to them."""
    found: dict[Flag, None] = {}
    for kernel, op in _flags(module):
        if isinstance(op.parent_op(), ForOp):
            found[(kernel, *op.units, op.base.value.data, op.copies.value.data)] = None
    return list(found)


def _without(module: ModuleOp, flag: Flag) -> ModuleOp:
    copy = module.clone()
    kernel, source, target, base, copies = flag
    for name, op in list(_flags(copy)):
        inside = base <= op.base.value.data < base + copies
        if name == kernel and op.units == (source, target) and inside:
            Rewriter.erase_op(op)
    return copy


def _run(module: ModuleOp, rest: list[Any], given: Any) -> Any:
    for p in rest:
        p.apply(make_context(), module)
    (program,) = programs_of(module)
    return simulate(program_of(program), given, mode="functional", check_hazards=True)


@pytest.mark.parametrize(
    ("make", "needed", "spare"),
    [(_matmul, 11, 1), (_attention, 17, 2), (_conv, 12, 0), (_layer_norm, 4, 0)],
)
def test_a_flag_that_is_missing_is_reported(
    make: Callable[[Net], Any], needed: int, spare: int
) -> None:
    """Spare ones are implied by a loop below that runs at least once, which nothing promises."""
    model = make(Net(1))
    given = random_inputs(model)
    module, rest = _scheduled(model)
    whole = _run(module.clone(), rest, given)
    assert not whole.hazards
    reported, redundant = 0, []
    for flag in _in_loops(module):
        try:
            result = _run(_without(module, flag), rest, given)
        except CheckFailed:
            reported += 1
            continue
        if result.hazards:
            reported += 1
            continue
        redundant.append(flag)
        for name, want in whole.outputs.items():
            np.testing.assert_array_equal(result.outputs[name], want)
    assert reported >= needed, f"{reported} reported, redundant {redundant}"
    assert len(redundant) <= spare, redundant
