"""Operators outside ONNX that onnxruntime's optimiser and its quantiser write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import ge
from ge.dialects.diagnostics import UnsupportedError
from ge.frontend.onnx_import import import_onnx
from ge.lowering.pipelines import Options
from tests.compiled import check
from tests.models import Net
from tests.onnx_oracle import run

MICROSOFT = "com.microsoft"


def model_of(net: Net, outputs: list[str]) -> onnx.ModelProto:
    """What was collected, as a model of both domains; its types cannot be inferred."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        net.nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, (2, 2, 6))],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in net.weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize(
    ("dtype", "direction"),
    [(np.int8, "reverse"), (np.uint8, "forward"), (np.int8, "bidirectional")],
)
def test_a_memory_with_weights_in_bytes(dtype: type, direction: str) -> None:
    net, hidden = Net(), 7
    ways = 2 if direction == "bidirectional" else 1
    # Seven bits: onnxruntime's own sums of two products saturate on some processors.
    low, high = (-64, 64) if dtype is np.int8 else (0, 256)

    def weights(rows: int) -> list[Any]:
        made: Any = net.rng.integers(low, high, (ways, rows, 4 * hidden)).astype(dtype)
        zero: Any = np.full(ways, 0 if dtype is np.int8 else 128, dtype)
        return [made, np.full(ways, 0.01, np.float32), zero]

    w, w_scale, w_zero = weights(6)
    r, r_scale, r_zero = weights(hidden)
    outs = net(
        "DynamicQuantizeLSTM",
        *("x", w, r, net.normal(ways, 8 * hidden), "", "", "", ""),
        *(w_scale, w_zero, r_scale, r_zero),
        outputs=3,
        direction=direction,
        hidden_size=hidden,
        domain=MICROSOFT,
    )
    check(model_of(net, outs), Options())


def _layers(net: Net) -> list[str]:
    """What an optimised transformer consists of."""
    how: dict[str, Any] = {"domain": MICROSOFT}
    row, rows = net.normal(6), net.normal(2, 2, 6)
    y = net("FusedMatMul", "x", net.normal(5, 6), transB=1, alpha=0.5, **how)
    sums = net("SkipLayerNormalization", "x", rows, row, row, row, outputs=4, **how)
    plain = net("SkipSimplifiedLayerNormalization", "x", rows, row, row, outputs=4, **how)
    gelus = [net(op, "x", row, **how) for op in ("BiasGelu", "FastGelu")]
    gelus += [net(op, "x", **how) for op in ("Gelu", "QuickGelu")]
    return [y, sums[0], sums[3], plain[0], plain[3], *gelus]


