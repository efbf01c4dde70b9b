"""`torch.compile(backend="ge")`: shapes, graph breaks, changed inputs, and training."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from ge.runtime.device import DEVICE
from tests.torch import nets

pytestmark = pytest.mark.filterwarnings("ignore")
OPTIONS = {"target": "tiny", "check_hazards": True}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def _compiled(module: Any, **how: Any) -> Any:
    return torch.compile(module, backend="ge", options=OPTIONS, **how)


@pytest.mark.parametrize("dynamic", [False, True, None])
def test_shapes_may_be_fixed_or_open(dynamic: bool | None) -> None:
    module = nets.SimpleTransformer().eval()
    device = _compiled(module, dynamic=dynamic)
    for batch in (2, 3, 5):
        x = torch.randn(batch, 4, 32)
        launches = DEVICE.launches
        with torch.no_grad():
            torch.testing.assert_close(device(x), module(x), rtol=0, atol=1e-5)
        assert DEVICE.launches == launches + 1


def test_branches_on_values_break_the_graph_and_stay_branches() -> None:
    device = _compiled(nets.Branch())
    launches = DEVICE.launches
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
        torch.testing.assert_close(device(x), nets.Branch()(x))
    assert DEVICE.launches > launches + 3


def test_changed_inputs_and_buffers_are_changed() -> None:
    cache, own = nets.Cache(), nets.Cache()
    device = _compiled(cache)
    with torch.no_grad():
        for row in (1, 4):
            x, at = torch.randn(1, 4), torch.tensor([row])
            torch.testing.assert_close(device(x, at), own(x, at))
    torch.testing.assert_close(cache.rows, own.rows)
    x = torch.ones(2, 2)
    launches = DEVICE.launches
    _compiled(nets.InPlace())(x)
    assert DEVICE.launches > launches
    torch.testing.assert_close(x, torch.full((2, 2), 2.0))


class Residual(nn.Module):
    """Two convolutions with batch norms, pooled, and a way around the second."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, stride=2, bias=False)
        self.norm2 = nn.BatchNorm2d(8)
        self.around = nn.Conv2d(8, 8, 1, stride=2)
        self.last = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The classes of images."""
        x = torch.relu(self.norm1(self.conv1(x)))
        x = nn.functional.max_pool2d(x, 3, 2, 1)
        x = torch.relu(self.norm2(self.conv2(x)) + self.around(x))
        return self.last(x.mean((2, 3)))


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


LEARNERS: dict[str, tuple[Any, tuple[int, ...], Any, Any]] = {
    "mlp": (_mlp, (6, 8), torch.randint(0, 4, (6,)), nn.functional.cross_entropy),
    "transformer": (
        nets.SimpleTransformer,
        (2, 5, 32),
        torch.randn(2, 5, 32),
        nn.functional.mse_loss,
    ),
    "residual": (Residual, (2, 3, 12, 12), torch.tensor([1, 4]), nn.functional.cross_entropy),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_five_steps_of_training_are_those_of_torch(name: str) -> None:
    make, shape, wanted, loss = LEARNERS[name]
    module = make()
    own = copy.deepcopy(module)
    device = _compiled(module)
    rates = [torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9) for m in (module, own)]
    launches = DEVICE.launches
    for _ in range(5):
        x = torch.randn(*shape)
        for run, rate in zip((device, own), rates, strict=True):
            rate.zero_grad()
            loss(run(x), wanted).backward()
            rate.step()
    # One program forward and one back, each step.
    assert DEVICE.launches == launches + 10
    for (key, got), want in zip(
        module.state_dict().items(), own.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-4, msg=key)


class _Strided(nn.Module):
    """Writes into a view, so that its gradient does, too; and reads a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sums of what lies apart."""
        picked = torch.as_strided(self.last(x), (2, 2), (3, 2), 1)
        return picked * torch.tensor([[1.0, 2.0], [0.5, 3.0]])


class _Experts(nn.Module):
    """Rows in order of their experts, as transformers multiplies them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 6, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The second expert has no row."""
        ends = (x[:, 0] < 9).sum() * torch.tensor([1, 1, 2]) // 2
        run: Any = torch.ops.transformers.grouped_mm_fallback
        return run(x, self.weight, ends.to(torch.int32))


class _Words(nn.Module):
    """An embedding whose gradient is sparse, and rows that a mask chooses."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 4, sparse=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The first word comes twice."""
        rows = self.table(torch.tensor([2, 5, 2])) * x
        rows[x[:, 0] > 0] = 0.5
        return rows


class _Bilinear(nn.Module):
    """A product of three."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Bilinear(4, 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of the whole and a part of it."""
        found: torch.Tensor = self.layer(x, x[:, :2])
        return found


