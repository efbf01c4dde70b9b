"""The inputs of a run: from files, or at random."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ge.dialects.diagnostics import InputError, check_inputs

if TYPE_CHECKING:
    from ge.dialects.npu.program import Tensor

RANDOM = "random"
Given = Sequence[tuple[str, str]]
"""Names with a file, or with `random` and a seed."""


def inputs_of(tensors: Iterable[Tensor], given: Given, functional: bool) -> dict[str, Any]:
    """Arrays for the inputs; those not given are random where numbers are asked for."""
    from ge.runtime.arrays import random_input, read_array

    known = {tensor.name: tensor for tensor in tensors}
    values = dict.fromkeys(known, RANDOM) if functional else {}
    values |= checked(given, known)
    arrays = {}
    for name, value in values.items():
        seed = _seed(name, value)
        if seed is None:
            arrays[name] = read_array(Path(value), known[name])
        else:
            print(f"input '{name}': random, seed {seed}")
            arrays[name] = random_input(known[name], seed)
    return arrays


def checked(given: Given, known: Iterable[str]) -> dict[str, str]:
    """What is given, by name; raises InputError for a name that is unknown or given twice."""
    check_inputs((name for name, _ in given), known, "program")
    found: dict[str, str] = {}
    for name, value in given:
        if name in found:
            raise InputError(f"input '{name}' must be given once")
        found[name] = value
    return found


def is_random(value: str) -> bool:
    """Whether a value asks for random numbers; else it names a file."""
    return value.partition(":")[0] == RANDOM


def _seed(name: str, value: str) -> int | None:
    """The seed of random values, or None for a file."""
    if not is_random(value):
        return None
    seed = value.partition(":")[2]
    if seed and not seed.isdecimal():
        raise InputError(f"the seed of input '{name}' must be a number, got '{seed}'")
    return int(seed or 0)
