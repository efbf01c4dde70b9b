"""Operators that torch's exporter does not know, or gets wrong, beside torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import ge
from ge.frontend.torch_adaptive import adaptive
from ge.frontend.torch_composed import composed
from ge.frontend.torch_losses import losses
from ge.runtime.device import DEVICE

pytestmark = pytest.mark.filterwarnings("ignore")
CONFIG = ge.OptimizeConfig(target="tiny")
aten = torch.ops.aten
NAN = float("nan")

ROWS = torch.tensor([[2.0, 1.0, 2.0, 0.5, 1.0], [3.0, NAN, 1.0, 3.0, -1.0]])
WHOLE = torch.tensor([[2, 1, 2, 7, 1], [3, 0, 3, 3, -1]])
INDEX = torch.tensor([[1, 0, 1, 1, 0]])
NEW = torch.tensor([[4.0, 5.0, 6.0, 7.0, 8.0]])
MASK = torch.tensor([[True, False, True, True, False]])

CASES: dict[str, tuple[Any, Any, tuple[Any, ...], dict[str, Any]]] = {
    "kth": (aten.kthvalue.default, ROWS[1, ::2], (2,), {}),
    "median": (aten.median.dim, ROWS, (1,), {}),
    "median of columns": (aten.median.dim, WHOLE, (0, True), {}),
    "median of all": (aten.median.default, ROWS[0], (), {}),
    "median of numbers": (aten.nanmedian.dim, ROWS, (-1, True), {}),
    "mode": (aten.mode.default, WHOLE, (1,), {}),
    "found": (aten.searchsorted.Tensor, ROWS[:1].sort().values, (NEW / 4,), {}),
    "found behind": (aten.searchsorted.Tensor, WHOLE[0].sort()[0], (WHOLE,), {"right": True}),
    "found by one": (aten.searchsorted.Scalar, WHOLE[0].sort()[0], (2,), {"out_int32": True}),
    "products so far": (aten.cumprod.default, ROWS, (1,), {}),
    "whole products so far": (aten.cumprod.default, WHOLE, (0,), {}),
    "largest so far": (aten.cummax.default, ROWS, (1,), {}),
    "least so far": (aten.cummin.default, WHOLE, (-1,), {}),
    "mean of places": (aten.scatter_reduce.two, ROWS, (0, INDEX, NEW, "mean"), {}),
    "mean of others": (
        aten.scatter_reduce.two,
        WHOLE,
        (0, INDEX, NEW.long(), "mean"),
        {"include_self": False},
    ),
    "index reduce": (
        aten.index_reduce.default,
        ROWS,
        (1, torch.tensor([0, 2]), torch.randn(2, 2), "amax"),
        {},
    ),
    "put": (aten.put.default, ROWS, (torch.tensor([1, -1]), torch.tensor([8.0, 9.0])), {}),
    "by a mask": (aten.masked_scatter.default, ROWS, (MASK, torch.randn(9)), {}),
    "by a mask, back": (aten.masked_scatter_backward.default, NEW, (MASK, [2, 2]), {}),
    "far apart": (aten._cdist_forward.default, ROWS[:1], (NEW.repeat(2, 1), 1.0, None), {}),
    "diagonal": (
        aten.diagonal_scatter.default,
        torch.zeros(2, 3, 4),
        (torch.ones(3, 2), -1, 2, 0),
        {},
    ),
    "larger number": (aten.fmax.default, ROWS, (ROWS.flip(1),), {}),
    "sums of windows": (
        aten.avg_pool2d.default,
        torch.randn(1, 2, 9, 7),
        ([6, 3], [3, 2], [2, 1], True, True, 2),
        {},
    ),
    "sums of cubes": (
        aten.avg_pool3d.default,
        torch.randn(1, 5, 4, 5),
        ([2, 3, 2], [], [0, 1, 1], False, False, 5),
        {},
    ),
    "hypotenuse": (aten.hypot.default, ROWS * 1e30, (NEW * 1e30,), {}),
    "ends": (aten.aminmax.default, WHOLE, (), {}),
    "ends of columns": (aten.aminmax.default, WHOLE, (), {"dim": 0, "keepdim": True}),
    "bounded": (aten.clamp.default, ROWS, (0, 2.5), {}),
    "window": (aten.hamming_window.periodic, 7, (False,), {}),
    "window that comes again": (aten.hamming_window.default, 8, (), {}),
}


GRAD = torch.randn(2, 3, 4, 3)
IMAGE = torch.randn(2, 3, 7, 5)
SPACE = torch.randn(2, 5, 7, 3)
WINDOWS: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "averages of a space": (aten._adaptive_avg_pool3d.default, SPACE, ([2, 3, 4],)),
    "their gradient": (aten._adaptive_avg_pool3d_backward.default, GRAD[:, :2], (SPACE,)),
    "gradient of averages": (aten._adaptive_avg_pool2d_backward.default, GRAD, (IMAGE,)),
    "of many": (aten._adaptive_avg_pool2d_backward.default, torch.randn(3, 8, 6), (IMAGE[0],)),
    "largest": (aten.adaptive_max_pool2d.default, IMAGE.round(), ([3, 2],)),
    "largest, often": (aten.adaptive_max_pool2d.default, IMAGE[0], ([9, 4],)),
    "largest of a space": (aten.adaptive_max_pool3d.default, SPACE[None], ([2, 7, 1],)),
    "average of a space": (
        aten.avg_pool3d_backward.default,
        torch.randn(2, 3, 4, 2),
        (SPACE, [2, 3, 2], [2, 2, 1], [1, 1, 0], False, False, None),
    ),
    "repeated": (
        aten.replication_pad2d_backward.default,
        torch.randn(2, 3, 9, 10),
        (IMAGE, [1, 4, 2, 0]),
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_of_many_lengths(name: str) -> None:
    operator, x, args = WINDOWS[name]
    torch.testing.assert_close(adaptive()[operator](x, *args), operator(x, *args))


@pytest.mark.parametrize("dims", [2, 3])
def test_gradients_go_where_the_largest_were(dims: int) -> None:
    x = torch.randn(2, 5, 4, 6)
    pool = getattr(aten, f"adaptive_max_pool{dims}d")
    back = getattr(aten, f"adaptive_max_pool{dims}d_backward").default
    found, places = pool(x, [3, 2, 4][:dims])
    torch.testing.assert_close(adaptive()[back](found, x, places), back(found, x, places))


@pytest.mark.parametrize("name", CASES)
def test_what_takes_an_operators_place_gives_the_same(name: str) -> None:
    operator, x, args, how = CASES[name]
    torch.testing.assert_close(
        composed()[operator](x, *args, **how), operator(x, *args, **how), equal_nan=True
    )


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_gradients_of_distances(p: float) -> None:
    x, y = torch.randn(4, 3), torch.randn(5, 3)
    y[0] = x[0]
    far = aten._cdist_forward(x, y, p, None)
    grad = torch.randn_like(far)
    back = aten._cdist_backward(grad, x, y, p, far)
    torch.testing.assert_close(composed()[aten._cdist_backward.default](grad, x, y, p, far), back)


class _Ordered(nn.Module):
    """What is translated, not composed, and something that is."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Any:
        """Equal elements stay in order; of what a mask chooses, nobody counts how much it is."""
        y = x.clone()
        y[mask] = 0.25
        y[:, mask[0]] = torch.tensor([[7.0], [8.0]])
        loss = nn.functional.cross_entropy(x, x.softmax(1), label_smoothing=0.1)
        down = torch.sort(x, dim=1, stable=True, descending=True)
        return down, torch.argsort(x, dim=0, stable=True), y.cumprod(0), loss, x.aminmax()