def _sums(net: Net) -> list[str]:
    """Products and convolutions with what follows them."""
    how: dict[str, Any] = {"domain": MICROSOFT}
    image = net("Reshape", "x", np.array([1, 2, 3, 4]))
    weights = net.normal(2, 2, 3, 3), net.normal(2)
    window: dict[str, Any] = {"pads": [1, 1, 1, 1], **how}
    parts = [
        net("FusedConv", image, *weights, activation=name, activation_params=numbers, **window)
        for name, numbers in (("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.7]))
    ]
    parts.append(net("FusedConv", image, *weights, image, activation="Relu", **window))
    flat = net("Reshape", "x", np.array([4, 6]))
    product: dict[str, Any] = {"transB": 1, "activation": "LeakyRelu", "activation_alpha": 0.3}
    return [*parts, net("FusedGemm", flat, net.normal(3, 6), net.normal(3), **product, **how)]


def _bytes(net: Net) -> list[str]:
    """Every operator on bytes, then floats again."""
    scale, zero = np.float32(0.04), np.uint8(60)
    x = net("QuantizeLinear", net("Reshape", "x", np.array([1, 2, 3, 4])), scale, zero)
    other = net.rng.integers(0, 120, (1, 2, 3, 4)).astype(np.uint8)
    own, to = (scale, zero), (np.float32(0.05), np.uint8(50))
    how: dict[str, Any] = {"domain": MICROSOFT}
    made = [net(op, x, *own, other, *own, *to, **how) for op in ("QLinearAdd", "QLinearMul")]
    made.append(net("QLinearSigmoid", x, *own, *to, **how))
    made.append(net("QLinearLeakyRelu", x, *own, *to, alpha=0.2, **how))
    made.append(net("QLinearGlobalAveragePool", x, *own, *to, **how))
    made.append(net("QLinearAveragePool", x, *own, *to, kernel_shape=[2, 2], **how))
    made.append(net("QLinearConcat", *to, x, *own, other, *own, axis=1, **how))
    flat = net("Reshape", x, np.array([6, 4]))
    w = net.rng.integers(0, 120, (4, 5)).astype(np.uint8)
    bias = np.arange(5, dtype=np.int32) * 40
    made.append(net("QGemm", flat, *own, w, *own, bias, *to, **how))
    floats = [net("DequantizeLinear", y, *to, **how) for y in made]
    floats.append(net("QGemm", flat, *own, w, *own, alpha=0.5, **how))
    row = net.normal(5)
    floats.append(net("MatMulIntegerToFloat", flat, w, scale, scale, zero, zero, row, **how))
    return [*floats, net("DynamicQuantizeMatMul", "x", np.concatenate([w, w[:2]]), scale, **how)]


def _heads(net: Net) -> list[str]:
    """Attention of one product, of three operands, and of one product in bytes."""
    how: dict[str, Any] = {"domain": MICROSOFT, "num_heads": 2}
    w, b = net.normal(6, 18, scale=0.5), net.normal(18)
    lengths, mask = np.array([2, 1], np.int32), np.array([[1, 1], [0, 1]], np.int32)
    each = np.array([[[1, 0], [1, 1]], [[0, 1], [1, 1]]], np.int32)
    made = [net("Attention", "x", w, b, m, **how) for m in ("", lengths, mask, each)]
    made.append(net("Attention", "x", w, b, unidirectional=1, **how))
    rows = net.normal(2, 3, 6), net.normal(2, 3, 6)
    bias, left = net.normal(1, 2, 2, 3), np.array([3, 2], np.int32)
    made.append(net("MultiHeadAttention", "x", *rows, b, left, bias, scale=0.3, **how))
    scale, zero = np.float32(0.03), np.uint8(60)
    small = net.rng.integers(-60, 60, (6, 18)).astype(np.int8)
    x = net("QuantizeLinear", "x", scale, zero)
    ends = scale, np.float32(0.01), mask, zero, np.int8(0)
    made.append(net("QAttention", x, small, b, *ends, **how))
    return made


def _embedded(net: Net) -> list[str]:
    words = np.array([[3, 1], [0, 4]], np.int32)
    kinds, kept = np.array([[0, 1], [1, 1]], np.int32), np.array([[1, 0], [1, 1]], np.int32)
    tables = net.normal(5, 6), net.normal(4, 6), net.normal(2, 6)
    norm = net.normal(6), net.normal(6)
    how: dict[str, Any] = {"domain": MICROSOFT, "outputs": 2}
    y, count = net("EmbedLayerNormalization", words, kinds, *tables, *norm, kept, **how)
    other, _ = net("EmbedLayerNormalization", words, "", *tables[:2], "", *norm, **how)
    total = net("Cast", count, to=onnx.TensorProto.FLOAT)
    return [net("Add", "x", y), net("Add", "x", other), total]


@pytest.mark.parametrize("make", [_layers, _sums, _heads, _embedded])
def test_layers_of_an_optimised_model(make: Callable[[Net], list[str]]) -> None:
    net = Net()
    check(model_of(net, make(net)), Options(target="tiny"))


def test_layers_of_a_quantised_model() -> None:
    net = Net()
    model = model_of(net, _bytes(net))
    x = np.random.default_rng(2).standard_normal((2, 2, 6)).astype(np.float32)
    got = ge.compile(model, target="tiny").run({"x": x}, check_hazards=True)
    for name, want in zip(got, run(model, {"x": x}), strict=True):
        # A byte may be rounded the other way, where sums are taken in another order.
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=0.0501)


def test_others_are_refused_by_their_full_name() -> None:
    net = Net()
    out = net("CropAndResize", "x", domain=MICROSOFT)
    with pytest.raises(UnsupportedError, match="1 node must be of supported operators") as caught:
        import_onnx(model_of(net, [out]))
    assert "com.microsoft.CropAndResize-1, first 'CropAndResize_0': no such operator here" in str(
        caught.value.detail
    )
