"""Models that are compiled for the shapes, and the deciding values, that they are run with."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ge.dialects import dtypes
from ge.dialects.diagnostics import GeError, InputError, UnsupportedError, check_inputs
from ge.dialects.npu.program import Program
from ge.lowering.pipelines import Options
from ge.runtime.compiled import CompiledModel, call, finish
from ge.runtime.driver import begin, checked, few_collections
from ge.runtime.program_cache import content, digest, options_parts
from ge.runtime.source import Source
from ge.runtime.stats import Stats

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

    from ge.frontend.onnx_load import Input
    from ge.frontend.onnx_stages import Pending, Stage
    from ge.runtime.back_to_back import Series
    from ge.runtime.compare import Comparison
    from ge.runtime.driver import Compilation
    from ge.runtime.program_cache import ProgramCache

Array = NDArray[Any]
Key = tuple[tuple[str, tuple[int, ...], str, bytes], ...]

HELD_BYTES = 4 << 30
"""Programs that one model keeps ready, with their tensors; those run longest ago go first."""


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


class SpecialisedModel(CompiledModel):
    """A model without concrete shapes: each set of them is compiled when it first comes.

    Where a small input decides a shape, its value belongs to the set. Where only the data say how
    long a value is, the model runs up to it, and what comes behind is compiled for what came out.
    What needs one program, like `save`, takes that of the last run, if it was one.
    """

    def __init__(
        self,
        model: str | Path | onnx.ModelProto | ir.Model,
        options: Options,
        cache: ProgramCache | None = None,
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        values: Mapping[str, Any] | None = None,
        in_place: Mapping[str, str] | None = None,
        held_bytes: int = HELD_BYTES,
    ) -> None:
        """`cache` keeps the programs for other processes; `values` are inputs that are known."""
        self.report = None
        self.origin = None
        self.parts: list[CompiledModel] = []
        """The programs of the last run, one after the other."""
        self._model = model
        self._options = checked(options)
        self._cache = cache
        self._shapes = {name: tuple(shape) for name, shape in (shapes or {}).items()}
        self._values = dict(values or {})
        self._in_place = dict(in_place or {})
        self._held_bytes = held_bytes
        self._deciding: tuple[str, ...] = ()
        self._compiled: OrderedDict[tuple[Key, tuple[str, ...]], CompiledModel] = OrderedDict()
        self._pending: dict[Key, Pending] = {}

    @cached_property
    def signature(self) -> dict[str, Input]:
        """What the model says of each input that has no value yet, in its order."""
        from ge.frontend.onnx_load import signature

        found = signature(self._model)
        return {name: one for name, one in found.items() if name not in self._values}

    @property
    def inputs(self) -> list[str]:
        """The names of the model's inputs, in its order."""
        return list(self.signature)

    @property
    def program(self) -> Program:
        """That of the last run; raises UnsupportedError if there was none, or it took several."""
        return self.only.program

    @property
    def launches(self) -> int:
        """How often the host starts something in one run like the last one."""
        return sum(part.launches for part in self.parts)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The output, or all of them, of inputs in the model's order or by name."""
        return call(self.inputs, {}, self.run, args, named)

    def run(
        self,
        inputs: Mapping[str, Array] | None = None,
        *,
        check_hazards: bool = False,
        in_place: bool = False,
    ) -> dict[str, Array]:
        """The outputs by name, see `CompiledModel.run`; raises GeError."""
        how = {"check_hazards": check_hazards, "in_place": in_place}
        return self.follow(inputs or {}, **how)[0]

    def stats(self) -> Stats:
        """The figures of the program of the last run; `parts` has those of several."""
        return self.only.stats()

    def series(self, inferences: int) -> Series:
        """How long so many inferences like the last take in one launch."""
        return self.only.series(inferences)

    def compare(self, inputs: Mapping[str, Array], worst: float | None = None) -> Comparison:
        """Every kernel for these inputs beside its operators; see `CompiledModel.compare`."""
        made = self.whole(inputs)
        if made is None:
            raise UnsupportedError("shapes must not depend on the data in a model to be compared")
        return made.compare(taken(made.program, inputs), worst)

    def simplified(self) -> Compilation:
        """The model of the last run, its shapes closed, before it is lowered."""
        assert self.only.origin is not None
        with few_collections():
            return begin(*self.only.origin)

    def whole(self, inputs: Mapping[str, Array]) -> CompiledModel | None:
        """The program for these inputs; None where it takes several, compiled as they run."""
        from ge.frontend.onnx_stages import NeedsStage

        run = Run(self._checked(inputs))
        if self._key(run.all) in self._pending:
            return None
        try:
            return self._made(run, ())
        except NeedsStage as e:
            self._pending[self._key(run.all)] = e.pending
            return None

    def follow(
        self, inputs: Mapping[str, Array], **how: bool
    ) -> tuple[dict[str, Array], list[CompiledModel]]:
        """The outputs, and the programs that computed them one after the other.

        `how` are the options of `run`.
        """
        from ge.frontend.onnx_stages import NeedsStage

        run = Run(self._checked(inputs))
        while True:
            key = self._key(run.all)
            try:
                if key in self._pending:
                    raise NeedsStage(self._pending[key], "")
                outputs = self._outputs(run, (), how)
                self.parts = run.programs
                return outputs, run.programs
            except NeedsStage as e:
                self._pending[self._key(run.all)] = e.pending
                self._advance(run, e.pending, how)

    @property
    def only(self) -> CompiledModel:
        """The program of the last run, if that took one; raises UnsupportedError."""
        if len(self.parts) != 1:
            found = f"it ran as {len(self.parts)} programs" if self.parts else "it has not run yet"
            raise UnsupportedError(
                "the shapes of the model must be known for a program of it: they are those of a "
                f"run, and {found}",
                str(self._model) if isinstance(self._model, (str, Path)) else "",
            )
        return self.parts[0]

    def _checked(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The inputs as arrays, of names and element types that the model has."""
        known = self.signature
        check_inputs(inputs, known, "model")
        if missing := [name for name in known if name not in inputs]:
            raise InputError(f"input '{missing[0]}' must be given")
        arrays = {name: np.asarray(array) for name, array in inputs.items()}
        for name, array in arrays.items():
            known[name].check(array, self._shapes.get(name))
        return arrays

    def _advance(self, run: Run, pending: Pending, how: Mapping[str, bool]) -> None:
        """Run up to the values that are pending, and cut them where their counts say."""
        from ge.frontend.onnx_stages import counted

        results = self._outputs(run, tuple(pending), how)
        for node, ends in pending.items():
            count = int(results.get(counted(node), 0))
            for name, axis in ends.items():
                whole = results[name]
                run.found[name] = whole if axis is None else np.take(whole, range(count), axis)

    def _outputs(
        self, run: Run, until: tuple[str, ...], how: Mapping[str, bool]
    ) -> dict[str, Array]:
        compiled = self._made(run, until)
        run.programs.append(compiled)
        given = taken(compiled.program, run.all)
        return compiled.run(given, **how)

    def _made(self, run: Run, until: tuple[str, ...]) -> CompiledModel:
        from ge.frontend.onnx_stages import NeedsValues

        while True:
            key = (self._key(run.all), until)
            if key in self._compiled:
                self._compiled.move_to_end(key)
                return self._compiled[key]
            try:
                self._compiled[key] = self._compile(run, until)
                self._shrink()
            except NeedsValues as e:
                more = tuple(n for n in e.names if n not in self._deciding)
                if not more:
                    raise
                self._deciding += more

    def _shrink(self) -> None:
        """Let go of what ran longest ago until the rest is small enough."""
        total = sum(made.program.bytes for made in self._compiled.values())
        while total > self._held_bytes and len(self._compiled) > 1:
            total -= self._compiled.popitem(last=False)[1].program.bytes

    def _key(self, arrays: Mapping[str, Array]) -> Key:
        return tuple(
            (name, a.shape, a.dtype.str, a.tobytes() if name in self._deciding else b"")
            for name, a in sorted(arrays.items())
        )

    def _compile(self, run: Run, until: tuple[str, ...]) -> CompiledModel:
        decided = {n: a for n, a in run.inputs.items() if n in self._deciding}
        values = {**self._values, **decided}
        shapes = {n: a.shape for n, a in run.inputs.items() if n not in values}
        # A model that takes several programs hands values on: none is written over.
        over = {} if until or run.found else self._in_place
        source = Source(self._model, shapes, values, self._stage(run, until), over)
        place = None if self._cache is None else self._place(run, until)
        found = self._cache.get(place) if self._cache is not None and place else None
        if found is not None:
            made = CompiledModel(found[0])
            made.origin = source, self._options
            return made
        with few_collections():
            made = finish(begin(source, self._options), source)
        if self._cache is not None and place:
            self._cache.put(place, made.program, {})
        return made

    def _place(self, run: Run, until: tuple[str, ...]) -> str | None:
        """What names a program on disk: all that it is compiled from."""
        if self._content is None:
            return None
        found = {n: "" for n in run.found}
        given = sorted((n, repr(v)) for n, v in self._values.items())
        said = (self._deciding, self._key(run.all), until, found, given, self._in_place)
        return digest([self._content, *options_parts(self._options), *map(repr, said)])

    @cached_property
    def _content(self) -> str | None:
        return content(self._model)

    def _stage(self, run: Run, until: tuple[str, ...]) -> Stage:
        from ge.frontend.onnx_stages import Stage

        known = {
            n: a if n in self._deciding else (a.shape, dtypes.of_numpy(a.dtype))
            for n, a in run.found.items()
        }
        return Stage(until, known)


def taken(program: Program, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Those of the arrays that the program takes; the others were compiled in."""
    names = {tensor.name for tensor in program.inputs}
    return {name: array for name, array in arrays.items() if name in names}


def waits(error: GeError, source: Source) -> bool:
    """Whether a model that was refused with `error` can be compiled for what it is run with."""
    from ge.frontend.onnx_load import OpenShape
    from ge.frontend.onnx_stages import NeedsStage, NeedsValues

    if isinstance(error, OpenShape):
        return not source.shapes
    return isinstance(error, NeedsStage | NeedsValues)
