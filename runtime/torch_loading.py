"""What a GraphEngine does with a model of PyTorch: compiled when it is called, saved after that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ge.frontend.torch_capture import quiet
from ge.frontend.torch_export import write_script
from ge.frontend.torch_files import load_torch
from ge.runtime.driver import checked
from ge.runtime.program_cache import cache_in
from ge.runtime.torch_model import Specialised, TorchModel
from ge.runtime.torch_optimized import optimized, twin
from ge.runtime.torch_program import TorchProgram
from ge.runtime.torch_runner import runner_of

if TYPE_CHECKING:
    from ge.runtime.engine import OptimizeConfig


class TorchLoaded:
    """A model of PyTorch and what runs it; `callable` takes what the model takes."""

    def __init__(self, model: Any, config: OptimizeConfig) -> None:
        options = replace(checked(config.options()), narrow=True)
        if isinstance(model, (str, Path)):
            model = load_torch(Path(model))
        self._model: TorchModel | TorchProgram
        self.callable: Callable[..., Any]
        if isinstance(model, torch.export.ExportedProgram):
            self._model = TorchProgram(model, options, check=config.check_hazards)
            self.callable = self._model
            self._script = None
            return
        assert isinstance(model, nn.Module)
        self._script = model if isinstance(model, torch.jit.ScriptModule) else None
        own = twin(model) if self._script is None else model
        how: dict[str, Any] = {"check": config.check_hazards, "cache": cache_in(config.cache_dir)}
        self._model = runner_of(own, options, **how)
        self.callable = self._model
        if self._script is None:
            self.callable = optimized(own, self._model, partial(_again, config))

    def saved(self) -> Specialised:
        """The model in the shapes of the last call."""
        return self._model.saved()

    def script(self) -> Any:
        """The ScriptModule as it is, when no call has said yet for what shapes it is compiled."""
        return self._script if self._model.last is None else None

    def save(self, script: Any, path: Path) -> None:
        """Write a ScriptModule of any shapes.

        One that is not in training has its parameters and attributes made constants, and what
        depends on them alone is computed.
        """
        with quiet():
            closed = script if script.training else torch.jit.freeze(script)
        write_script(closed, path)


def _again(config: OptimizeConfig, module: nn.Module) -> Any:
    """Another module, optimised in the same way."""
    return TorchLoaded(module, config).callable
