"""Operators at the borders of what they take: parts of images, empty ranges, a bound left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from ge.lowering.pipelines import Options
from tests.compiled import check, random_inputs
from tests.models import Net

TINY = Options(target="tiny")
IMAGE = (2, 3, 5, 6)


def resize(mode: str, sizes: list[int], roi: list[float], dtype: Any = np.float32) -> Any:
    """A part of an image, some of its sides as long as they were."""
    net = Net()
    how: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize"}
    whole = np.array([0, 0, *roi[:2], 1, 1, *roi[2:]], np.float32)
    made = net("Resize", "x", whole, "", np.array([1, 2, *sizes]), extrapolation_value=7.0, **how)
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = net.model({"x": (1, 2, 4, 6)}, [made], 13, {"x": kind, made: kind})
    x = np.random.default_rng(1).integers(0, 200, (1, 2, 4, 6)).astype(dtype)
    return model, {"x": x}


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("sizes", [[1, 6], [4, 9], [7, 3]])
def test_parts_of_images(mode: str, sizes: list[int]) -> None:
    model, given = resize(mode, sizes, [0.4, 0.1, 0.8, 1.1])
    check(model, TINY, given, simplify=True)


def test_images_of_bytes_have_weights_of_fractions() -> None:
    model, given = resize("linear", [7, 9], [0.0, 0.0, 1.0, 1.0], np.uint8)
    check(model, TINY, given, simplify=True)


def test_scales_are_of_the_whole_image() -> None:
    net = Net()
    how: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    ends = np.array([0, 0, 0.25, 0.25, 1, 1, 0.75, 0.75], np.float32)
    made = net("Resize", "x", ends, np.array([1, 1, 2, 0.5], np.float32), **how)
    check(net.model({"x": IMAGE}, [made], 13), TINY, simplify=True)


def _images(net: Net) -> list[str]:
    size = np.array([1, 1, 9, 4], np.float32)
    none = np.zeros(0, np.float32)
    how: dict[str, Any] = {
        "coordinate_transformation_mode": "tf_half_pixel_for_nn",
        "nearest_mode": "floor",
    }
    return [net("Resize", "x", none, np.divide(size, [1, 1, 5, 6]).astype(np.float32), **how)]


def _norms(net: Net) -> list[str]:
    far = net("Add", "x", np.float32(1000))
    return [
        net("GlobalLpPool", "x", p=3),
        net("MeanVarianceNormalization", far, axes=[3]),
    ]


def _slices(net: Net) -> list[str]:
    last, axes = np.array([2**63 - 1, 2**31 - 1]), np.array([2, 3])
    whole = net("Slice", "x", np.array([-1, 4]), last, axes, np.array([-1, -2]))
    ahead = net("Slice", "x", np.array([1, 1]), last, axes, np.array([2, 1]))
    return [whole, ahead]


def _bytes(net: Net) -> list[str]:
    nothing = net("Mul", "x", np.float32(0))
    return [out for v in (nothing, "x") for out in net("DynamicQuantizeLinear", v, outputs=3)]


def _sampled(net: Net) -> list[str]:
    theta = net("Reshape", net("Slice", "x", [0], [6], [3]), np.array([30, 2, 3]))
    one = net("Slice", theta, [3], [4], [0])
    grid = net("AffineGrid", one, np.array([1, 2, 3, 4]), align_corners=1)
    other = net("AffineGrid", theta, np.array([30, 1, 2, 1]))
    at = net("Mul", net("Reshape", "x", np.array([2, 3, 15, 2])), np.float32(0.7))
    how: dict[str, Any] = {"mode": "cubic", "padding_mode": "border"}
    return [grid, other, net("GridSample", "x", at, **how)]


MAKERS: list[Callable[[Net], list[str]]] = [_images, _norms, _slices, _sampled]


@pytest.mark.parametrize("make", MAKERS)
def test_numbers_are_those_of_onnxruntime(make: Callable[[Net], list[str]]) -> None:
    net = Net()
    opset = 11 if make is _images else 18 if make is _norms else 20
    model = net.model({"x": IMAGE}, make(net), opset)
    check(model, TINY, random_inputs(model), simplify=True)


def test_sums_over_no_axis() -> None:
    net = Net()
    ops = ("Sum", "SumSquare", "L1", "L2", "LogSum", "LogSumExp")
    outs = [net(f"Reduce{op}", "x", noop_with_empty_axes=1) for op in ops]
    x = np.array([[1.5, 2, 0.5]], np.float32)
    check(net.model({"x": x.shape}, outs, 18), TINY, {"x": x}, simplify=True)


@pytest.mark.parametrize("bounds", [("", np.float32(1)), (np.float32(-1), ""), ("", "")])
def test_a_bound_that_is_left_out_is_the_last_number(bounds: tuple[Any, Any]) -> None:
    net = Net()
    model = net.model({"x": (2, 4)}, [net("Clip", "x", *bounds)], 13)
    x = np.array([[np.inf, -np.inf, np.nan, 0.5], [2, -2, -0.5, 1]], np.float32)
    check(model, TINY, {"x": x}, simplify=True)


def test_a_range_of_nothing_has_a_scale_of_one() -> None:
    net = Net()
    outs = _bytes(net)
    kinds = {name: TensorProto.UINT8 for i, name in enumerate(outs) if i % 3 != 1}
    check(net.model({"x": IMAGE}, outs, 13, kinds), TINY, simplify=True)


@pytest.mark.parametrize("wide", [2, 3001])
def test_sums_of_exponentials_of_what_is_infinite(wide: int) -> None:
    inf = np.inf
    ends = [(-inf, -inf), (inf, 0), (inf, -inf), (-1e4, 1e4), (-inf, 3), (np.nan, 1)]
    x = np.full((len(ends), wide), -inf, np.float32)
    x[:, [0, -1]] = ends
    net = Net()
    made = net("ReduceLogSumExp", "x", np.array([1]), keepdims=0)
    check(net.model({"x": x.shape}, [made], 18), TINY, {"x": x}, simplify=True)


@pytest.mark.parametrize("size", [(6, 6), (7, 7)])
def test_what_was_pooled_goes_back_to_its_places(size: tuple[int, int]) -> None:
    net = Net()
    image, shape = (2, 3, *size), np.array([2, 3, *size])
    how: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    largest, places = net("MaxPool", "x", outputs=2, **how)
    made = net("MaxUnpool", largest, places, shape, **how)
    check(net.model({"x": image}, [made], 13), TINY, simplify=True)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("shape", [(6, 7), (3, 2050), (4, 5, 3)])
def test_places_where_something_is_no_number(op: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    x = rng.integers(0, 5, shape).astype(np.float32)
    x[rng.random(shape) < 0.3] = np.nan
    net = Net()
    outs = [net(op, "x", axis=1, select_last_index=last) for last in (0, 1)]
    model = net.model({"x": shape}, outs, 13, dict.fromkeys(outs, TensorProto.INT64))
    check(model, TINY, {"x": x}, simplify=True)
