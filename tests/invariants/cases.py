"""Compiled models that the invariants must hold for: each target, precision and switch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import onnx

import ge
from examples.models import resnet_small, simple_transformer
from ge.runtime.compiled import CompiledModel
from tests.models import convolutional

MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "transformer": lambda: simple_transformer(17, (2, 16, 96), heads=4),
    "resnet": lambda: resnet_small(side=32),
    "convolutions": lambda: _named(convolutional(13)),
}
TARGETS = ("ascend910b1", "tiny")
PRECISIONS = ("origin", "fp16")
SWITCHES = ("fuse_ops", "memory_reuse", "pipeline_schedule", "native")


class Case(NamedTuple):
    """One way to compile a model."""

    model: str
    target: str
    precision: str
    off: tuple[str, ...]

    def __str__(self) -> str:
        return "-".join((self.model, self.target, self.precision, *(f"no_{s}" for s in self.off)))


CASES = [
    Case(model, target, precision, off)
    for model in MODELS
    for target in TARGETS
    for precision in PRECISIONS
    for off in ((), *((switch,) for switch in SWITCHES), SWITCHES)
]


@cache
def model(name: str) -> onnx.ModelProto:
    """The model of a case."""
    return MODELS[name]()


@cache
def compiled(case: Case) -> CompiledModel:
    """The program of a case."""
    switches: Mapping[str, Any] = dict.fromkeys(case.off, False)
    return ge.compile(model(case.model), target=case.target, precision=case.precision, **switches)


def _named(made: onnx.ModelProto) -> onnx.ModelProto:
    """Every node needs a name of its own, to be found again in the figures."""
    assert len({node.name for node in made.graph.node}) == len(made.graph.node)
    return made
