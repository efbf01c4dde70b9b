"""Pooling to a size that is given: windows of many lengths, and places that are repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor

from ge.frontend.torch_pooling import average_pool_backward, shared_out

aten = torch.ops.aten


def adaptive() -> dict[Any, Callable[..., Any]]:
    """Each operator, and what it is made of."""
    return {
        aten._adaptive_avg_pool3d.default: _averages,
        aten._adaptive_avg_pool2d_backward.default: partial(_averages_backward, 2),
        aten._adaptive_avg_pool3d_backward.default: partial(_averages_backward, 3),
        aten.avg_pool3d_backward.default: partial(average_pool_backward, n=3),
        aten.adaptive_max_pool2d.default: _largest,
        aten.adaptive_max_pool3d.default: _largest,
        aten.adaptive_max_pool2d_backward.default: partial(_to_places, 2),
        aten.adaptive_max_pool3d_backward.default: partial(_to_places, 3),
        aten.max_pool3d_with_indices_backward.default: partial(_to_places, 3),
        aten.replication_pad1d_backward.default: _repeated_backward,
        aten.replication_pad2d_backward.default: _repeated_backward,
        aten.replication_pad3d_backward.default: _repeated_backward,
    }


def _windows(size: int, outs: int) -> tuple[Tensor, Tensor]:
    """Where each of the windows begins, and where it ends."""
    number = torch.arange(outs)
    return number * size // outs, ((number + 1) * size + outs - 1) // outs


def _shares(size: int, outs: int, dtype: torch.dtype) -> Tensor:
    """Of each window, how much of it each element is."""
    first, end = (v[:, None] for v in _windows(size, outs))
    at = torch.arange(size)
    return ((first <= at) & (at < end)).to(dtype) / (end - first).to(dtype)


def _averages(x: Tensor, outs: Sequence[int]) -> Any:
    sizes = zip(x.shape[-len(outs) :], outs, strict=True)
    return shared_out(x, [_shares(n, made, x.dtype).t() for n, made in sizes])


def _averages_backward(n: int, grad: Tensor, x: Tensor) -> Any:
    sizes = zip(x.shape[-n:], grad.shape[-n:], strict=True)
    return shared_out(grad, [_shares(size, outs, grad.dtype) for size, outs in sizes])


def _largest(x: Tensor, outs: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The first of the largest elements of each window, and its place in the image.

    Windows as long as the longest: a shorter one has its last element more than once.
    """
    n, sizes = len(outs), x.shape[-len(outs) :]
    image, place = x, torch.arange(prod(sizes)).reshape(sizes)
    for dim, (size, made) in enumerate(zip(sizes, outs, strict=True)):
        first, end = (v[:, None] for v in _windows(size, made))
        at = torch.minimum(first + torch.arange(size // made + 2), end - 1)
        image, place = (_taken(v, v.dim() - n + dim, at) for v in (image, place))
    image, place = (_windows_last(v, n) for v in (image, place))
    best, number = image.max(-1)
    return best, place.expand(image.shape).gather(-1, number.unsqueeze(-1)).squeeze(-1)


def _taken(x: Tensor, dim: int, at: Tensor) -> Tensor:
    return x.index_select(dim, at.reshape(-1)).unflatten(dim, at.shape)


def _windows_last(x: Tensor, n: int) -> Tensor:
    """Outer and inner places take turns in the last dims; the inner ones as one dim at the end."""
    lead = x.dim() - 2 * n
    outer, inner = (range(lead + i, x.dim(), 2) for i in (0, 1))
    return x.permute(*range(lead), *outer, *inner).flatten(-n)


def _to_places(n: int, grad: Tensor, x: Tensor, *how: Any) -> Tensor:
    """Each gradient added where its element came from, which is said last."""
    whole = torch.zeros_like(x).flatten(-n)
    return whole.scatter_add(-1, how[-1].flatten(-n), grad.flatten(-n)).reshape(x.shape)


def _repeated_backward(grad: Tensor, x: Tensor, padding: Sequence[int]) -> Any:
    n = len(padding) // 2
    covers = []
    for size, before, outs in zip(x.shape[-n:], padding[-2::-2], grad.shape[-n:], strict=True):
        at = (torch.arange(outs) - before).clamp(0, size - 1)
        covers.append((at[:, None] == torch.arange(size)).to(grad.dtype))
    return shared_out(grad, covers)
