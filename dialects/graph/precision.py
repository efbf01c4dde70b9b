"""How half precision is computed: in single precision, rounded once, as onnxruntime does."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

Array = Any
"""A numpy array. Its element type is a value here, so numpy's static types only get in the way."""


def is_half(array: Array) -> bool:
    """Whether elements are f16 or bf16."""
    return array.dtype.itemsize == 2 and array.dtype.kind not in "iu"


def single(array: Array) -> Array:
    """Half precision widened to single, everything else as it is."""
    return array.astype(np.float32) if is_half(array) else array


def in_single(evaluate: Callable[..., Array]) -> Callable[..., Array]:
    """Let `evaluate` see halves in single precision and round its result to the first operand's."""

    @wraps(evaluate)
    def widened(*arrays: Array | None, **attrs: Any) -> Array:
        first = arrays[0]
        assert first is not None
        with np.errstate(all="ignore"):
            out = evaluate(*(None if a is None else single(a) for a in arrays), **attrs)
        return out.astype(first.dtype, copy=False)

    return widened


def sigmoid(x: Array) -> Array:
    """`1 / (1 + e ** -x)` without overflow on either side."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)
