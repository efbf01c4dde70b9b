"""Memories as numpy bytes: what a core and the device hold, every access checked."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ge.dialects.dtypes import DType
from ge.dialects.npu.geometry import dense
from ge.dialects.npu.operands import Addr
from ge.dialects.npu.places import Space
from ge.dialects.npu.program import Program
from ge.dialects.npu.routine import Routine
from ge.dialects.npu.target import Target
from ge.runtime.overlap import Pattern
from ge.timing.areas import areas

Bytes = NDArray[np.uint8]
Array = NDArray[Any]
Sizes = tuple[int, ...]

POISON = 0x7F
"""Fills what nobody has written: as a half or double float it is not a number, as others huge."""

LAYOUTS = 1 << 16
"""Layouts remembered at most."""
VIEWS = 1 << 12
"""Tiles of a core's memories remembered at most: loops come back to the same buffers."""
MOST_ELEMENTS = 1 << 28
"""Elements of a tile at most: a repeated dimension must not ask for more than memory can hold."""


class AccessError(ValueError):
    """An access that the memory refuses; the message says what was accessed."""


class Layout:
    """How a strided tile lies in bytes, whatever its address."""

    __slots__ = ("__dict__", "dtype", "high", "itemsize", "low", "size", "strides")

    def __init__(self, size: Sizes, strides: Sizes, dtype: DType) -> None:
        if len(size) != len(strides):
            raise AccessError(f"a tile must have as many strides as sizes, got {size}, {strides}")
        if min(size, default=0) < 0:
            raise AccessError(f"the sizes of a tile must be 0 or more, got {size}")
        if prod(size) > MOST_ELEMENTS:
            raise AccessError(f"a tile must have at most {MOST_ELEMENTS} elements, got {size}")
        self.size = size
        self.dtype = dtype.numpy
        self.itemsize = dtype.bytes
        self.strides = tuple(s * self.itemsize for s in strides)
        spans = [(n - 1) * s for n, s in zip(size, self.strides, strict=True)]
        empty = 0 in size
        self.low = 0 if empty else sum(s for s in spans if s < 0)
        """First byte relative to the address; `high` is the byte behind the last, 0 if empty."""
        self.high = 0 if empty else sum(s for s in spans if s > 0) + self.itemsize

    @cached_property
    def pattern(self) -> Pattern:
        """The bytes it touches, from `low` on."""
        return Pattern.of(self.itemsize, self.size, self.strides)


class Watch(Protocol):
    """Hears of every access before it is made."""

    def access(self, space: Space, offset: int, layout: Layout, write: bool) -> None:
        """`offset` is the address; the tile lies at `offset + layout.low` up to `layout.high`."""


class Device:
    """Device memory: only the bytes that the program has names for."""

    def __init__(self, program: Program, inputs: Mapping[str, Array], values: bool) -> None:
        """Inputs by symbol; without `values`, what is not given reads as zeros and takes none."""
        self._areas = [area for area in areas(program) if area.bytes]
        self._starts = [area.address for area in self._areas]
        self._memory: list[Bytes | None] = []
        self.layouts: dict[tuple[int, Sizes, Sizes], Layout] = {}
        """Every layout once for all cores, by element type, sizes and strides."""
        for area in self._areas:
            data: Bytes | None = None
            if area.blob >= 0 and (blob := program.weights[area.blob].data) is not None:
                data = np.frombuffer(blob, np.uint8)
            elif area.symbol in inputs:
                data = np.ascontiguousarray(inputs[area.symbol]).reshape(-1).view(np.uint8)
            elif values:
                data = np.full(area.bytes, POISON, np.uint8)
            self._memory.append(data)

    def write(self, inputs: Mapping[str, Array]) -> None:
        """Put other values into the memory of inputs, which must be the device's own."""
        for area, data in zip(self._areas, self._memory, strict=True):
            if area.symbol in inputs and data is not None:
                data[:] = np.ascontiguousarray(inputs[area.symbol]).reshape(-1).view(np.uint8)

    def output(self, symbol: str) -> Bytes:
        """The bytes of an output."""
        for area, data in zip(self._areas, self._memory, strict=True):
            if area.symbol == symbol and data is not None:
                return data
        return np.empty(0, np.uint8)

    def find(self, offset: int, layout: Layout, write: bool) -> tuple[Bytes | None, int, bool]:
        """The area of an access, the address in it, and whether it can be written at all."""
        low, high = offset + layout.low, offset + layout.high
        index = bisect_right(self._starts, low) - 1
        area = self._areas[index] if index >= 0 else None
        if area is None or high > area.end:
            where = f"'{area.symbol}' ends at {area.end:#x}" if area else "nothing lies there"
            raise AccessError(f"gm[{low:#x}..{high:#x}) must lie in one area of gm; {where}")
        if write and not area.writable:
            raise AccessError(f"gm[{low:#x}..{high:#x}) of '{area.symbol}' must only be read")
        return self._memory[index], offset - area.address, area.writable


