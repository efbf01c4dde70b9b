"""Dataclasses in results: what torch does not take apart by itself."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from torch.utils import _pytree as pytree


@dataclass
class Record:
    """The fields of an object of some dataclass."""

    kind: type
    content: dict[str, Any]


def opened(value: Any) -> Any:
    """A dataclass's object as a Record, which flattens into its fields; another value itself."""
    if not is_dataclass(value) or isinstance(value, type):
        return value
    content = {f.name: getattr(value, f.name) for f in fields(value)}
    return Record(type(value), {n: pytree.tree_map(opened, v) for n, v in content.items()})


def _made(content: Any, context: Any) -> Any:
    """An object like the opened one; what its class does to new ones was done to that already."""
    kind, names = context
    made = object.__new__(kind)
    for name, value in zip(names, content, strict=True):
        object.__setattr__(made, name, value)
    return made


pytree.register_pytree_node(
    Record, lambda r: ([*r.content.values()], (r.kind, tuple(r.content))), _made
)
