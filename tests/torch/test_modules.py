"""Modules of PyTorch on the device: what they give, beside what torch computes."""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from ge import GraphEngine, OptimizeConfig, load
from ge.dialects.diagnostics import InputError, UnsupportedError
from ge.runtime.device import DEVICE
from ge.runtime.torch_optimized import MODEL
from tests.torch import nets

CONFIG = OptimizeConfig(target="tiny", check_hazards=True)


def close(got: Any, want: Any, tolerance: float = 1e-5) -> None:
    """Equal structure, types and shapes; numbers to the tolerance of the largest."""
    torch.testing.assert_close(got, want, rtol=0, atol=_atol(want, tolerance))


def _atol(want: Any, tolerance: float) -> float:
    leaves = [v for v in torch.utils._pytree.tree_leaves(want) if isinstance(v, torch.Tensor)]
    return tolerance * max(float(v.detach().abs().max()) for v in leaves)


def both(module: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
    """Call the optimised module and, with copies of all, the module; the optimised one."""
    plain, own = copy.deepcopy((module, args)), copy.deepcopy(args)
    device = GraphEngine(CONFIG).Optimize(module)
    launches = DEVICE.launches
    got = device(*args, **kwargs)
    assert DEVICE.launches > launches
    with torch.no_grad():
        close(got, plain[0](*own, **kwargs))
    close(
        list(module.buffers()) + [a for a in args if isinstance(a, torch.Tensor)],
        list(plain[0].buffers()) + [a for a in own if isinstance(a, torch.Tensor)],
    )
    assert isinstance(device, type(module))
    return device


ATTENTION: dict[str, tuple[dict[str, Any], list[tuple[int, ...]]]] = {
    "two dims": ({}, [(5, 8), (6, 8), (6, 4)]),
    "three dims": ({"is_causal": True}, [(3, 5, 8), (3, 5, 8), (3, 5, 4)]),
    "three dims and a mask": ({"scale": 0.3}, [(3, 5, 8), (3, 6, 8), (3, 6, 8), (3, 5, 6)]),
    "one head of keys": ({}, [(2, 4, 5, 8), (2, 1, 6, 8), (2, 1, 6, 8)]),
    "one head of values": ({}, [(2, 4, 5, 8), (2, 4, 6, 8), (2, 1, 6, 8)]),
    "one head of queries": ({}, [(2, 1, 5, 8), (2, 4, 6, 8), (2, 4, 6, 8)]),
    "one batch of keys": ({}, [(2, 4, 5, 8), (1, 4, 6, 8), (1, 4, 6, 8)]),
    "one batch of queries": ({}, [(1, 4, 5, 8), (2, 4, 6, 8), (2, 4, 6, 8)]),
    "groups": ({"enable_gqa": True}, [(2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 8)]),
    "five dims": ({}, [(2, 3, 4, 5, 8), (2, 1, 4, 6, 8), (1, 3, 1, 6, 8), (3, 1, 5, 6)]),
}
"""What attention is told, and the shapes of queries, keys, values and of a mask."""

CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "linear": (lambda: nn.Linear(8, 4), (torch.randn(3, 8),)),
    "transformer": (nets.SimpleTransformer, (torch.randn(2, 5, 32),)),
    "convolutions": (lambda: nets.Convolutions().eval(), (torch.randn(2, 3, 8, 8), 3)),
    "convolutions in training": (nets.Convolutions, (torch.randn(2, 3, 8, 8),)),
    "positions": (
        nets.Positions,
        (torch.randint(0, 50, (2, 6)), torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6])),
    ),
    **{
        f"attention, {name}": (
            functools.partial(nets.Attend, **how),
            tuple(map(torch.randn, shapes)),
        )
        for name, (how, shapes) in ATTENTION.items()
    },
    "cache of one": (nets.Cache, (torch.randn(1, 4), torch.tensor([3]))),
    "cache of more": (nets.Cache, (torch.randn(3, 4), torch.tensor([5, 0, 2]))),
    "in place": (nets.InPlace, (torch.randn(2, 3),)),
    "count": (nets.Count, (torch.ones(2), 3)),
    "parametrised": (
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)),
        (torch.randn(2, 4),),
    ),
    "a window wider than the image": (
        lambda: nn.AvgPool2d(9, ceil_mode=True),
        (torch.randn(1, 2, 4, 5),),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_module_gives_what_torch_gives(name: str) -> None:
    torch.manual_seed(0)
    make, args = CASES[name]
    both(make(), *args)


def test_arguments_may_be_named_and_numbers_may_change() -> None:
    module = nets.Convolutions().eval()
    device = both(module, torch.randn(1, 3, 8, 8))
    x = torch.randn(1, 3, 8, 8)
    for scale in (2, 5):
        close(device(scale=scale, x=x), module(x, scale))


def test_hooks_belong_to_the_module_that_they_were_put_on() -> None:
    module = nn.Sequential(nn.Linear(4, 2))
    device = GraphEngine(CONFIG).Optimize(module)
    x = torch.randn(3, 4)
    want = module(x).detach()
    module[0].register_forward_hook(lambda *_: torch.zeros(3, 2))
    close(device(x), want)
    close(module(x), torch.zeros(3, 2))


def test_each_shape_is_compiled_once() -> None:
    engine = GraphEngine(CONFIG)
    module = nn.Linear(4, 2)
    device = engine.Optimize(module)
    for rows in (1, 3, 1, 3):
        x = torch.randn(rows, 4)
        close(device(x), module(x).detach())
    assert type(device).__ge_model__.compiles == 2


@dataclass(frozen=True)
class Found:
    """A result with a name for everything."""

    sum: torch.Tensor
    parts: list[Any]


def test_results_may_be_dataclasses() -> None:
    class Finds(nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, Found]:
            return {"all": Found(x.sum(), [Found(x + 1, []), 3, None])}

    device, x = GraphEngine(CONFIG).Optimize(Finds()), torch.randn(2, 3)
    for _ in range(2):
        found = device(x)["all"]
        assert isinstance(found, Found)
        assert isinstance(found.parts[0], Found)
        assert found.parts[1:] == [3, None]
        close([found.sum, found.parts[0].sum], [x.sum(), x + 1])


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda x: [object()], "a result must be of tensors.*got a object"),
        (lambda x: 3, "must give tensors back or change some, got none"),
    ],
)
def test_other_results_are_refused(result: Any, message: str) -> None:
    class Gives(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return result(x)

    with pytest.raises(UnsupportedError, match=message):
        GraphEngine(CONFIG).Optimize(Gives())(torch.ones(2))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.weight.data.mul_(2),
        lambda m: m.load_state_dict({"weight": torch.ones(2, 4), "bias": torch.zeros(2)}),
        lambda m: setattr(m, "weight", nn.Parameter(torch.ones(2, 4))),
    ],
    ids=["data", "state", "replaced"],
)
def test_changed_parameters_are_noticed(change: Any) -> None:
    module = nn.Linear(4, 2)
    device = GraphEngine(CONFIG).Optimize(module)
    x = torch.randn(3, 4)
    close(device(x), module(x).detach())
    with torch.no_grad():
        change(module)
    close(device(x), module(x).detach())
    assert device.weight is module.weight


