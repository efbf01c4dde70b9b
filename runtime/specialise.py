"""Models that are compiled for the shapes, and the deciding values, that they are run with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ge.lowering.pipelines import Options
from ge.runtime.compiled import CompiledModel, finish
from ge.runtime.driver import begin, few_collections
from ge.runtime.source import Source

if TYPE_CHECKING:
    from pathlib import Path

    import onnx

Array = NDArray[Any]
Key = tuple[tuple[str, tuple[int, ...], bytes], ...]


class SpecialisedModel:
    """A model without concrete shapes: each set of them is compiled when it first comes.

    Where a small input decides a shape, its value belongs to the set.
    """

    def __init__(self, model: str | Path | onnx.ModelProto, options: Options) -> None:
        self._model = model
        self._options = options
        self._deciding: tuple[str, ...] = ()
        self._compiled: dict[Key, CompiledModel] = {}

    def run(self, inputs: Mapping[str, Array], *, check_hazards: bool = False) -> dict[str, Array]:
        """The outputs by name; raises GeError."""
        compiled = self.compiled(inputs)
        given = {n: a for n, a in inputs.items() if n not in self._deciding}
        return compiled.run(given, check_hazards=check_hazards)

    def compiled(self, inputs: Mapping[str, Array]) -> CompiledModel:
        """The program for inputs like these."""
        from ge.frontend.onnx_import import NeedsValues

        while True:
            key = self._key(inputs)
            if key in self._compiled:
                return self._compiled[key]
            try:
                self._compiled[key] = self._compile(inputs)
            except NeedsValues as e:
                more = tuple(n for n in e.names if n in inputs and n not in self._deciding)
                if not more:
                    raise
                self._deciding += more

    def ai_cpu(self, inputs: Mapping[str, Array]) -> list[str]:
        """The operators that the AI CPU computes for inputs like these."""
        report = self.compiled(inputs).report
        return [] if report is None else [use.operator for use in report.ai_cpu]

    def _key(self, inputs: Mapping[str, Array]) -> Key:
        return tuple(
            (name, array.shape, array.tobytes() if name in self._deciding else b"")
            for name, array in sorted((n, np.asarray(a)) for n, a in inputs.items())
        )

    def _compile(self, inputs: Mapping[str, Array]) -> CompiledModel:
        values = {n: inputs[n] for n in self._deciding}
        shapes = {n: np.shape(a) for n, a in inputs.items() if n not in values}
        with few_collections():
            return finish(begin(Source(self._model, shapes, values), self._options))
