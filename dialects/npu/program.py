"""A program for one machine: what `.s` and `.o` hold, and what the simulator runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from ge.dialects.dtypes import DType
from ge.dialects.npu.instr import Inst
from ge.dialects.npu.routine import Routine

ALIGNMENT = 512
"""Bytes to which weights, arena, inputs and outputs are aligned in device memory."""

ELEMENTS_MOST = 2**31 - 1
"""Extents and strides of instructions are numbers of 32 bits."""
RANK_MOST = 32
"""Dimensions of an input or an output: reports and arrays show no more."""

WEIGHTS, ARENA = "weights", "arena"
"""The symbols of the two areas that are not inputs or outputs."""


class Tensor(NamedTuple):
    """An input or an output: a symbol of the code, and what the user knows it as.

    An output that has the symbol of an input is written over it.
    """

    symbol: str
    name: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.dtype.bytes


class Arena(NamedTuple):
    """Bytes of the area for intermediates: as planned, the largest live sum, and without reuse."""

    bytes: int = 0
    lower_bound: int = 0
    no_reuse: int = 0


class Blob(NamedTuple):
    """Bytes of the weights area; `data` is None when the values were left out."""

    digest: str
    bytes: int
    data: memoryview | None


class Kernel(NamedTuple):
    """Instructions `start` up to `end`, their rule's name, and the model's nodes in them."""

    symbol: str
    kind: str
    sources: tuple[str, ...]
    start: int
    end: int


@dataclass
class Program:
    """Code, areas and signature. Label operands are `Name`s; `labels` says what they mean."""

    target: str
    cores: int
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    arena: Arena = field(default_factory=Arena)
    weights: list[Blob] = field(default_factory=list)
    """Laid out in order, each at the next multiple of `ALIGNMENT`."""
    code: list[Inst] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    """Instruction numbers by label; those that begin with `.L` are local: objects drop them."""
    kernels: list[Kernel] = field(default_factory=list)
    calls: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """The model's nodes that a call stands for, by its instruction's number; kernels are shared."""
    routines: list[Routine] = field(default_factory=list)
    """What the AI CPU is asked to compute."""

    @property
    def weights_bytes(self) -> int:
        """Bytes of the weights area."""
        return sum(-(-b.bytes // ALIGNMENT) * ALIGNMENT for b in self.weights)

    @property
    def bytes(self) -> int:
        """Bytes of device memory: weights, inputs, outputs and intermediates."""
        tensors = {t.symbol: t.bytes for t in self.signature}
        return self.weights_bytes + sum(tensors.values()) + self.arena.bytes

    @property
    def state(self) -> frozenset[str]:
        """The symbols of inputs that outputs are written over."""
        return frozenset({t.symbol for t in self.inputs} & {t.symbol for t in self.outputs})

    @property
    def signature(self) -> list[Tensor]:
        """Inputs and outputs."""
        return [*self.inputs, *self.outputs]
