"""A module whose forward pass runs on the device, and that is the user's module in all else."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import nn

from ge.dialects.diagnostics import UnsupportedError

MODEL = "__ge_model__"
"""The attribute of a class made here."""


def optimized(module: nn.Module, model: Any, again: Callable[[nn.Module], nn.Module]) -> nn.Module:
    """`module` with `model(...)` as its forward pass: of the same class, and with its attributes.

    A subclass, not a wrapper: methods of the class, `generate` among them, then call it. Copies of
    it, those in files too, are what `again` makes of copies of the module: `model` knows only this.
    """
    cls = type(module)

    @wraps(cls.forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        # A part of a module that is being traced is traced with it.
        if torch.compiler.is_compiling():
            return cls.forward(self, *args, **kwargs)
        return model(*args, **kwargs)

    def deep_copy(self: nn.Module, memo: dict[int, Any]) -> nn.Module:
        return again(copy.deepcopy(_of_class(self, cls), memo))

    def reduce(self: nn.Module, protocol: Any) -> Any:
        return again, (_of_class(self, cls),)

    body = {"forward": forward, MODEL: model, "__module__": cls.__module__}
    body |= {"__deepcopy__": deep_copy, "__reduce_ex__": reduce}
    return _of_class(module, type(cls.__name__, (cls,), body))


def _of_class(module: nn.Module, cls: type[nn.Module]) -> nn.Module:
    """The module under another class."""
    made = object.__new__(cls)
    # One dictionary for both: a change of the one's attributes is a change of the other's.
    object.__setattr__(made, "__dict__", vars(module))
    return made


def move_to_device(module: nn.Module) -> nn.Module:
    """The module itself, its forward pass run on the device from now on."""
    if isinstance(module, torch.jit.ScriptModule):
        raise UnsupportedError(
            "a module must be one of Python to be moved where it is, got a "
            f"{type(module).__name__}; call what GraphEngine().Optimize(script) gives"
        )
    if device_model(module) is None:
        from dataclasses import replace

        from ge.runtime.driver import checked
        from ge.runtime.engine import OptimizeConfig
        from ge.runtime.program_cache import cache_in
        from ge.runtime.torch_compile import Learning
        from ge.runtime.torch_runner import runner_of

        plain = _of_class(module, type(module))
        options = replace(checked(OptimizeConfig().options()), narrow=True)
        runner = runner_of(plain, options, cache=cache_in(""))
        made = optimized(plain, Learning(plain, runner), move_to_device)
        object.__setattr__(module, "__class__", type(made))
    return module


def device_model(module: nn.Module) -> Any:
    """What runs an optimised module."""
    return getattr(type(module), MODEL, None)


def twin(module: nn.Module) -> nn.Module:
    """A module of the same parameters whose other attributes are its own.

    Putting the twin into `eval()` leaves the module as it is; replacing a parameter does not.
    """
    return _twin(module, {})


def _twin(module: nn.Module, made: dict[int, nn.Module]) -> nn.Module:
    if id(module) not in made:
        # Not copied as an object: parametrised modules refuse that.
        new = made[id(module)] = object.__new__(type(module))
        object.__setattr__(new, "__dict__", dict(vars(module)))
        inner = {n: m and _twin(m, made) for n, m in module._modules.items()}
        object.__setattr__(new, "_modules", inner)
        vars(new)["_parameters"] = module._parameters
        vars(new)["_buffers"] = module._buffers
        # Models of transformers hook themselves at their first call, each for itself.
        hooks = {n: copy.copy(v) for n, v in vars(module).items() if n.endswith("_hooks")}
        vars(new).update(hooks)
    return made[id(module)]
