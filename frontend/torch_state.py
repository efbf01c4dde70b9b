"""What a module keeps from one call to the next in attributes that are no parameters or buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ge.dialects.diagnostics import UnsupportedError

Simple = (bool, int, float, str, type(None))
"""Values that code may branch on, and that are cheap to compare."""

FIXED = (*Simple, complex, slice, Enum, torch.dtype, torch.device)
"""Values besides tensors that programs know: they are part of a program."""

OWN = frozenset(vars(nn.Module()))
"""The attributes of every module."""


def plain_attributes(part: nn.Module) -> Iterator[tuple[str, Any]]:
    """The attributes that a module's own code has given it; no parameters, buffers or modules."""
    for name, value in vars(part).items():
        if name not in OWN and not (name[0] == "_" and _is_of_torch(part)):
            yield name, value


def _is_of_torch(part: nn.Module) -> bool:
    """Whether torch has given it attributes for itself, such as weights in another order."""
    known = [c for c in type(part).__mro__ if c.__module__.startswith("torch.")]
    return known[0] is not nn.Module


class Kept:
    """The attributes of a module's parts, as they are when this is made."""

    def __init__(self, module: nn.Module) -> None:
        # A script keeps nothing but tensors, and its code says what becomes of them.
        parts = [
            (name, part)
            for name, part in module.named_modules()
            if not isinstance(part, torch.jit.ScriptModule)
        ]
        self._parts = [
            (name, part, {n: _apart(v) for n, v in plain_attributes(part)}) for name, part in parts
        ]
        self._buffers = [(part, dict(part._buffers)) for _, part in parts]

    def undo(self) -> dict[str, Any]:
        """Put back what has changed since then; the new values by name.

        Buffers that are others now are what they were, with the numbers of those.
        """
        for part, buffers in self._buffers:
            for name, buffer in buffers.items():
                _replace_content(part, name, buffer)
        found = {}
        for path, part, before in self._parts:
            for name, value in list(plain_attributes(part)):
                now = _apart(value)
                if name in before and not _differs(before[name], now):
                    continue
                found[f"{path}.{name}".lstrip(".")] = _described(part, name, now)
                if name in before:
                    setattr(part, name, _as_it_was(*before[name]))
                else:
                    delattr(part, name)
        return found


def _replace_content(part: nn.Module, name: str, buffer: torch.Tensor | None) -> None:
    now = part._buffers.get(name)
    if now is buffer:
        return
    part._buffers[name] = buffer
    if buffer is None or now is None or (now.shape, now.dtype) != (buffer.shape, buffer.dtype):
        raise UnsupportedError(
            f"buffer '{name}' of {type(part).__name__} must keep its type and shape in a call"
        )
    buffer.copy_(now)


def attribute_tensors(module: nn.Module, path: str) -> list[torch.Tensor]:
    """The tensors that an attribute holds."""
    *parts, name = path.split(".")
    value = getattr(module.get_submodule(".".join(parts)), name, None)
    return [v for v in pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]


def keep(module: nn.Module, values: Mapping[str, Any]) -> None:
    """Give the attributes the values that a call leaves behind."""
    for path, value in values.items():
        *parts, name = path.split(".")
        setattr(module.get_submodule(".".join(parts)), name, value)


def _apart(value: Any) -> tuple[Any, list[Any], Any]:
    return value, *pytree.tree_flatten(value)


def _differs(before: tuple[Any, list[Any], Any], after: tuple[Any, list[Any], Any]) -> bool:
    if before[2] != after[2]:
        return True
    pairs = zip(before[1], after[1], strict=True)
    return any(a is not b and not (isinstance(a, FIXED) and a == b) for a, b in pairs)


def _as_it_was(value: Any, leaves: list[Any], spec: Any) -> Any:
    """A list or dictionary itself with its former content; what cannot change, as it is."""
    content = pytree.tree_unflatten(leaves, spec)
    if isinstance(value, list):
        value[:] = content
    elif isinstance(value, dict):
        value.clear()
        value.update(content)
    return value


def _described(part: nn.Module, name: str, now: tuple[Any, list[Any], Any]) -> Any:
    _, leaves, spec = now
    other = [v for v in leaves if not isinstance(v, (torch.Tensor, *FIXED))]
    if other:
        raise UnsupportedError(
            f"what {type(part).__name__} keeps in '{name}' must be tensors, numbers, texts, and "
            f"lists of them, got a {type(other[0]).__name__}"
        )
    return pytree.tree_unflatten(leaves, spec)
