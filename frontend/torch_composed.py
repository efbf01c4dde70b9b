"""Operators that torch's ONNX exporter does not know, or gets wrong, made of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor

from ge.frontend.torch_pooling import of_each_dim

aten = torch.ops.aten


def composed() -> dict[Any, Callable[..., Any]]:
    """Each operator, and what does the same."""
    found = _of_torch()
    # torch.compile registers it when it is first used.
    if hasattr(torch.ops.prims, "fma"):
        found[torch.ops.prims.fma.default] = lambda a, b, c: a * b + c
    return found


def _of_torch() -> dict[Any, Callable[..., Any]]:
    return {
        aten.hypot.default: _hypot,
        aten.fmax.default: partial(_number_of, torch.maximum),
        aten.fmin.default: partial(_number_of, torch.minimum),
        aten.clamp.default: _clamp,
        aten.aminmax.default: _extreme_pair,
        **_of_sorted_rows(),
        **_of_scans(),
        **_of_chosen_places(),
        aten._convolution.default: lambda *given: aten.convolution(*given[:9]),
        aten._trilinear.default: _three_products,
        aten.avg_pool2d.default: partial(_averages, 2),
        aten.avg_pool3d.default: partial(_averages, 3),
        aten.cdist.default: lambda x, y, p=2.0, compute_mode=None: _distances(x, y, p),
        aten._cdist_forward.default: _distances,
        aten._cdist_backward.default: _distances_backward,
        **dict.fromkeys((getattr(aten.hamming_window, name) for name in _WINDOWS), _hamming),
    }


def _hypot(a: Tensor, b: Tensor) -> Tensor:
    """Squares of the larger one would overflow where the result does not."""
    a, b = a.abs(), b.abs()
    most, least = torch.maximum(a, b), torch.minimum(a, b)
    share = torch.where(most > 0, least / torch.where(most > 0, most, 1), 0)
    return most * (1 + share * share).sqrt()


def _number_of(best: Callable[..., Tensor], a: Tensor, b: Tensor) -> Tensor:
    """The better one of two, or the one that is a number."""
    a, b = torch.broadcast_tensors(a, b)
    return torch.where(a.isnan(), b, torch.where(b.isnan(), a, best(a, b)))


def _clamp(x: Tensor, low: Any = None, high: Any = None) -> Any:
    """torch.onnx finds no clamp between an integer and a number that is none."""
    if {type(low), type(high)} != {int, float}:
        return NotImplemented
    return x.clamp(float(low), float(high))


def _extreme_pair(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    dims = [*range(x.dim())] if dim is None else [dim]
    return x.amin(dims, keepdim), x.amax(dims, keepdim)


def _three_products(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    expand_a: Sequence[int],
    expand_b: Sequence[int],
    expand_c: Sequence[int],
    summed: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    """A sum over some dims of three factors, none of which has all: the whole product is large."""
    dims = range(a.dim() + len(expand_a))
    parts: list[Any] = []
    for factor, expanded in ((a, expand_a), (b, expand_b), (c, expand_c)):
        parts += [factor, [d for d in dims if d not in expanded]]
    return torch.einsum(*parts, [d for d in dims if d not in summed])


# Sorted rows


def _of_sorted_rows() -> dict[Any, Callable[..., Any]]:
    return {
        aten.kthvalue.default: _kth,
        aten.median.dim: _median,
        aten.median.default: lambda x: _median(x.reshape(-1))[0],
        aten.nanmedian.dim: _median_of_numbers,
        aten.nanmedian.default: lambda x: _median_of_numbers(x.reshape(-1))[0],
        aten.mode.default: _mode,
        aten.searchsorted.Tensor: _found,
        aten.searchsorted.Scalar: lambda rows, value, **how: _found(
            rows, torch.full((1,), value, dtype=rows.dtype), **how
        )[0],
    }


def _sorted(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    values, places = torch.sort(x, dim=dim, stable=True)
    return values, places


def _picked(x: Tensor, dim: int, at: Tensor, keepdim: bool) -> Tensor:
    """The element of each row at a place of its own."""
    found = x.gather(dim, at)
    return found if keepdim else found.squeeze(dim)


def _kth(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, places = (v.narrow(dim, k - 1, 1) for v in _sorted(x, dim))
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


def _median(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower one of two in the middle; what is no number is found first."""
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    value, place = _kth(x, (x.shape[dim] + 1) // 2, dim, keepdim)
    if not x.is_floating_point():
        return value, place
    no_number = x.isnan()
    none = no_number.any(dim, keepdim)
    first = no_number.to(torch.int64).argmax(dim, keepdim)
    return torch.where(none, float("nan"), value), torch.where(none, first, place)


def _median_of_numbers(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if x.dim() == 0 or not x.is_floating_point():
        return _median(x, dim, keepdim)
    values, places = _sorted(x, dim)
    count = (~x.isnan()).sum(dim, keepdim=True)
    at = ((count - 1) // 2).clamp(min=0)
    return _picked(values, dim, at, keepdim), _picked(places, dim, at, keepdim)


def _mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest of those that come most often, and the last place of it."""
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    values, _ = _sorted(x, dim)
    dim %= x.dim()
    same = values.unsqueeze(dim) == values.unsqueeze(dim + 1)
    at = same.sum(dim + 1).argmax(dim, keepdim=True)
    value = values.gather(dim, at)
    n = x.shape[dim]
    order = torch.arange(n).reshape(-1, *(1,) * (x.dim() - 1 - dim))
    last = torch.where(x == value, order, 0).amax(dim, keepdim=True)
    return (value, last) if keepdim else (value.squeeze(dim), last.squeeze(dim))


def _found(
    rows: Tensor,
    values: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """How many of a row lie before each value: a place that keeps it sorted."""
    rows = rows if sorter is None else rows.gather(-1, sorter)
    rows = rows.unsqueeze(-2) if rows.dim() > 1 else rows
    each = values.unsqueeze(-1)
    before = rows <= each if right or side == "right" else rows < each
    return before.sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


# What is gathered along a dim


def _of_scans() -> dict[Any, Callable[..., Any]]:
    return {
        aten.cumprod.default: _cumulative_product,
        aten.cummax.default: partial(_extremes, better=torch.ge),
        aten.cummin.default: partial(_extremes, better=torch.le),
    }


def _steps(n: int) -> list[int]:
    """How far apart what is joined lies, step by step: what came before doubles each time."""
    return [1 << i for i in range((n - 1).bit_length())] if n > 1 else []


def _cumulative_product(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    x = x.to(dtype or (x.dtype if x.is_floating_point() else torch.int64))
    if x.dim() == 0:
        return x.clone()
    n = x.shape[dim]
    for step in _steps(n):
        first, rest = x.narrow(dim, 0, step), x.narrow(dim, step, n - step)
        x = torch.cat([first, rest * x.narrow(dim, 0, n - step)], dim)
    return x


def _extremes(x: Tensor, dim: int, *, better: Callable[..., Tensor]) -> tuple[Tensor, Tensor]:
    """The best so far and where it is, of equal ones the last; what is no number stays."""
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    dim %= x.dim()
    n = x.shape[dim]
    at = torch.arange(n).reshape(-1, *(1,) * (x.dim() - 1 - dim)).expand(x.shape)
    for step in _steps(n):
        now, before = x.narrow(dim, step, n - step), x.narrow(dim, 0, n - step)
        wins = better(now, before)
        if x.is_floating_point():
            wins = wins | now.isnan()
        found = torch.where(wins, now, before)
        places = torch.where(wins, at.narrow(dim, step, n - step), at.narrow(dim, 0, n - step))
        x = torch.cat([x.narrow(dim, 0, step), found], dim)
        at = torch.cat([at.narrow(dim, 0, step), places], dim)
    return x, at


# What is put into places


def _of_chosen_places() -> dict[Any, Callable[..., Any]]:
    return {
        aten.scatter_reduce.two: _scatter_mean,
        aten.index_reduce.default: _index_reduce,
        aten.diagonal_scatter.default: _diagonal_scatter,
        aten.put.default: _put,
        aten.masked_scatter.default: _masked_scatter,
        aten.masked_scatter_backward.default: _masked_scatter_backward,
    }


def _scatter_mean(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """A mean is a sum and a count; torch.onnx would write the last one."""
    if reduce != "mean":
        return NotImplemented
    total = aten.scatter_reduce.two(x, dim, index, src, "sum", include_self=include_self)
    ones = torch.ones_like(x)
    of = aten.scatter_reduce.two(
        ones, dim, index, torch.ones_like(src), "sum", include_self=include_self
    )
    return total / of if x.is_floating_point() else total // of


def _index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    column = index.reshape(-1, *(1,) * (x.dim() - 1 - dim % x.dim())).expand(source.shape)
    made: Tensor = aten.scatter_reduce.two(
        x, dim, column, source, reduce, include_self=include_self
    )
    return made


def _diagonal_scatter(
    x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    turned = x.movedim((dim1, dim2), (-2, -1))
    line = torch.arange(src.shape[-1])
    at = [line - min(offset, 0), line + max(offset, 0)]
    made: Tensor = aten.index_put.default(turned, [*[None] * (x.dim() - 2), *at], src)
    return made.movedim((-2, -1), (dim1, dim2))


def _put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    whole, at, new = (v.reshape(-1) for v in (x, index, source))
    at = torch.where(at < 0, at + whole.shape[0], at)
    made = whole.index_put([at], new, accumulate)
    return made.reshape(x.shape)


def _order(mask: Tensor, count: int) -> Tensor:
    """Which of `count` elements each place that is chosen gets, and the first for all others."""
    at = mask.reshape(-1).to(torch.int64).cumsum(0) - 1
    return at.clamp(0, count - 1)


def _masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    x, mask = torch.broadcast_tensors(x, mask)
    if not x.numel() or not source.numel():
        return x.clone()
    new = source.reshape(-1)[_order(mask, source.numel())].reshape(x.shape)
    return torch.where(mask, new, x)


def _masked_scatter_backward(grad: Tensor, mask: Tensor, sizes: Sequence[int]) -> Tensor:
    mask = mask.expand(grad.shape)
    whole = torch.zeros(prod(sizes), dtype=grad.dtype)
    own = torch.where(mask, grad, 0).reshape(-1)
    return whole.scatter_add(0, _order(mask, prod(sizes)), own).reshape(tuple(sizes))


# Distances


def _apart(x: Tensor, y: Tensor) -> Tensor:
    return x.unsqueeze(-2) - y.unsqueeze(-3)


def _distances(x: Tensor, y: Tensor, p: float, mode: int | None = None) -> Tensor:
    """Of each row of one to each of the other."""
    return torch.linalg.vector_norm(_apart(x, y), p, -1)


def _distances_backward(grad: Tensor, x: Tensor, y: Tensor, p: float, found: Tensor) -> Tensor:
    """The gradient of the first; of points in one place it is 0."""
    apart, far = _apart(x, y), found.unsqueeze(-1)
    sizes = apart.abs()
    if p == 0:
        return torch.zeros_like(x)
    if p == float("inf"):
        share = (sizes == far).to(x.dtype)
    elif p == 1:
        share = torch.ones_like(sizes)
    else:
        some = (far > 0) & (sizes > 0)
        share = torch.where(some, sizes / torch.where(some, far, 1), 0) ** (p - 1)
    own = grad.unsqueeze(-1) * share * apart.sign()
    return own.sum(-2)


def _averages(
    n: int,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Any:
    """Sums of windows divided by a number of the caller's, which torch.onnx does not look at."""
    if divisor is None:
        return NotImplemented
    kernel, steps, around = of_each_dim(n, kernel, stride or kernel, padding)
    ends: list[int] = []
    for size, k, step, p in zip(x.shape[-n:], kernel, steps, around, strict=True):
        made = (size + 2 * p - k + (step - 1 if ceil_mode else 0)) // step
        if ceil_mode and made * step >= size + p:
            made -= 1
        ends = [p, max(p, made * step + k - size - p), *ends]
    padded = torch.nn.functional.pad(x, ends)
    pool = aten.avg_pool2d.default if n == 2 else aten.avg_pool3d.default
    return pool(padded, kernel, steps) * (prod(kernel) / divisor)


_WINDOWS = ("default", "periodic", "periodic_alpha", "periodic_alpha_beta")


def _hamming(
    n: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **how: Any
) -> Tensor:
    """The numbers of torch: ONNX rounds 0.54 in another way."""
    dtype = how.get("dtype") or torch.get_default_dtype()
    if n < 2:
        return torch.ones(n, dtype=dtype)
    turn = 2 * torch.pi / (n if periodic else n - 1)
    return (alpha - beta * torch.cos(torch.arange(n, dtype=torch.float32) * turn)).to(dtype)
