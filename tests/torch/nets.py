"""Small modules of every kind, with the arguments that they are called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class SimpleTransformer(nn.Module):
    """One encoder layer, as users write it."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1 = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, then two products, a norm behind each."""
        attended, _ = self.attention(x, x, x)
        x = self.norm1(x + attended)
        return self.norm2(x + self.feed_forward(x))


class Convolutions(nn.Module):
    """Convolution, batch norm and pooling; a Python number scales the result."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.norm = nn.BatchNorm2d(8)
        self.last = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor, scale: int = 2) -> dict[str, Any]:
        """A dictionary with a tensor and a number."""
        y = torch.relu(self.norm(self.conv(x)))
        y = nn.functional.max_pool2d(y, 2)
        return {"y": self.last(y.mean((2, 3))) * scale, "scale": scale}


class Positions(nn.Module):
    """An embedding, a mask made of ids, waves of positions."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Masked attention over embedded words."""
        at = mask.cumsum(-1)[..., None] * torch.arange(1, 17)
        x = self.words(ids) + torch.sin(at) + torch.cos(at / 3)
        x = x[:, None]
        keep = mask[:, None, None].bool()
        return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=keep)[:, 0]


class Cache(nn.Module):
    """A buffer that calls write into, at a place that is given."""

    rows: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(6, 4))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """The sum of all rows, those of `x` put in at `at`."""
        self.rows.index_copy_(0, at, x)
        return self.rows.sum(0)


class Written(nn.Module):
    """A buffer that calls write into, in a way that is given."""

    rows: torch.Tensor

    def __init__(self, put: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(1, 2, 8, 16))
        self.put = put

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """The sum of all rows, with `x` put in at `at`."""
        self.put(self.rows, at, x)
        return self.rows.sum(2)


class InPlace(nn.Module):
    """Changes what it is given, and gives it back."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What is given is doubled."""
        x.mul_(2)
        return x, x + 1


class Branch(nn.Module):
    """Decides by the value of its tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Up or down."""
        if x.sum() > 0:
            return x + 1
        return x - 1


class Count(nn.Module):
    """Loops as often as a Python number says."""

    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        """Doubled `n` times."""
        for i in range(n):
            x = x * 2 + i
        return x


class Attend(nn.Module):
    """Attention as torch has it, with what it is told."""

    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.how = how

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any = None
    ) -> torch.Tensor:
        """What the queries find."""
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, **self.how)
