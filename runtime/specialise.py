"""Models that are compiled for the shapes, and the deciding values, that they are run with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ge.dialects import dtypes
from ge.lowering.pipelines import Options
from ge.runtime.compiled import CompiledModel, call, finish
from ge.runtime.driver import begin, checked, few_collections
from ge.runtime.program_cache import digest, file_parts, options_parts
from ge.runtime.source import Source

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

    from ge.frontend.onnx_stages import Pending, Stage
    from ge.runtime.program_cache import ProgramCache

Array = NDArray[Any]
Key = tuple[tuple[str, tuple[int, ...], str, bytes], ...]


@dataclass
class Run:
    """One run: what is known so far, and the programs that have run."""

    inputs: Mapping[str, Array]
    found: dict[str, Array] = field(default_factory=dict)
    """Values whose length only the data gave, as earlier stages computed them."""
    programs: list[CompiledModel] = field(default_factory=list)

    @property
    def all(self) -> dict[str, Array]:
        return {**self.inputs, **self.found}


class SpecialisedModel:
    """A model without concrete shapes: each set of them is compiled when it first comes.

    Where a small input decides a shape, its value belongs to the set. Where only the data say how
    long a value is, the model runs up to it, and what comes behind is compiled for what came out.
    """

    def __init__(
        self,
        model: str | Path | onnx.ModelProto | ir.Model,
        options: Options,
        cache: ProgramCache | None = None,
    ) -> None:
        """`cache` keeps the programs for other processes."""
        self._model = model
        self._options = checked(options)
        self._cache = cache
        self._deciding: tuple[str, ...] = ()
        self._compiled: dict[tuple[Key, tuple[str, ...]], CompiledModel] = {}
        self._pending: dict[Key, Pending] = {}

    @cached_property
    def inputs(self) -> list[str]:
        """The names of the model's inputs, in its order."""
        from ge.frontend.onnx_load import load_model

        graph = load_model(self._model)[0].graph
        return [v.name or "" for v in graph.inputs if v.name not in graph.initializers]

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The output, or all of them, of inputs in the model's order or by name."""
        return call(self.inputs, {}, self.run, args, named)

    def run(self, inputs: Mapping[str, Array], *, check_hazards: bool = False) -> dict[str, Array]:
        """The outputs by name; raises GeError."""
        return self.follow(inputs, check_hazards=check_hazards)[0]

    def follow(
        self, inputs: Mapping[str, Array], *, check_hazards: bool = False
    ) -> tuple[dict[str, Array], list[CompiledModel]]:
        """The outputs, and the programs that computed them one after the other."""
        from ge.frontend.onnx_stages import NeedsStage

        run = Run({name: np.asarray(array) for name, array in inputs.items()})
        while True:
            key = self._key(run.all)
            try:
                if key in self._pending:
                    raise NeedsStage(self._pending[key], "")
                return self._outputs(run, (), check_hazards), run.programs
            except NeedsStage as e:
                self._pending[self._key(run.all)] = e.pending
                self._advance(run, e.pending, check_hazards)

    def _advance(self, run: Run, pending: Pending, check_hazards: bool) -> None:
        """Run up to the values that are pending, and cut them where their counts say."""
        from ge.frontend.onnx_stages import counted

        results = self._outputs(run, tuple(pending), check_hazards)
        for node, ends in pending.items():
            count = int(results[counted(node)])
            for name, axis in ends.items():
                whole = results[name]
                run.found[name] = whole if axis is None else np.take(whole, range(count), axis)

    def _outputs(self, run: Run, until: tuple[str, ...], check_hazards: bool) -> dict[str, Array]:
        compiled = self._program(run, until)
        names = {tensor.name for tensor in compiled.program.inputs}
        given = {n: a for n, a in run.all.items() if n in names}
        run.programs.append(compiled)
        return compiled.run(given, check_hazards=check_hazards)

    def _program(self, run: Run, until: tuple[str, ...]) -> CompiledModel:
        from ge.frontend.onnx_stages import NeedsValues

        while True:
            key = (self._key(run.all), until)
            if key in self._compiled:
                return self._compiled[key]
            try:
                self._compiled[key] = self._compile(run, until)
            except NeedsValues as e:
                more = tuple(n for n in e.names if n not in self._deciding)
                if not more:
                    raise
                self._deciding += more

    def _key(self, arrays: Mapping[str, Array]) -> Key:
        return tuple(
            (name, a.shape, a.dtype.str, a.tobytes() if name in self._deciding else b"")
            for name, a in sorted(arrays.items())
        )

    def _compile(self, run: Run, until: tuple[str, ...]) -> CompiledModel:
        values = {n: a for n, a in run.inputs.items() if n in self._deciding}
        shapes = {n: a.shape for n, a in run.inputs.items() if n not in values}
        source = Source(self._model, shapes, values, self._stage(run, until))
        place = None if self._cache is None else self._place(run, until)
        found = self._cache.get(place) if self._cache is not None and place else None
        if found is not None:
            return CompiledModel(found[0])
        with few_collections():
            made = finish(begin(source, self._options))
        if self._cache is not None and place:
            self._cache.put(place, made.program, {})
        return made

    def _place(self, run: Run, until: tuple[str, ...]) -> str | None:
        """What names a program on disk: all that it is compiled from."""
        if self._content is None:
            return None
        found = {n: "" for n in run.found}
        said = (self._deciding, self._key(run.all), until, found)
        return digest([self._content, *options_parts(self._options), *map(repr, said)])

    @cached_property
    def _content(self) -> str | None:
        """A digest of the model; None for one in memory that has no bytes of its own."""
        if isinstance(self._model, (str, Path)):
            return digest(file_parts(Path(self._model)))
        write = getattr(self._model, "SerializeToString", None)
        return None if write is None else digest([write(deterministic=True)])

    def _stage(self, run: Run, until: tuple[str, ...]) -> Stage:
        from ge.frontend.onnx_stages import Stage

        known = {
            n: a if n in self._deciding else (a.shape, dtypes.of_numpy(a.dtype))
            for n, a in run.found.items()
        }
        return Stage(until, known)
