"""Modules that load when they are first used: start-up of the text tools stays short."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """Stands for a module; the first look at an attribute imports it, later ones cost nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


def lazy(name: str) -> Any:
    """The module `name`, imported at its first use."""
    return LazyModule(name)
