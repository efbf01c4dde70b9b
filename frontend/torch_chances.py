"""Random choices whose chances are computed, of numbers that torch draws without a look at them.

They come in the order in which torch's CPU draws them, so a seed makes the same choices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def chosen() -> dict[Any, Callable[..., Any]]:
    """Each operator, and what it is made of."""
    return {
        aten.multinomial.default: _multinomial,
        aten.bernoulli.default: _bernoulli,
        aten.bernoulli.Tensor: lambda x, p, **how: _bernoulli(p.expand(x.shape)).to(x.dtype),
        aten.normal.Tensor_Tensor: _normal,
        aten.normal.Tensor_float: _normal,
        aten.normal.float_Tensor: _normal,
    }


def _multinomial(p: Tensor, n: int, replacement: bool = False, *, generator: Any = None) -> Tensor:
    if generator is not None:
        return NotImplemented
    if n == 1 or not replacement:
        races = p / aten.exponential.default(p)
        return races.argmax(-1, keepdim=True) if n == 1 else races.topk(n).indices
    # Each draw is a place on a line that the chances share.
    draws = torch.rand(*p.shape[:-1], n, dtype=torch.float64).to(p.dtype)
    ends = p.cumsum(-1)
    return torch.searchsorted(ends[..., :-1] / ends[..., -1:], draws)


def _bernoulli(p: Tensor, *, generator: Any = None) -> Tensor:
    if generator is not None:
        return NotImplemented
    wide = torch.float64 if p.dtype is torch.float64 else torch.float32
    return (torch.rand(p.shape, dtype=wide) < p).to(p.dtype)


def _normal(mean: Any, std: Any = 1.0, *, generator: Any = None) -> Tensor:
    if generator is not None:
        return NotImplemented
    like = [v for v in (mean, std) if isinstance(v, Tensor)]
    shape = torch.broadcast_shapes(*(v.shape for v in like))
    return torch.randn(shape, dtype=like[0].dtype) * std + mean