class Memory:
    """What one core can reach: implements `read` and `out` of `State`."""

    def __init__(self, target: Target, device: Device, watch: Watch | None = None) -> None:
        self._device = device
        self._watch = watch
        self._chip = {
            space: np.full(size, POISON, np.uint8)
            for space, size in target.bytes_of.items()
            if space is not Space.GM
        }
        self._layouts = device.layouts
        self._views: dict[tuple[Any, ...], tuple[Array, Layout]] = {}

    def read(self, at: Addr, size: Sizes, strides: Sizes, dtype: DType) -> Array:
        return self._tile(at, size, strides, dtype, False)

    def out(self, at: Addr, size: Sizes, strides: Sizes, dtype: DType) -> Array:
        return self._tile(at, size, strides, dtype, True)

    def host(self, routine: Routine, places: Sizes) -> None:
        """Compute a routine of the AI CPU on device memory."""
        operands = (*routine.reads, *routine.writes)
        if len(places) != len(operands):
            raise AccessError(
                f"'{routine.symbol}' must be given {len(operands)} addresses, got {len(places)}"
            )
        ats = [Addr(Space.GM, place) for place in places]
        arrays = [
            self.read(at, o.shape, dense(o.shape), o.dtype)
            for at, o in zip(ats, routine.reads, strict=False)
        ]
        results = routine.compute(arrays)
        for at, o, result in zip(ats[len(arrays) :], routine.writes, results, strict=True):
            self.out(at, o.shape, dense(o.shape), o.dtype)[...] = result

    def _tile(self, at: Addr, size: Sizes, strides: Sizes, dtype: DType, write: bool) -> Array:
        space, offset, _ = at
        if space is Space.GM:
            return self._view(at, self._layout(size, strides, dtype), write)
        key = (space, offset, size, strides, dtype.code)
        found = self._views.get(key)
        if found is not None:
            view, layout = found
            if self._watch is not None and layout.high:
                self._watch.access(space, offset, layout, write)
            return view
        layout = self._layout(size, strides, dtype)
        view = self._view(at, layout, write)
        if len(self._views) >= VIEWS:
            self._views.clear()
        self._views[key] = view, layout
        return view

    def _layout(self, size: Sizes, strides: Sizes, dtype: DType) -> Layout:
        key = (dtype.code, size, strides)
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= LAYOUTS:
                self._layouts.clear()
            layout = self._layouts[key] = Layout(size, strides, dtype)
        return layout

    def _view(self, at: Addr, layout: Layout, write: bool) -> Array:
        if not layout.high:
            return np.empty(layout.size, layout.dtype)
        space, offset, _ = at
        if offset % layout.itemsize:
            raise AccessError(f"{at} must be a multiple of {layout.itemsize}, the element's bytes")
        shared = True
        memory: Bytes | None
        if space is Space.GM:
            memory, within, shared = self._device.find(offset, layout, write)
        else:
            memory, within = self._chip[space], offset
            if offset + layout.low < 0 or offset + layout.high > memory.size:
                low, high = offset + layout.low, offset + layout.high
                size_of = f"{space}[0..{memory.size:#x})"
                raise AccessError(f"{space}[{low:#x}..{high:#x}) must lie in {size_of}")
        if self._watch is not None and shared:
            self._watch.access(space, offset, layout, write)
        if memory is None:
            return np.zeros(layout.size, layout.dtype)
        return np.ndarray(layout.size, layout.dtype, memory, within, layout.strides)


class Glance:
    """Memory without tiles, for the clock alone: scalar loads find inputs and weights, or 0."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def read(self, at: Addr, size: Sizes, strides: Sizes, dtype: DType) -> Array:
        layout = Layout(size, strides, dtype)
        memory, within, _ = self._device.find(at.offset, layout, False)
        if memory is None:
            return np.zeros(size, layout.dtype)
        return np.ndarray(size, layout.dtype, memory, within, layout.strides)

    def out(self, at: Addr, size: Sizes, strides: Sizes, dtype: DType) -> Array:
        raise AccessError(f"the scalar unit must not write memory, got {at}")

    def host(self, routine: Routine, places: Sizes) -> None:
        """Nothing: without tiles there is nothing to compute on."""
