"""Attention as one operator, long waves, and what 64-bit integers become: compiled and run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from examples.models import Net
from ge.dialects.fused.ops import AttentionOp
from ge.dialects.module_text import make_context
from ge.frontend.onnx_import import import_onnx
from ge.lowering.pipelines import Level, Options, passes, simplification
from tests.compiled import check

FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


def _model(nodes: list[Any], ins: Mapping[str, tuple[Any, Any]], opset: int = 23) -> Any:
    infos = [helper.make_tensor_value_info(n, t, s) for n, (t, s) in ins.items()]
    graph = helper.make_graph(nodes, "g", infos, [helper.make_tensor_value_info("y", FLOAT, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11)


def _attention(mask: tuple[Any, Any] | None = None, shared: int = 1, **how: Any) -> Any:
    ins: dict[str, tuple[Any, Any]] = {
        "q": (FLOAT, (2, 4, 5, 8)),
        "k": (FLOAT, (2, 4 // shared, 7, 8)),
        "v": (FLOAT, (2, 4 // shared, 7, 6)),
    }
    if mask:
        ins["m"] = mask
    return _model([helper.make_node("Attention", list(ins), ["y"], **how)], ins)


def _inputs(model: Any, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    found = {}
    for info in model.graph.input:
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        array = rng.standard_normal(shape)
        kind = info.type.tensor_type.elem_type
        found[info.name] = array > 0.3 if kind == BOOL else array.astype(np.float32)
    return found


@pytest.mark.parametrize("shared", [1, 2, 4])
@pytest.mark.parametrize(
    "mask", [None, (BOOL, (5, 7)), (FLOAT, (2, 1, 5, 7)), (BOOL, (2, 4, 5, 7))]
)
def test_attention_with_shared_heads_and_masks(shared: int, mask: Any) -> None:
    model = _attention(mask, shared)
    inputs = _inputs(model)
    if "m" in inputs:
        inputs["m"][..., 0] = 1
    check(model, Options(target="tiny"), inputs)


def test_many_queries_fit_a_small_machine() -> None:
    ins = {"q": (FLOAT, (1, 1, 513, 64)), **dict.fromkeys("kv", (FLOAT, (1, 1, 7, 64)))}
    model = _model([helper.make_node("Attention", list(ins), ["y"])], ins)
    check(model, Options(target="tiny"), _inputs(model))


@pytest.mark.parametrize("fuse", [True, False])
def test_rows_without_any_key_are_zero(fuse: bool) -> None:
    model = _attention((BOOL, (2, 1, 5, 7)), 2, scale=0.3, softcap=2.0)
    inputs = _inputs(model)
    inputs["m"][1, :, 2:4] = False
    inputs["m"][0, ..., 1] = True
    check(model, Options(target="tiny", fuse=fuse), inputs)


def _masked(how: str, mask: np.ndarray) -> Any:
    """One head, written out, with a mask that is a constant."""
    net = Net(4)
    scores = net("Mul", net("MatMul", "q", net("Transpose", "k", perm=[1, 0])), np.float32(0.3))
    if how == "where":
        scores = net("Where", mask, scores, np.float32(-3.4e38))
    else:
        scores = net("Add", scores, np.where(mask, 0, -3.4e38).astype(np.float32))
    y = net("MatMul", net("Softmax", scores, axis=-1), "v")
    rows, keys = mask.shape
    return net.model({"q": (rows, 8), "k": (keys, 8), "v": (keys, 8)}, [y], 17)


BAND = np.tri(150, 150, 7, bool) & ~np.tri(150, 150, -90, bool)
MASKS = {
    "causal": (np.tri(150, 150, 0, bool), 0),
    "seven keys on": (np.tri(150, 150, 7, bool), 7),
    "a band": (BAND, None),
    "one key hidden": (~np.pad(np.ones((1, 1), bool), ((100, 49), (120, 29))), 19),
    "a row of nothing": (np.tri(150, 150, 140, bool) & (np.arange(150) != 149)[:, None], None),
}


@pytest.mark.parametrize("how", ["where", "add"])
@pytest.mark.parametrize("mask", MASKS)
def test_tiles_that_a_mask_leaves_alone_go_without_it(mask: str, how: str) -> None:
    array, clear = MASKS[mask]
    model = _masked(how, array)
    check(model, Options(target="tiny"), _inputs(model))
    module, options = import_onnx(model), Options(target="tiny")
    for step in [*simplification(options), *passes(Level.GRAPH, options)]:
        step.apply(make_context(), module)
    (op,) = [op for op in module.walk() if isinstance(op, AttentionOp)]
    assert (None if op.clear is None else op.clear.value.data) == clear


def test_heads_in_the_last_dim_and_a_causal_mask() -> None:
    ins = {"q": (FLOAT, (2, 5, 24)), "k": (FLOAT, (2, 5, 12)), "v": (FLOAT, (2, 5, 12))}
    how: dict[str, Any] = {"q_num_heads": 4, "kv_num_heads": 2, "is_causal": 1}
    model = _model([helper.make_node("Attention", list(ins), ["y"], **how)], ins)
    check(model, Options(target="tiny"), _inputs(model))


@pytest.mark.parametrize("wave", ["Sin", "Cos"])
def test_waves_far_from_zero(wave: str) -> None:
    model = _model([helper.make_node(wave, ["x"], ["y"])], {"x": (FLOAT, (4, 500))})
    x = np.linspace(-3000, 3000, 2000, dtype=np.float32).reshape(4, 500)
    check(model, Options(target="tiny"), {"x": x})


def test_64_bit_integers_are_computed_in_32_bits_where_that_is_asked_for() -> None:
    nodes = [
        helper.make_node("Add", ["p", "p"], ["s"]),
        helper.make_node("LessOrEqual", ["p", "q"], ["c"]),
        helper.make_node("Cast", ["s"], ["f"], to=FLOAT),
        helper.make_node("Cast", ["c"], ["g"], to=FLOAT),
        helper.make_node("Add", ["f", "g"], ["y"]),
    ]
    model = _model(nodes, {"p": (INT64, (3, 4)), "q": (INT64, (1, 1))})
    p = np.random.default_rng(0).integers(-(2**20), 2**20, (3, 4))
    inputs = {"p": p, "q": np.zeros((1, 1), np.int64)}
    check(model, Options(target="tiny", narrow=True), inputs, simplify=True)
