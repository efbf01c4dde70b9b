"""Graph engine for Ascend-like NPUs. Importing this package imports nothing heavy (PEP 562)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ge.runtime.compiled import CompiledModel as CompiledModel
    from ge.runtime.compiled import compile as compile
    from ge.runtime.compiled import load as load
    from ge.runtime.engine import GraphEngine as GraphEngine
    from ge.runtime.engine import OptimizeConfig as OptimizeConfig

__version__ = "0.1.0"
__all__ = ["CompiledModel", "GraphEngine", "OptimizeConfig", "compile", "load"]
_WHERE = {
    "CompiledModel": "ge.runtime.compiled",
    "GraphEngine": "ge.runtime.engine",
    "OptimizeConfig": "ge.runtime.engine",
    "compile": "ge.runtime.compiled",
    "load": "ge.runtime.compiled",
}

if hasattr(sys.modules.get("torch"), "nn"):
    # PyTorch that was imported without its backends: `.npu()` is there all the same.
    from ge.runtime.torch_npu import autoload

    autoload()


def __getattr__(name: str) -> object:
    if (module := _WHERE.get(name)) is None:
        raise AttributeError(f"module 'ge' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
