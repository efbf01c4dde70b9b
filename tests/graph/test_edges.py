"""Where operators are easily got wrong: NaN, borders, ties, negative numbers, half precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.ir import Block

from ge.dialects import dtypes
from ge.dialects.graph.base import GraphOp, of_array
from ge.dialects.graph.module import make_module
from ge.dialects.graph.ops.activation import ClipOp, GeluForm, GeluOp, PReluOp, ReluOp
from ge.dialects.graph.ops.attention import AttentionOp
from ge.dialects.graph.ops.binary import DivOp, MaxOp, ModOp, PowOp
from ge.dialects.graph.ops.conv import ConvOp, ConvTransposeOp
from ge.dialects.graph.ops.index import GatherNDOp, GatherOp, TopKOp
from ge.dialects.graph.ops.layout import PadMode, PadOp, SliceOp
from ge.dialects.graph.ops.norm import LayerNormalizationOp, RMSNormalizationOp, SoftmaxOp
from ge.dialects.graph.ops.pool import AveragePoolOp, MaxPoolOp
from ge.dialects.graph.ops.reduce import ArgMaxOp, ReduceMaxOp, ReduceMeanOp
from ge.dialects.graph.ops.resize import Coordinates, NearestMode, ResizeMode, ResizeOp
from ge.dialects.graph.ops.unary import CastOp, RoundOp, SignOp
from ge.frontend.onnx_export import export_onnx
from tests.onnx_oracle import close, run

RNG = np.random.default_rng(0)
NAN = np.array([np.nan, 1, -2, np.inf, -np.inf, 0], np.float32)
INTS = np.array([-7, -6, -1, 0, 1, 7], np.int32)


def normal(*shape: int, dtype: str = "float32", scale: float = 1.0) -> Any:
    return (RNG.standard_normal(shape) * scale).astype(dtype)


CASES: dict[str, tuple[type[GraphOp], list[Any], dict[str, Any]]] = {
    "relu of nan": (ReluOp, [NAN], {}),
    "sign of nan": (SignOp, [NAN], {}),
    "max with nan": (MaxOp, [NAN, NAN[::-1].copy()], {}),
    "clip by nan": (ClipOp, [NAN, None, np.array(np.nan, np.float32)], {}),
    "clip from above only": (ClipOp, [NAN, None, np.array(0.5, np.float32)], {}),
    "halves to even": (RoundOp, [np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)], {}),
    "integer division": (DivOp, [INTS, np.array([2, 4, -3, 5, -2, -3], np.int32)], {}),
    "integer remainder": (ModOp, [INTS, np.array([2, 4, -3, 5, -2, -3], np.int32)], {}),
    "fmod": (ModOp, [normal(6, scale=5), normal(6)], {"fmod": True}),
    "power of another type": (PowOp, [normal(4), np.array([2, 3, 0, 1], np.int64)], {}),
    "cast out of range": (
        CastOp,
        [np.array([-200, 300, 1.9, -1.9], np.float32)],
        {"to": dtypes.I8},
    ),
    "cast to bool": (CastOp, [np.array([0, 0.5, -1], np.float32)], {"to": dtypes.B8}),
    "max of nothing": (ReduceMaxOp, [np.zeros((2, 0, 3), np.float32)], {"axes": (1,)}),
    "mean of integers": (ReduceMeanOp, [np.array([[-7, 2], [3, 4]], np.int32)], {"axes": (1,)}),
    "first of ties": (ArgMaxOp, [np.array([[1, 3, 3, 2]], np.float32)], {"axis": 1}),
    "ties of top k": (TopKOp, [np.array([2, 3, 3, 1, 2], np.float32)], {"k": 4}),
    "smallest of ties": (TopKOp, [np.array([2, 1, 1, 3], np.float32)], {"k": 3, "largest": False}),
    "negative index": (GatherOp, [normal(4, 3), np.array([-1, 0, -4])], {}),
    "negative index tuple": (GatherNDOp, [normal(4, 3), np.array([[-1, -3], [0, 2]])], {}),
    "backwards to nothing": (
        SliceOp,
        [normal(5)],
        {"starts": (0,), "ends": (3,), "axes": (0,), "steps": (-1,)},
    ),
    "padding cut off": (PadOp, [normal(2, 5)], {"pads": (0, -1, 1, 2), "mode": PadMode.EDGE}),
    "windows rounded up": (
        AveragePoolOp,
        [normal(1, 2, 7, 6)],
        {
            "kernel_shape": (3, 2),
            "strides": (2, 3),
            "pads": (1, 0, 1, 1),
            "ceil_mode": True,
            "count_include_pad": True,
        },
    ),
    "windows with gaps": (
        MaxPoolOp,
        [normal(1, 2, 9, 9)],
        {"kernel_shape": (2, 3), "dilations": (3, 2), "pads": (1, 1, 0, 2)},
    ),
    "grouped conv in half": (
        ConvOp,
        [normal(2, 6, 9, 7, dtype="float16"), normal(4, 3, 3, 2, dtype="float16")],
        {"group": 2, "pads": (2, 0, 1, 1), "strides": (2, 1), "dilations": (2, 1)},
    ),
    "conv of three dims": (ConvOp, [normal(1, 2, 4, 5, 6), normal(3, 2, 2, 3, 2)], {}),
    "grouped transposed conv": (
        ConvTransposeOp,
        [normal(1, 4, 3, 5), normal(4, 3, 3, 2), normal(6)],
        {"group": 2, "strides": (2, 3), "pads": (1, 0, 0, 1), "dilations": (1, 2)},
    ),
    "slope along the last dim": (PReluOp, [normal(2, 3, 4), normal(4)], {}),
    "gelu by tanh": (GeluOp, [normal(5, 7, scale=3)], {"approximate": GeluForm.TANH}),
    "softmax in half": (SoftmaxOp, [normal(3, 50, dtype="float16", scale=9)], {"axis": 0}),
    "norm over two dims": (
        LayerNormalizationOp,
        [normal(2, 3, 4), normal(3, 4), normal(3, 4)],
        {"axis": -2, "epsilon": 1e-3},
    ),
    "norm of large halves": (
        RMSNormalizationOp,
        [normal(2, 64, dtype="float16", scale=400), normal(64, dtype="float16")],
        {},
    ),
    "linear resize": (
        ResizeOp,
        [normal(1, 1, 5, 7)],
        {
            "sizes": (1, 1, 3, 11),
            "mode": ResizeMode.LINEAR,
            "coordinate_transformation_mode": Coordinates.ALIGN_CORNERS,
        },
    ),
    "cubic resize": (
        ResizeOp,
        [normal(1, 1, 5, 7)],
        {"scales": (1.0, 1.0, 1.7, 0.6), "mode": ResizeMode.CUBIC},
    ),
    "nearest resize": (
        ResizeOp,
        [normal(1, 2, 5, 7)],
        {
            "sizes": (1, 2, 8, 4),
            "nearest_mode": NearestMode.CEIL,
            "coordinate_transformation_mode": Coordinates.ASYMMETRIC,
        },
    ),
    "attention by 3 dims": (
        AttentionOp,
        [normal(2, 4, 12), normal(2, 6, 6), normal(2, 6, 8), RNG.integers(0, 2, (4, 6)) > 0],
        {"q_num_heads": 4, "kv_num_heads": 2, "scale": 0.3, "softcap": 2.0},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_evaluate_is_onnxruntime(case: str) -> None:
    cls, arrays, attrs = CASES[case]
    present = [a for a in arrays if a is not None]
    block = Block(arg_types=[of_array(a) for a in present])
    given = iter(block.args)
    op = cls.make(*[None if a is None else next(given) for a in arrays], **attrs)
    block.add_op(op)
    ins = [f"in{i}" for i in range(len(present))]
    module = make_module(block, op.results, ins, [f"out{i}" for i in range(len(op.results))])
    module.verify()
    padded = [*arrays, *[None] * (len(op.arguments) - len(arrays))]
    mine = op.evaluate_all(padded, op.attrs)
    want = run(export_onnx(module), dict(zip(ins, present, strict=True)))
    for got, reference in zip(mine, want, strict=True):
        close(got, reference, 3e-6)
