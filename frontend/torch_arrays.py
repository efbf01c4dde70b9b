"""Tensors of torch as arrays and back, their memory shared wherever it lies in order."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]

# numpy has no name for these: they travel as integers of their width.
RENAMED = {
    torch.bfloat16: (torch.int16, np.dtype(ml_dtypes.bfloat16)),
    torch.float8_e4m3fn: (torch.int8, np.dtype(ml_dtypes.float8_e4m3fn)),
    torch.float8_e5m2: (torch.int8, np.dtype(ml_dtypes.float8_e5m2)),
}
BACK = {numpy: (dtype, np.dtype(f"i{numpy.itemsize}")) for dtype, (_, numpy) in RENAMED.items()}


def to_array(tensor: torch.Tensor) -> Array:
    """The tensor as an array in order."""
    plain = tensor.detach().cpu().contiguous()
    if plain.dtype in RENAMED:
        same, numpy = RENAMED[plain.dtype]
        array: Array = plain.view(same).numpy().view(numpy)
        return array
    whole: Array = plain.numpy()
    return whole


def to_tensor(array: Array) -> torch.Tensor:
    """An array as a tensor; one that must not be written is copied."""
    array = array if array.flags.writeable and array.flags.c_contiguous else array.copy()
    if array.dtype in BACK:
        dtype, plain = BACK[array.dtype]
        return torch.from_numpy(array.view(plain)).view(dtype)
    return torch.from_numpy(array)
