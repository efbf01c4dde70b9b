"""A kernel timed by itself takes what it takes as the only one of a program."""

from __future__ import annotations

import pytest

from examples.models import Net
from ge.codegen.from_npu import program_of
from ge.dialects.fused.base import FusedOp
from ge.dialects.module_text import make_context
from ge.dialects.npu import target as targets
from ge.frontend.onnx_import import import_onnx
from ge.lowering.kernels.table import describe
from ge.lowering.pipelines import Level, Options, passes
from ge.lowering.place_kernel import place
from ge.lowering.programs import programs_of
from ge.lowering.time_kernel import Machine, cycles
from ge.lowering.tune_kernel import choices
from ge.runtime.simulator import simulate


@pytest.mark.parametrize("rows", [7, 64, 300])
def test_a_kernel_alone_takes_what_its_program_takes(rows: int) -> None:
    net = Net(3)
    y = net("Relu", net("MatMul", "x", net.normal(48, 40)))
    module = import_onnx(net.model({"x": (rows, 48)}, [y], 17))
    options, ctx = Options(target="tiny"), make_context()
    for step in passes(Level.GRAPH, options):
        step.apply(ctx, module)
    (op,) = [op for op in module.walk() if isinstance(op, FusedOp)]
    (part,), target = describe(op), targets.load("tiny")
    machine, cold = Machine("tiny", target.cores), frozenset(range(3))
    found = choices(part.description, machine, cold)
    alone = cycles(place(part.description, target, "k", (), found).kernel, target, machine, cold)
    for step in passes(Level.FUSED, options):
        step.apply(ctx, module)
    (program,) = programs_of(module)
    stats = simulate(program_of(program), mode="timing").stats
    launch = round(target.launch_us * target.clock_mhz)
    assert abs((stats.cycles or 0) - launch - alone) < 100
