"""Device memory for tensors that programs change: given out again once no tensor looks at it.

What was recorded for an address is good for whatever lies there later, so it pays that the caches
of one generation after the other lie in the same places.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any
from weakref import ReferenceType, ref

import numpy as np
import torch


class _Block:
    """Bytes, and the array under the tensor that has them now."""

    def __init__(self, size: int) -> None:
        self._memory = np.empty(size, np.uint8)
        self._lent: ReferenceType[Any] | None = None

    @property
    def is_free(self) -> bool:
        return self._lent is None or self._lent() is None

    def lend(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        # Tensors keep the array that they were made of, and all views of them do.
        array = self._memory.view()
        array.fill(0)
        self._lent = ref(array)
        return torch.from_numpy(array).view(dtype).view(tuple(shape))


class Pool:
    """Blocks by the form of the tensors that they were made for."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[Any, ...], list[_Block]] = {}

    def zeros(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A tensor of zeros, in memory that was another one's if there is some."""
        size = prod(shape) * dtype.itemsize
        blocks = self._blocks.setdefault((*shape, dtype), [])
        free = next((block for block in blocks if block.is_free), None)
        if free is None:
            self._drop_others(blocks)
            free = _Block(size)
            blocks.append(free)
        return free.lend(shape, dtype)

    def _drop_others(self, wanted: list[_Block]) -> None:
        """Give back what is free, but for blocks like those that are asked for."""
        for blocks in self._blocks.values():
            if blocks is not wanted:
                blocks[:] = [block for block in blocks if not block.is_free]
