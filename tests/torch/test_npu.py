"""`.npu()` and `torch.npu`: nothing moves, modules are marked."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from ge.dialects.diagnostics import UnsupportedError
from ge.runtime.torch_npu import autoload


def test_modules_are_marked_in_place_and_tensors_stay() -> None:
    autoload()
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    want = module(torch.ones(2, 4)).detach()
    x = torch.ones(2, 4).npu()
    assert x.device.type == "cpu"
    moved = module.npu()
    assert moved is module
    assert isinstance(moved, nn.Sequential)
    assert moved.npu() is moved
    launches = torch.npu.launch_count()
    torch.testing.assert_close(moved(x), want)
    assert torch.npu.launch_count() == launches + 1
    assert 0 < torch.npu.memory_allocated() <= torch.npu.max_memory_allocated()


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_scripts_are_told_where_to_go() -> None:
    autoload()
    module = nn.Linear(4, 3)
    for script in (torch.jit.script(module), torch.jit.trace(module, torch.ones(1, 4))):
        with pytest.raises(UnsupportedError, match=r"GraphEngine\(\).Optimize\(script\)"):
            script.npu()


def test_the_device_says_what_it_is() -> None:
    autoload()
    torch.npu.synchronize()
    torch.npu.empty_cache()
    torch.npu.set_device(0)
    found = (torch.npu.is_available(), torch.npu.device_count(), torch.npu.current_device())
    assert found == (True, 1, 0)
    assert "simulated" in torch.npu.get_device_name()


@pytest.mark.filterwarnings("ignore")
def test_a_module_on_the_device_is_trained_there() -> None:
    autoload()
    torch._dynamo.reset()
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    own = copy.deepcopy(module)
    moved = module.npu()
    x = torch.randn(2, 4)
    launches = torch.npu.launch_count()
    for run in (moved, own):
        run(x).square().sum().backward()
    assert torch.npu.launch_count() == launches + 2
    for got, want in zip(moved.parameters(), own.parameters(), strict=True):
        torch.testing.assert_close(got.grad, want.grad, rtol=0, atol=1e-6)
