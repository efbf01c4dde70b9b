"""Attention of few queries: the keys in slices on all cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from ge.dialects.fused.ops import AttentionOp
from ge.dialects.module_text import make_context
from ge.frontend.onnx_import import import_onnx
from ge.lowering.pipelines import Level, Options, passes, simplification
from tests.compiled import check

FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
HEADS, SHARED, KEYS = 8, 2, 768


def _model(queries: int, mask: tuple[Any, Any] | None = None, **how: Any) -> Any:
    ins: dict[str, tuple[Any, Any]] = {
        "q": (FLOAT, (1, HEADS, queries, 32)),
        "k": (FLOAT, (1, HEADS // SHARED, KEYS, 32)),
        "v": (FLOAT, (1, HEADS // SHARED, KEYS, 16)),
    }
    if mask is not None:
        ins["m"] = mask
    infos = [helper.make_tensor_value_info(n, t, s) for n, (t, s) in ins.items()]
    node = helper.make_node("Attention", list(ins), ["y"], **how)
    out = helper.make_tensor_value_info("y", FLOAT, None)
    graph = helper.make_graph([node], "g", infos, [out])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


def _attentions(model: Any, **how: Any) -> list[AttentionOp]:
    """The kernels that go through keys, after the passes that may cut them."""
    module, options, ctx = import_onnx(model), Options(**how), make_context()
    steps = [*passes(Level.GRAPH, options), *passes(Level.FUSED, options)]
    for step in [*simplification(options), *steps]:
        if step.name == "fused-to-npu":
            break
        step.apply(ctx, module)
    return [op for op in module.walk() if isinstance(op, AttentionOp)]


def _inputs(model: Any) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    found: dict[str, Any] = {}
    for info in model.graph.input:
        array = rng.standard_normal([d.dim_value for d in info.type.tensor_type.shape.dim])
        boolean = info.type.tensor_type.elem_type == BOOL
        found[info.name] = array > 0.3 if boolean else array.astype(np.float32)
    return found


@pytest.mark.parametrize(
    ("queries", "mask"),
    [(1, None), (3, None), (1, (BOOL, (1, KEYS))), (1, (FLOAT, (1, HEADS, 1, KEYS)))],
)
def test_slices_of_keys_are_joined(queries: int, mask: Any) -> None:
    model = _model(queries, mask)
    assert [op.partial is not None for op in _attentions(model)] == [True]
    inputs = _inputs(model)
    if mask is not None and mask[0] == BOOL:
        inputs["m"][..., : KEYS // 2] = False  # Slices without a single key that counts.
    check(model, Options(), inputs)


def test_many_queries_and_single_launches_leave_the_keys_together() -> None:
    for model, how in ((_model(512), {}), (_model(1), {"native": False})):
        assert all(op.partial is None for op in _attentions(model, **how))