class Scaled(nn.Module):
    """Multiplies by attributes that are neither parameters nor buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = torch.ones(3)
        self.factors = [2, 3]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A product of all of them."""
        return x * self.plain * self.factors[0] * self.factors[1]


def test_changed_attributes_are_noticed() -> None:
    module = Scaled()
    device = GraphEngine(CONFIG).Optimize(module)
    x = torch.randn(2, 3)
    close(device(x), module(x))
    module.plain.fill_(5)
    close(device(x), module(x))
    # Attributes besides tensors are the optimised module's own.
    device.factors = [2, 7]
    close(device(x), module(x) / 3 * 7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_floats_stay_narrow(dtype: torch.dtype) -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)).to(dtype)
    x = torch.randn(4, 8).to(dtype)
    got = GraphEngine(CONFIG).Optimize(module)(x)
    assert got.dtype is dtype
    close(got, module(x).detach(), 2e-2)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_integers_of_more_than_32_bits_are_refused(value: int) -> None:
    class Doubled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    device = GraphEngine(CONFIG).Optimize(Doubled())
    assert device(torch.tensor([1, -(2**30)])).tolist() == [2, -(2**31)]
    with pytest.raises(InputError, match=f"must hold integers of 32 bits.*got {value}"):
        device(torch.tensor([0, value]))


