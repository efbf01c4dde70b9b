"""Programs of modules on disk: found by another engine, for the same code and parameters only."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

import ge
from ge.runtime.torch_optimized import MODEL
from tests.torch import nets
from tests.torch.test_modules import close


def _cache(device: nn.Module) -> Any:
    return getattr(type(device), MODEL).cache


def _optimized(module: nn.Module, folder: Path) -> nn.Module:
    config = ge.OptimizeConfig(target="tiny", cache_dir=str(folder))
    device: nn.Module = ge.GraphEngine(config).Optimize(module)
    return device


def test_a_second_engine_compiles_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    torch.manual_seed(0)
    module = nets.Convolutions().eval()
    x = torch.randn(1, 3, 8, 8)
    first = _optimized(module, tmp_path)
    close(first(x, 3), module(x, 3))
    again = _optimized(module, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("ge.runtime.torch_model.capture_module", None)
        close(again(x, 3), module(x, 3))
    assert (_cache(again).hits, _cache(again).misses) == (1, 0)


def test_other_parameters_modes_and_numbers_are_other_programs(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nets.Convolutions().eval()
    x = torch.randn(1, 3, 8, 8)
    _optimized(module, tmp_path)(x)
    with torch.no_grad():
        module.last.bias.add_(1)
    changed = _optimized(module, tmp_path)
    close(changed(x), module(x))
    close(changed(x, 4), module(x, 4))
    assert _cache(changed).hits == 0


def test_changed_buffers_come_back_from_remembered_programs(tmp_path: Path) -> None:
    for _ in range(2):
        module = nets.Cache()
        device = _optimized(module, tmp_path)
        x = torch.ones(1, 4)
        close(device(x, torch.tensor([2])), x[0])
        close(module.rows[2], x[0])
    assert _cache(device).hits == 1


def test_what_processes_call_a_configuration_does_not_matter(tmp_path: Path) -> None:
    for name in (1, 2):
        module: Any = nn.Linear(3, 2)
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)
        # As transformers notes of settings that it has read from a file.
        module.generation_config = SimpleNamespace(_original_object_hash=name, length=3)
        device = _optimized(module, tmp_path)
        close(device(torch.ones(1, 3)), torch.full((1, 2), 3.0))
    assert _cache(device).hits == 1
