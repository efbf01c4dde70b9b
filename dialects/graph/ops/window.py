"""Arithmetic of sliding windows, shared by convolution and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ge.dialects.graph.base import Array, Shape, need


@dataclass(frozen=True)
class Window:
    """A window over the spatial dims, every part given for every dim."""

    kernel: Shape
    strides: Shape
    pads: Shape
    """All begins, then all ends."""
    dilations: Shape
    ceil: bool = False

    @classmethod
    def of(
        cls, kernel: Shape, strides: Shape, pads: Shape, dilations: Shape, ceil: bool = False
    ) -> Window:
        """A window whose empty parts have their defaults filled in; raises for a wrong length."""
        n = len(kernel)
        full = cls(kernel, strides or (1,) * n, pads or (0,) * 2 * n, dilations or (1,) * n, ceil)
        for what, part, length in (
            ("strides", full.strides, n),
            ("pads", full.pads, 2 * n),
            ("dilations", full.dilations, n),
        ):
            need(len(part) == length, f"'{what}' must have {length} numbers, got {list(part)}")
        need(
            min((*kernel, *full.strides, *full.dilations), default=1) > 0, "window must be positive"
        )
        need(min(full.pads, default=0) >= 0, f"'pads' must not be negative, got {list(full.pads)}")
        return full

    @property
    def extent(self) -> Shape:
        """What the window spans, dilation included."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def out(self, size: Sequence[int]) -> Shape:
        """The number of window places in each dim."""
        need(len(size) == len(self.kernel), f"kernel must have {len(size)} dims, got {self.kernel}")
        return tuple(self._places(i, d) for i, d in enumerate(size))

    def _places(self, i: int, size: int) -> int:
        n, stride = len(self.kernel), self.strides[i]
        free = size + self.pads[i] + self.pads[n + i] - self.extent[i]
        need(free >= 0, f"window of {self.extent[i]} must fit into dim {i} of {size} with its pads")
        places = (-(-free // stride) if self.ceil else free // stride) + 1
        # A last window that starts in the padding behind the data does not count.
        starts_outside = self.ceil and (places - 1) * stride >= size + self.pads[i]
        return places - 1 if starts_outside else places

    def view(self, x: Array, fill: float) -> Array:
        """All windows of N x C x spatial as a view: N, C, places, kernel."""
        n = len(self.kernel)
        out = self.out(x.shape[2:])
        # Rounding up may reach beyond the padding.
        ends = [
            max(self.pads[n + i], (o - 1) * s + e - d - self.pads[i])
            for i, (o, s, e, d) in enumerate(
                zip(out, self.strides, self.extent, x.shape[2:], strict=True)
            )
        ]
        widths = [(0, 0), (0, 0), *zip(self.pads[:n], ends, strict=True)]
        padded = np.pad(x, widths, constant_values=np.asarray(fill, x.dtype))
        axes = tuple(range(2, 2 + n))
        views = np.lib.stride_tricks.sliding_window_view(padded, self.extent, axis=axes)
        places = [slice(0, (o - 1) * s + 1, s) for o, s in zip(out, self.strides, strict=True)]
        taps = [slice(None, None, d) for d in self.dilations]
        return views[(slice(None), slice(None), *places, *taps)]