def test_they_run_on_the_device() -> None:
    x = torch.tensor([[1.0, 3.0, 1.0, 3.0], [2.0, 2.0, 0.0, 2.0]])
    device = ge.GraphEngine(CONFIG).Optimize(_Ordered())
    launches = DEVICE.launches
    got = device(x, x > 1)
    assert DEVICE.launches == launches + 1
    torch.testing.assert_close(got, _Ordered()(x, x > 1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_margins_of_named_classes(reduction: int) -> None:
    operator, x = aten.multilabel_margin_loss_forward.default, torch.randn(3, 5)
    named = torch.tensor([[3, 0, -1, 1, 1], [-1, 0, 0, 0, 0], [2, 0, 1, 4, 3]])
    got = losses()[operator](x, named, reduction)
    torch.testing.assert_close(got, operator(x, named, reduction))
    one = losses()[operator](x[0], named[0], reduction)
    torch.testing.assert_close(one, operator(x[0], named[0], reduction))


class _Best(nn.Module):
    """Places and values of the best."""

    def forward(self, x: torch.Tensor, whole: torch.Tensor) -> Any:
        """Of rows, columns and all."""
        pairs = x.max(1), x.min(1, keepdim=True), whole.max(0)
        return *pairs, x.argmax(1), x.argmin(0), x.argmax(), x.argmin(keepdim=True), whole.argmin(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_what_is_no_number_is_the_best(dtype: torch.dtype) -> None:
    inf = float("inf")
    x = torch.tensor([[2.0, inf, NAN, NAN], [-inf, 3.0, 3.0, -inf], [1.0, NAN, -inf, inf]])
    device = ge.GraphEngine(CONFIG).Optimize(_Best())
    launches = DEVICE.launches
    got = device(x.to(dtype), WHOLE)
    assert DEVICE.launches == launches + 1
    torch.testing.assert_close(got, _Best()(x.to(dtype), WHOLE), rtol=0, atol=0, equal_nan=True)
