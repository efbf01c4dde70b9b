"""Tilings that a user writes: what they may name, and that they change no numbers."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import StringAttr

from examples.models import Net
from ge.codegen.from_npu import program_of
from ge.dialects.diagnostics import InputError
from ge.dialects.fused.base import FusedOp
from ge.dialects.module_text import make_context
from ge.frontend.onnx_import import import_onnx
from ge.lowering.pipelines import Level, Options, passes
from ge.lowering.programs import programs_of
from ge.runtime.simulator import simulate

X = np.random.default_rng(1).standard_normal((7, 24)).astype(np.float32)


def _run(tiling: str | None, x: np.ndarray = X) -> np.ndarray:
    """The result of a product with a bias and a limit under a tiling."""
    net = Net(3)
    summed = net("Add", net("MatMul", "x", net.normal(*x.shape[:-2], 24, 40)), net.normal(40))
    return _under(tiling, net.model({"x": x.shape}, [net("Relu", summed)], 17), {"x": x})


def _under(tiling: str | None, model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The result of a model of one kernel."""
    module = import_onnx(model)
    options, ctx = Options(target="tiny"), make_context()
    for step in passes(Level.GRAPH, options):
        step.apply(ctx, module)
    (kernel,) = [op for op in module.walk() if isinstance(op, FusedOp)]
    if tiling is not None:
        kernel.properties["tiling"] = StringAttr(tiling)
    for step in passes(Level.FUSED, options):
        step.apply(ctx, module)
    (program,) = programs_of(module)
    result = simulate(program_of(program), inputs, check_hazards=True)
    assert not result.hazards
    (out,) = result.outputs.values()
    return out


@pytest.mark.parametrize(
    "tiling",
    [
        "block m=4 n=16",
        "block m=99999",
        "block m=4; nest acc k=16 k=8; load a acc_k16; load b acc_k16",
        "nest acc k=3 k=7",
        "block m=4; inner m=2; stage 1",
        "block n=16; chunk 0 m=3; copies a_l1=1; pin x0 block",
        "block m=4 n=16; order block mte3 fix",
        "block m=4; stage 1; order block v m",
        "block m=4; nest acc k=8; order acc_k8 mte1 mte2; order block v mte2",
        "block m=4 n=16; sequential 8; within m=2 n=8; load a sequential; load b sequential",
        "block m=5; inner n=24; sequential 7; within n=16; nest acc k=2; chunk 0 m=3; chunk 1 m=2",
        "sequential 99; within m=4",
        "block m=4 n=16; sequential 8; flows; within m=4 n=8; load a sequential; load b sequential",
        "block m=7; sequential 5; flows; within n=8; load a sequential; load b sequential",
        "chosen",
        "chosen; block m=5; copies a_l1=1; order block mte3 mte2",
    ],
)
def test_a_tiling_changes_no_numbers(tiling: str) -> None:
    np.testing.assert_allclose(_run(tiling), _run(None), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("tiling", "message"),
    [
        ("blok m=3", "a clause of a tiling must be known, got 'blok m=3'; did you mean 'block'?"),
        ("block m=0", "'block m=0' must be like 'block m=128 n=256'"),
        ("block k=3", "must name a parallel dimension of the kernel (m, n), got 'k'"),
        ("nest zz k=3", "must name a product of the kernel (acc), got 'zz'"),
        ("nest acc m=3", "must name a summed dimension of the kernel (k), got 'm'"),
        ("chunk 9 m=3", "must name a vector statement of the kernel (0), got '9'"),
        ("load q block", "must name an operand of the kernel (a, b, x0), got 'q'"),
        ("load a acc_k9", "must name a loop of the kernel (block), got 'acc_k9'"),
        ("pin x0 inner", "must name a loop of the kernel (block), got 'inner'"),
        ("copies c_l1=2", "got 'c_l1'"),
        (
            "sequential 8; within k=3",
            "must name a parallel dimension of the kernel (m, n), got 'k'",
        ),
        ("chosen m=3", "'chosen m=3' must be like 'chosen'"),
        ("chosen; copies c_l1=2", "must name a buffer of the kernel"),
        ("block m=4; within m=2", "only a kernel with a sequential loop must have 'within'"),
        ("block m=4; flows", "only a kernel with a sequential loop must have 'flows'"),
        ("sequential 4; flows", "that flows must have 'within' and 'load a sequential'"),
        (
            "sequential 8; within n=8; flows; load a sequential",
            "that flows must have 'within' and 'load b sequential'",
        ),
        (
            "sequential 24; within n=8; flows; load a sequential; load b sequential",
            "that flows must have pieces of 'k'",
        ),
        ("sequential 0", "'sequential 0' must be like 'sequential 128'"),
        ("order block fix", "'order block fix' must be like 'order block fix mte2'"),
        ("order block fix gpu", "'order block fix gpu' must be like 'order block fix mte2'"),
        ("order inner fix mte2", "must name a loop of the kernel (block), got 'inner'"),
        ("stage 7", "'stage 7' must be like 'stage 1'"),
    ],
)
def test_what_a_kernel_does_not_have_is_said(tiling: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as e:
        _run(tiling)
    assert e.value.where.startswith("node '")


def test_a_tile_holds_one_product_of_many() -> None:
    x = np.random.default_rng(2).standard_normal((3, 7, 24)).astype(np.float32)
    for tiling in ("block b0=1 m=4", "block b0=2 m=4; inner b0=1"):
        np.testing.assert_allclose(_run(tiling, x), _run(None, x), rtol=1e-5, atol=1e-5)
    for tiling in ("block m=4", "block b0=2 m=4", "chosen; block b0=3"):
        with pytest.raises(InputError, match="must hold one place of 'b0', as by 'block b0=1'"):
            _run(tiling, x)


def test_a_tile_holds_one_head_of_many() -> None:
    net, rng = Net(), np.random.default_rng(3)
    shapes = dict.fromkeys("qkv", (1, 3, 16, 8))
    model = net.model(shapes, [net("Attention", *shapes)], 23)
    inputs = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    want = _under(None, model, inputs)
    for more in ("", "; flows"):
        got = _under(f"block b1=1 q=8; sequential 8{more}", model, inputs)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    for tiling in ("block q=8; sequential 8", "block b1=2 q=8; sequential 8", "chosen; block b1=3"):
        with pytest.raises(InputError, match="must hold one place of 'b1', as by 'block b1=1'"):
            _under(tiling, model, inputs)
    with pytest.raises(InputError, match="whose tiles flow must not have 'within'"):
        _under("block b1=1 q=8; sequential 8; within q=4; flows", model, inputs)
