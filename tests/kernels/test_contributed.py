"""Operators outside ONNX that onnxruntime's quantiser writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from ge.dialects.diagnostics import UnsupportedError
from ge.frontend.onnx_import import import_onnx
from ge.lowering.pipelines import Options
from tests.compiled import check
from tests.models import Net

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


def test_others_are_refused_by_their_full_name() -> None:
    net = Net()
    out = net("QuickGelu", "x", domain=MICROSOFT)
    with pytest.raises(UnsupportedError, match="1 node must be of supported operators") as caught:
        import_onnx(model_of(net, [out]))
    assert "com.microsoft.QuickGelu-1, first 'QuickGelu_0': no such operator here" in str(
        caught.value.detail
    )
