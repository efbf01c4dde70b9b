"""Modules that keep something from one call to the next, and copies of optimised modules."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn

from ge import GraphEngine, OptimizeConfig
from ge.dialects.diagnostics import UnsupportedError
from ge.runtime.torch_optimized import MODEL

CONFIG = OptimizeConfig(target="tiny")


class Counts(nn.Module):
    """A number in Python that the next call reads."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


class Sums(nn.Module):
    """A tensor that is no buffer, replaced by every call."""

    def __init__(self) -> None:
        super().__init__()
        self.total = torch.zeros(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total = self.total + x.sum(0)
        return x + self.total


class CountsInBuffer(nn.Module):
    """A buffer that every call replaces by another tensor."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls = self.calls + 1
        return x * self.calls


class Records(nn.Module):
    """What the last call computed, for whoever wants to see it; a list of all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.last: torch.Tensor | None = None
        self.first: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = self.inner(x)
        self.inner.seen = {"x": x * 2}
        if not self.first:
            self.first.append(x + 1)
        return self.last.relu() + self.first[0]


@pytest.mark.parametrize(
    ("kind", "programs"), [(Counts, 3), (Sums, 1), (CountsInBuffer, 1), (Records, 2)]
)
def test_what_a_module_keeps_is_kept(kind: Any, programs: int) -> None:
    plain = kind()
    device = GraphEngine(CONFIG).Optimize(copy.deepcopy(plain))
    with torch.no_grad():
        for step in range(3):
            x = torch.randn(2, 4) + step
            torch.testing.assert_close(device(x), plain(x))
            for mine, other in zip(device.modules(), plain.modules(), strict=True):
                torch.testing.assert_close(_kept(mine), _kept(other))
    assert getattr(type(device), MODEL).compiles == programs


def test_what_torch_keeps_for_itself_is_no_result() -> None:
    plain, x = nn.LSTM(4, 5).train(), torch.randn(3, 2, 4)
    with torch.no_grad():
        torch.testing.assert_close(GraphEngine(CONFIG).Optimize(plain)(x), plain(x))


def _kept(part: nn.Module) -> dict[str, Any]:
    own = vars(nn.Module())
    plain = {n: v for n, v in vars(part).items() if n not in own and v is not None}
    return plain | dict(part.named_buffers(recurse=False))


def test_what_a_module_keeps_must_be_tensors_or_numbers() -> None:
    class Other:
        pass

    class Keeps(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.other = Other()
            return x + 1

    with pytest.raises(UnsupportedError, match=r"Keeps keeps in 'other' must be .* got a Other"):
        GraphEngine(CONFIG).Optimize(Keeps())(torch.ones(2))


def test_tensors_in_lists_are_weights_too() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._factors = [torch.ones(2000)]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self._factors[0][1000]

    device, x = GraphEngine(CONFIG).Optimize(Scaled()), torch.ones(2)
    assert device(x).tolist() == [1, 1]
    device._factors[0][1000] = 5
    assert device(x).tolist() == [5, 5]


@pytest.mark.parametrize("way", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize("device", [GraphEngine(CONFIG).Optimize, nn.Module.npu])
def test_copies_run_on_the_device_with_their_own_parameters(way: Any, device: Any) -> None:
    x = torch.randn(3, 4)
    first = device(nn.Sequential(nn.Linear(4, 2), nn.ReLU()).eval())
    first(x)
    other = way(first)
    assert type(other) is not type(first)
    assert getattr(type(other), MODEL).compiles == 0
    other[0] = nn.Linear(4, 2)
    for module in (first, other):
        want = nn.functional.linear(x, module[0].weight, module[0].bias).relu()
        torch.testing.assert_close(module(x), want.detach())
    assert getattr(type(other), MODEL).compiles == 1
