"""Who last touched which bytes of a memory, by tile."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ge.runtime.machine import Layout
from ge.runtime.overlap import touch

Key = tuple[int, Layout]


class Tile:
    """Bytes that were read in one way, or written in one way, and who did that last."""

    __slots__ = ("high", "last", "layout", "low", "near")

    def __init__(self, offset: int, layout: Layout) -> None:
        self.layout = layout
        self.low = offset + layout.low
        self.high = offset + layout.high
        self.last: dict[int, tuple[int, int]] = {}
        """By queue, event and instruction of the last access: earlier ones are ordered by it."""
        self.near: list[Tile] = []
        """Tiles whose accesses conflict with this one's; itself, if it is written."""

    def touches(self, other: Tile) -> bool:
        return touch(other.low - self.low, self.layout.pattern, other.layout.pattern)


class _Tiles:
    """Tiles with their bounds in arrays: a new one has to be compared with all of them."""

    def __init__(self) -> None:
        self.by_key: dict[Key, Tile] = {}
        self._order: list[Tile] = []
        self._bounds: NDArray[Any] = np.empty((2, 64), np.int64)

    def add(self, key: Key, tile: Tile) -> None:
        count = len(self._order)
        if count == self._bounds.shape[1]:
            self._bounds = np.concatenate([self._bounds, np.empty_like(self._bounds)], axis=1)
        self._bounds[:, count] = tile.low, tile.high
        self._order.append(tile)
        self.by_key[key] = tile

    def touching(self, tile: Tile) -> list[Tile]:
        """The tiles that share bytes with `tile`."""
        lows, highs = self._bounds[:, : len(self._order)]
        found = np.flatnonzero((lows < tile.high) & (highs > tile.low))
        return [other for i in found if (other := self._order[i]).touches(tile)]


class TileHistory:
    """The accesses of one core to one memory."""

    def __init__(self) -> None:
        self._reads = _Tiles()
        self._writes = _Tiles()

    def tile(self, offset: int, layout: Layout, write: bool) -> Tile:
        """The tile of an access."""
        own = self._writes if write else self._reads
        found = own.by_key.get((offset, layout))
        return found or self._add(Tile(offset, layout), (offset, layout), write)

    def _add(self, tile: Tile, key: Key, write: bool) -> Tile:
        against = (self._reads, self._writes) if write else (self._writes,)
        for tiles in against:
            near = tiles.touching(tile)
            tile.near += near
            for other in near:
                other.near.append(tile)
        if write:
            tile.near.append(tile)
        (self._writes if write else self._reads).add(key, tile)
        return tile

    def forget(self, seen: tuple[int, ...]) -> None:
        """Drop what `seen` has seen: all that follows is ordered behind it."""
        old = ((self._reads, False), (self._writes, True))
        self._reads, self._writes = _Tiles(), _Tiles()
        for tiles, write in old:
            for key, tile in tiles.by_key.items():
                if any(event > seen[queue] for queue, (event, _) in tile.last.items()):
                    tile.near = []
                    self._add(tile, key, write)

    def clear(self) -> None:
        """Drop everything."""
        self._reads, self._writes = _Tiles(), _Tiles()
