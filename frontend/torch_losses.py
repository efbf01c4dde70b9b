"""Losses that torch takes apart in a way that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
MEAN = 1
"""The number that torch gives to it."""


def losses() -> dict[Any, Callable[..., Any]]:
    """Each operator, and what it is made of."""
    return {
        aten.multilabel_margin_loss.default: lambda *given: _margins(*given)[0],
        aten.multilabel_margin_loss_forward.default: _margins,
    }


def _margins(x: Tensor, target: Tensor, reduction: int = MEAN) -> tuple[Tensor, Tensor]:
    """How near each class that is none comes to each that is; torch counts what ends a list too.

    The classes of a row stand before its first -1.
    """
    known = (target < 0).to(torch.int64).cumsum(-1) == 0
    classes = torch.arange(x.shape[-1])
    named = ((target.unsqueeze(-1) == classes) & known.unsqueeze(-1)).any(-2)
    own = x.gather(-1, target.clamp(min=0)).unsqueeze(-1)
    near = (1 - own + x.unsqueeze(-2)).clamp(min=0)
    counted = known.unsqueeze(-1) & ~named.unsqueeze(-2)
    loss = torch.where(counted, near, 0).sum((-2, -1)) / x.shape[-1]
    if reduction:
        loss = loss.mean() if reduction == MEAN else loss.sum()
    return loss, named.to(x.dtype)