def test_the_original_is_left_as_it_was() -> None:
    module = nets.Convolutions()
    device = GraphEngine(CONFIG).Optimize(module)
    device.eval()
    assert module.training
    assert module.norm.training
    assert not device.norm.training
    assert type(module) is nets.Convolutions
    x = torch.randn(1, 3, 8, 8)
    got = device(x)
    close(got, copy.deepcopy(module).eval()(x))


def test_branches_on_values_are_refused_with_advice() -> None:
    device = GraphEngine(CONFIG).Optimize(nets.Branch())
    with pytest.raises(
        UnsupportedError, match=r"Branch must not decide by the value.*torch\.where"
    ):
        device(torch.ones(2))


def test_a_module_is_saved_in_the_shapes_of_a_call(tmp_path: Any) -> None:
    engine = GraphEngine(CONFIG)
    module, x = nn.Linear(4, 2), torch.randn(1, 4)
    device = engine.Optimize(module)
    with pytest.raises(InputError, match="must have been called before it is saved"):
        engine.SaveOptimizedModel(tmp_path / "m.onnx")
    close(device(x), module(x).detach())
    assert engine.SaveOptimizedModel(tmp_path / "m.o") is device
    (saved,) = load(tmp_path / "m.o").run({"input": x.numpy()}).values()
    close(torch.from_numpy(saved), module(x).detach())


class _Complex(nn.Module):
    """Complex numbers in and out; doubles that meet themselves."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        """ONNX has them as pairs."""
        wide = y.double()
        return {"spectrum": torch.fft.fft(y) * 2, "turned": x * 1j}, wide * wide


def test_complex_tensors_go_in_and_come_out() -> None:
    x, y = torch.randn(3, dtype=torch.complex64), torch.randn(2, 3)
    device = GraphEngine(CONFIG).Optimize(_Complex())
    launches = DEVICE.launches
    got, want = device(x, y), _Complex()(x, y)
    assert DEVICE.launches == launches + 1
    torch.testing.assert_close(got, want, rtol=0, atol=1e-5)
    compiled: Any = torch.compile(_Complex(), backend="ge", options={"target": "tiny"})
    torch.testing.assert_close(compiled(x, y), want, rtol=0, atol=1e-5)


class _Plain(nn.Module):
    """Some function."""

    def __init__(self, does: Any) -> None:
        super().__init__()
        self.does = [does]

    def forward(self, x: torch.Tensor) -> Any:
        """Of one tensor."""
        return self.does[0](x)


REFUSED: dict[str, tuple[Any, torch.Tensor, str]] = {
    "sparse": (torch.relu, torch.eye(2).to_sparse(), r"dense, got one in torch.sparse_coo; give"),
    "nested": (
        torch.relu,
        torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
        "got a nested one; give",
    ),
    "empty": (torch.relu, torch.ones(0, 2), "must have elements"),
    "a length of its own": (torch.nonzero, torch.ones(2), "choose with torch.where"),
    "unknown": (torch.special.bessel_j0, torch.ones(2), r"got prims.bessel_j0; call it outside"),
    "with an effect": (torch.inverse, torch.eye(2), r"got a TOKEN; call it outside"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_to_do(name: str) -> None:
    does, x, message = REFUSED[name]
    with pytest.raises(UnsupportedError, match=message):
        GraphEngine(CONFIG).Optimize(_Plain(does))(x)


WRITES: dict[str, Any] = {
    "index copy": lambda rows, at, x: rows.index_copy_(2, at, x),
    "index put": lambda rows, at, x: rows.__setitem__((slice(None), slice(None), at), x),
    "index put of heads": lambda rows, at, x: rows.__setitem__((0, slice(None), at), x[0]),
    "slice": lambda rows, at, x: rows.__setitem__((..., slice(3, 4), slice(None)), x),
    "choice": lambda rows, at, x: rows.copy_(
        torch.where((torch.arange(8) == at)[:, None], x, rows)
    ),
}


@pytest.mark.parametrize("way", WRITES)
def test_buffers_are_changed_where_they_lie(way: str) -> None:
    module = nets.Written(WRITES[way])
    plain, place = copy.deepcopy(module), module.rows.data_ptr()
    device = GraphEngine(CONFIG).Optimize(module)
    for step in range(4):
        x, at = torch.randn(1, 2, 1, 16), torch.tensor([2 * step])
        close(device(x, at), plain(x, at))
        close(module.rows, plain.rows)
        assert module.rows.data_ptr() == place
    program = getattr(type(device), MODEL).saved().compiled.program
    assert len(program.state) == 1
