"""Random numbers in programs are those that torch draws with the same seed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from ge import GraphEngine, OptimizeConfig
from ge.dialects.diagnostics import UnsupportedError
from ge.runtime.device import DEVICE

CONFIG = OptimizeConfig(target="tiny")
TINY = {"target": "tiny"}


class Draws(nn.Module):
    """Numbers of every kind, of which some depend on the input's shape."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.rand(3, 4) + x,
            torch.randn_like(x),
            torch.randint(0, 9, (5,)),
            torch.bernoulli(x, 0.3),
            x[torch.randperm(3)],
            x.clone().uniform_(-1, 2),
            x.clone().normal_(),
            functional.dropout1d(x, 0.4, True),
            functional.dropout(x, 1.0, True),
            functional.dropout(x, 0.0, True),
            functional.dropout(x.t(), 0.5, True),
        )


@pytest.mark.parametrize(
    "way",
    [GraphEngine(CONFIG).Optimize, lambda m: torch.compile(m, backend="ge", options=TINY)],
    ids=["optimised", "compiled"],
)
def test_a_seed_gives_the_numbers_of_torch(way: Any) -> None:
    plain, x = Draws(), torch.randn(3, 4)
    device = way(Draws())
    for seed in range(3):
        torch.manual_seed(seed)
        want = plain(x)
        torch.manual_seed(seed)
        torch.testing.assert_close(device(x), want)


def test_sizes_of_what_is_drawn_may_be_open() -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3)).train()
    device = torch.compile(module, backend="ge", options=TINY, dynamic=True)
    for rows in (3, 5, 2):
        x = torch.randn(rows, 4)
        torch.manual_seed(rows)
        want = module(x)
        torch.manual_seed(rows)
        torch.testing.assert_close(device(x), want)


class Dropped(nn.Module):
    """Dropout between layers, in attention, and of what does not lie in order."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.drop(self.first(x))
        y = functional.scaled_dot_product_attention(y, y, y, dropout_p=0.2)
        return self.drop(y.transpose(1, 2))


def test_dropout_in_training_learns_what_torch_learns() -> None:
    layer = Dropped()
    plain, x, launches = copy.deepcopy(layer), torch.randn(2, 3, 4), DEVICE.launches
    runs = (plain, plain), (layer, torch.compile(layer, backend="ge", options=TINY))
    for module, run in runs:
        torch.manual_seed(1)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            run(x).pow(2).mean().backward()
            optimizer.step()
    assert DEVICE.launches >= launches + 6
    torch.testing.assert_close(layer.state_dict(), plain.state_dict(), rtol=0, atol=1e-5)


class Chosen(nn.Module):
    """Choices whose chances are computed."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        chances = x.softmax(1)
        return (
            torch.multinomial(chances, 1),
            torch.multinomial(chances, 2),
            torch.multinomial(chances, 6, replacement=True),
            torch.bernoulli(chances),
            torch.normal(x, chances),
            torch.zeros(3, 4).bernoulli_(chances),
        )


def test_choices_by_computed_chances_are_those_of_torch() -> None:
    device, x, launches = GraphEngine(CONFIG).Optimize(Chosen()), torch.randn(3, 4), DEVICE.launches
    for seed in range(3):
        torch.manual_seed(seed)
        want = Chosen()(x)
        torch.manual_seed(seed)
        torch.testing.assert_close(device(x), want)
    assert DEVICE.launches == launches + 3


def test_draws_that_nothing_hoists_are_refused() -> None:
    class Counted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.poisson(x.softmax(1))

    with pytest.raises(UnsupportedError, match=r"aten\.poisson"):
        GraphEngine(CONFIG).Optimize(Counted())(torch.randn(3, 4))
