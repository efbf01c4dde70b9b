"""Caches of transformers as programs take them: buffers with room for more tokens than there are.

What the caller sees of a layer are the tokens that its own kind of layer would hold, as views of
the buffers: of a window that slides, the last ones. The program masks what a window hides, so the
buffers themselves hold every token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ge.dialects.diagnostics import UnsupportedError
from ge.runtime.torch_pool import Pool

CAPACITY = 64
"""Tokens that a growing cache has room for at first; it doubles when they are not enough."""

BUFFERS = "_ge_buffers"


@dataclass(frozen=True)
class _Kind:
    """A kind of layer: which tokens it shows, and how it counts those it has seen."""

    first: Callable[[Any, int], int]
    """The first token that it shows once it has seen some number of them."""
    room: Callable[[Any], int | None]
    """How many places it shows, filled or not; None for a layer that grows."""
    seen: Callable[[Any], int]
    count: Callable[[Any, int], None]


def _grows(layer: Any, length: int) -> None:
    """The number of its tokens is the layer's length."""


def _slides(layer: Any, length: int) -> None:
    layer.cumulative_length = length


def _is_fixed(layer: Any, length: int) -> None:
    layer.cumulative_length.fill_(length)


def _is_fixed_and_slides(layer: Any, length: int) -> None:
    layer.cumulative_length.fill_(length)
    layer.cumulative_length_int = length


KINDS = {
    "DynamicLayer": _Kind(
        lambda layer, n: 0, lambda layer: None, lambda layer: int(layer.get_seq_length()), _grows
    ),
    "DynamicSlidingWindowLayer": _Kind(
        lambda layer, n: max(0, n - layer.sliding_window + 1),
        lambda layer: None,
        lambda layer: int(layer.cumulative_length),
        _slides,
    ),
    "StaticLayer": _Kind(
        lambda layer, n: 0,
        lambda layer: int(layer.max_cache_len),
        lambda layer: int(layer.cumulative_length),
        _is_fixed,
    ),
    "StaticSlidingWindowLayer": _Kind(
        lambda layer, n: max(0, n - layer.max_cache_len),
        lambda layer: int(layer.max_cache_len),
        lambda layer: int(layer.cumulative_length_int),
        _is_fixed_and_slides,
    ),
}
"""By the name of the class: transformers is not imported before a model of it is there."""


class Held:
    """A cache that a caller holds, and the buffers that its tensors are views of."""

    def __init__(self, cache: Any, empty: Sequence[torch.Tensor], pool: Pool) -> None:
        """`empty` are keys and values of no tokens, for each layer; buffers lie in the pool."""
        from transformers.cache_utils import DynamicLayer

        while len(cache.layers) < len(empty) // 2:
            cache.layers.append(DynamicLayer())
        self._cache = cache
        self._kinds = [KINDS[type(layer).__name__] for layer in cache.layers]
        self._empty = empty
        self._pool = pool
        first = cache.layers[0]
        self.past = self._kinds[0].seen(first) if first.is_initialized else 0

    def buffers(self, length: int) -> list[torch.Tensor]:
        """Buffers for `length` tokens: those there are, unless somebody changed what they hold."""
        shown, firsts = self._shown(), self._firsts(self.past)
        known = getattr(self._cache, BUFFERS, None)
        if known is not None and known[0].shape[2] >= length:
            pairs = zip(shown, known, firsts, strict=True)
            if self.past and all(s.data_ptr() == k[:, :, at:].data_ptr() for s, k, at in pairs):
                return list(known)
        # The memory of buffers that are not those of the cache any more may be used again.
        known = None
        setattr(self._cache, BUFFERS, None)
        room = self._room(length)
        return [self._placed(t, at, room) for t, at in zip(shown, firsts, strict=True)]

    def take(self, made: list[torch.Tensor], length: int) -> None:
        """The cache after a call."""
        setattr(self._cache, BUFFERS, made)
        pairs = zip(self._cache.layers, self._kinds, made[::2], made[1::2], strict=True)
        for layer, kind, keys, values in pairs:
            layer.device, layer.dtype, layer.is_initialized = keys.device, keys.dtype, True
            first, room = kind.first(layer, length), kind.room(layer)
            last = length if room is None else first + room
            layer.keys, layer.values = keys[:, :, first:last], values[:, :, first:last]
            kind.count(layer, length)

    def _placed(self, shown: torch.Tensor, at: int, room: int) -> torch.Tensor:
        """A buffer that shows `shown` from the place `at` on, as far as it has room."""
        kept = shown[:, :, : room - at]
        buffer = self._pool.zeros((*shown.shape[:2], room, shown.shape[3]), shown.dtype)
        buffer[:, :, at : at + kept.shape[2]] = kept
        return buffer

    def _shown(self) -> Sequence[torch.Tensor]:
        if not self.past:
            return self._empty
        return [t for layer in self._cache.layers for t in (layer.keys, layer.values)]

    def _firsts(self, length: int) -> list[int]:
        """Where in the buffers the shown tensors begin."""
        pairs = zip(self._cache.layers, self._kinds, strict=True)
        return [first for layer, kind in pairs for first in [kind.first(layer, length)] * 2]

    def _room(self, length: int) -> int:
        """Places of the buffers: those of the layers that are fixed, or what holds `length`."""
        pairs = zip(self._cache.layers, self._kinds, strict=True)
        fixed = max((kind.room(layer) or 0 for layer, kind in pairs), default=0)
        grown = max(CAPACITY, 1 << (length - 1).bit_length())
        return fixed if fixed >= length else max(fixed, grown)


def check_kinds(cache: Any) -> None:
    """Raise UnsupportedError for a cache that is not made of layers of known kinds."""
    layers = getattr(cache, "layers", None)
    other = [n for layer in layers or [] if (n := type(layer).__name__) not in KINDS]
    if layers is None or other:
        found = type(cache).__name__ + (f" with a {other[0]}" if other else "")
        raise UnsupportedError(
            f"a cache must be a DynamicCache or a StaticCache of attention, got a {found}; call "
            "with use_cache=False"
        )
