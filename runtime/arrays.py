"""Inputs from files or at random, outputs to files."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ge.dialects.diagnostics import InputError
from ge.dialects.dtypes import B8
from ge.dialects.npu.program import Tensor

Array = NDArray[Any]

RANDOM_INTEGERS = 8
"""Random integers are below this: they may be indices of something small."""


def random_input(tensor: Tensor, seed: int) -> Array:
    """Values for an input, the same for the same name and seed.

    Floats are normal, integers 0 to 7, bools either.
    """
    rng = np.random.default_rng([seed, zlib.crc32(tensor.name.encode())])
    if tensor.dtype.is_float:
        return np.asarray(rng.standard_normal(tensor.shape)).astype(tensor.dtype.numpy)
    below = 2 if tensor.dtype is B8 else RANDOM_INTEGERS
    return np.asarray(rng.integers(below, size=tensor.shape)).astype(tensor.dtype.numpy)


def load_array(path: Path) -> Array:
    """The array of a `.npy` file as it stands there; raises InputError if it is none."""
    try:
        array: Array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as e:
        raise InputError(f"must be a readable .npy file: {e}", str(path)) from e
    if not isinstance(array, np.ndarray):
        raise InputError("must be a .npy file of one array", str(path))
    return array


def read_array(path: Path, tensor: Tensor) -> Array:
    """The array of a `.npy` file, in the type of an input where the format cannot say it."""
    array = load_array(path)
    wanted = tensor.dtype.numpy
    if array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize:
        # The format has no name for bfloat16: such files hold untyped elements of its size.
        array = array.view(wanted)
    return array


def write_arrays(folder: Path, arrays: Mapping[str, Array]) -> dict[str, Path]:
    """Write `NAME.npy` for each array, in `folder` whatever the name; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    written: dict[str, Path] = {}
    for name, array in arrays.items():
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".") or "output"
        path = folder / f"{stem}.npy"
        if path in written.values():
            path = folder / f"{stem}-{len(written)}.npy"
        np.save(path, array)
        written[name] = path
    return written