def _weight_norm() -> nn.Module:
    conv = nn.Conv1d(3, 4, 3, padding="same", groups=1)
    return nn.utils.parametrizations.weight_norm(conv, dim=2)


GRADIENTS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "weight norm": (_weight_norm, (2, 3, 5)),
    "average pool": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3, stride=[2], padding=[1]),
            nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        ),
        (2, 2, 9, 7),
    ),
    "transposed convolution": (
        lambda: nn.Sequential(
            nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2),
            nn.ConvTranspose2d(6, 3, (3, 2), stride=1, dilation=2),
        ),
        (2, 4, 5, 4),
    ),
    "strided": (_Strided, (3, 6)),
    "experts": (_Experts, (6, 6)),
    "words": (_Words, (3, 4)),
    "bilinear": (_Bilinear, (3, 4)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_of_torch(name: str) -> None:
    import transformers.integrations.moe  # noqa: F401  # Its operators are known then.

    make, shape = GRADIENTS[name]
    module, x = make(), torch.randn(*shape)
    own = copy.deepcopy(module)
    for run in (_compiled(module), own):
        (run(x) ** 2).mean().backward()
    for (key, got), want in zip(module.named_parameters(), own.parameters(), strict=True):
        torch.testing.assert_close(got.grad, want.grad, rtol=0, atol=1e-5, msg=key)


class _Recurrent(nn.Module):
    """Layers that torch has in one piece for a CPU that trains them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LSTM(3, 4, batch_first=True)
        self.last = nn.GRU(4, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """All places of the last layer."""
        found: torch.Tensor = self.last(self.first(x)[0])[0]
        return found


def test_recurrent_layers_are_trained_if_dynamo_takes_them() -> None:
    module, x = _Recurrent(), torch.randn(1, 3, 3)
    own, launches = copy.deepcopy(module), DEVICE.launches
    with torch._dynamo.config.patch(allow_rnn=True):
        for run in (_compiled(module), own):
            run(x).square().mean().backward()
    assert DEVICE.launches == launches + 2
    for got, want in zip(module.parameters(), own.parameters(), strict=True):
        torch.testing.assert_close(got.grad, want.grad, rtol=0, atol=1e-5)


def test_a_compiled_optimiser_steps_as_torch_does() -> None:
    module = _mlp()
    own = copy.deepcopy(module)
    rates = [torch.optim.Adam(m.parameters(), lr=0.05) for m in (module, own)]
    step = torch.compile(rates[0].step, backend="ge", options=OPTIONS)
    launches = DEVICE.launches
    for _ in range(3):
        for one in (module, own):
            one.zero_grad()
            one(torch.full((2, 8), 0.5)).square().mean().backward()
        step()
        rates[1].step()
    assert DEVICE.launches > launches + 2
    torch.testing.assert_close(module.state_dict(), own.state_dict(), rtol=0, atol=1e-5)


def test_gradients_of_averages_over_windows() -> None:
    from ge.frontend.torch_pooling import average_pool_backward

    cases: tuple[Any, ...] = (
        ((2, 3, 8, 8), (2, 2), (), (0, 0), False, True, None),
        ((1, 2, 7, 9), (3, 2), (2, 1), (1, 1), True, False, None),
        ((1, 2, 7, 9), (3, 3), (2, 2), (1, 1), True, True, None),
        ((1, 2, 7, 9), (3, 3), (3, 2), (1, 0), False, False, 5),
        ((2, 1, 1, 1), (3, 3), (1, 1), (1, 1), True, True, None),
    )
    for shape, *how in cases:
        x = torch.randn(shape)
        grad = torch.randn_like(torch.ops.aten.avg_pool2d(x, *how))
        back = torch.ops.aten.avg_pool2d_backward(grad, x, *how)
        torch.testing.assert_close(average_pool_backward(grad, x, *how), back)


def test_the_largest_of_a_window_and_its_gradient() -> None:
    from ge.frontend.torch_pooling import max_pool, max_pool_backward

    cases: tuple[Any, ...] = (
        ((2, 3, 8, 8), (2, 2), (), (0, 0), (1, 1), False),
        ((1, 2, 7, 9), (3, 3), (2, 2), (1, 1), (1, 1), False),
        ((1, 2, 8, 9), (3, 2), (2, 1), (1, 0), (1, 2), True),
    )
    for shape, *how in cases:
        x = torch.randn(shape)
        y, at = torch.ops.aten.max_pool2d_with_indices(x, *how)
        torch.testing.assert_close(max_pool(x, *how), (y, at))
        grad = torch.randn_like(y)
        back = torch.ops.aten.max_pool2d_with_indices_backward(grad, x, *how, at)
        run: Any = max_pool_backward
        torch.testing.assert_close(run(grad, x, *how, at), back)
