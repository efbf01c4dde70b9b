"""Tensors of torch as arrays and back, their memory shared wherever it lies in order."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

from ge.dialects.diagnostics import InputError
from ge.frontend.torch_refusals import check_dense

Array = NDArray[Any]

# numpy has no name for these: they travel as integers of their width.
RENAMED = {
    torch.bfloat16: (torch.int16, np.dtype(ml_dtypes.bfloat16)),
    torch.float8_e4m3fn: (torch.int8, np.dtype(ml_dtypes.float8_e4m3fn)),
    torch.float8_e5m2: (torch.int8, np.dtype(ml_dtypes.float8_e5m2)),
}
BACK = {numpy: (dtype, np.dtype(f"i{numpy.itemsize}")) for dtype, (_, numpy) in RENAMED.items()}


def to_array(tensor: torch.Tensor) -> Array:
    """The tensor as an array in order; a complex one as pairs, as ONNX has it."""
    check_dense(tensor)
    plain = tensor.detach().cpu().contiguous()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    if plain.dtype in RENAMED:
        same, numpy = RENAMED[plain.dtype]
        array: Array = plain.view(same).numpy().view(numpy)
        return array
    whole: Array = plain.numpy()
    return whole


def shape_of_array(tensor: torch.Tensor) -> tuple[int, ...]:
    """The shape of the array that a tensor is given as."""
    return (*tensor.shape, 2) if tensor.is_complex() else tuple(tensor.shape)


def to_argument(name: str, tensor: torch.Tensor) -> Array:
    """The array that input `name` is given.

    Raises InputError for a 64-bit integer that needs more than 32 bits: models of torch are
    computed without the upper half.
    """
    array = to_array(tensor)
    if array.dtype == np.int64 and array.size:
        held = np.iinfo(np.int32)
        for found in (int(array.min()), int(array.max())):
            if not held.min <= found <= held.max:
                raise InputError(
                    f"input '{name}' must hold integers of 32 bits, which is what models of torch "
                    f"are computed with, got {found}"
                )
    return array


def to_tensor(array: Array) -> torch.Tensor:
    """An array as a tensor; one that must not be written is copied."""
    array = array if array.flags.writeable and array.flags.c_contiguous else array.copy()
    if array.dtype in BACK:
        dtype, plain = BACK[array.dtype]
        return torch.from_numpy(array.view(plain)).view(dtype)
    return torch.from_numpy(array)
