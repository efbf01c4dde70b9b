"""The way of a model down the levels: read, simplified, lowered level by level, made a program."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp

from ge.codegen.from_npu import program_of
from ge.dialects.diagnostics import InputError, UnsupportedError, did_you_mean
from ge.dialects.graph.module import main_of
from ge.dialects.module_text import make_context, read_module
from ge.dialects.npu import target as targets
from ge.dialects.npu.ops import ProgramOp
from ge.dialects.npu.program import Program
from ge.lowering.pipelines import PRECISIONS, Level, Options, passes, simplification
from ge.lowering.programs import programs_of
from ge.timing.areas import check_fits

if TYPE_CHECKING:
    import onnx
    from xdsl.passes import ModulePass

Watch = Callable[[str], None]
"""Hears the name of each pass before it runs."""

NEXT = {Level.GRAPH: Level.FUSED, Level.FUSED: Level.NPU}
"""What a level is lowered to."""


class PassTime(NamedTuple):
    """How long a pass took, and the level of the module that it was given."""

    name: str
    level: str
    seconds: float


TORCH = (".pt", ".pt2")
"""What files of PyTorch are called."""


@dataclass(frozen=True)
class Source:
    """What is compiled: a file of any kind that we read, or an ONNX model in memory."""

    model: str | Path | onnx.ModelProto
    shapes: Mapping[str, Sequence[int]] | None = None
    """Shapes of inputs whose dimensions the model leaves open."""
    values: Mapping[str, Any] | None = None
    """Values of inputs that the program is specialised on; they are no inputs of it."""


class Compilation:
    """A model at some level, and what has been done to it."""

    def __init__(
        self, module: ModuleOp, level: Level, options: Options, watch: Watch | None = None
    ) -> None:
        self.module = module
        self.level = level
        self.options = options
        self.watch = watch
        self.times: list[PassTime] = []
        self._context = make_context()

    def simplify(self) -> None:
        """Bring a model of graph operators into the form that enters the next level."""
        if self.level is Level.GRAPH:
            self.run(simplification(self.options))
            self.module.verify()

    def lower(self) -> None:
        """Go down one level."""
        self.run(passes(self.level, self.options))
        self.level = NEXT[self.level]
        self.module.verify()

    def lower_to(self, level: Level) -> None:
        """Go down to `level`; a module that starts below it cannot go up again."""
        levels = list(Level)
        if levels.index(level) < levels.index(self.level):
            raise InputError(
                f"a module of level '{self.level.value}' must be asked for at that level or "
                f"below, got '{level.value}'"
            )
        while self.level is not level:
            self.lower()

    def program(self) -> Program:
        """The whole way down, and the program that the assembler takes.

        Raises DoesNotFit if its tensors are too large for the target.
        """
        self.lower_to(Level.NPU)
        found = list(programs_of(self.module))
        if len(found) != 1:
            raise InputError(f"a module must hold one npu.program, got {len(found)}")
        program = program_of(found[0])
        check_fits(program, targets.load(program.target))
        return program

    def fork(self, options: Options) -> Compilation:
        """The same module, to be lowered in another way."""
        return Compilation(self.module.clone(), self.level, options, self.watch)

    def run(self, stages: Sequence[ModulePass]) -> None:
        """Run passes that leave the module at its level, and take their times."""
        for stage in stages:
            if self.watch is not None:
                self.watch(stage.name)
            started = time.perf_counter()
            stage.apply(self._context, self.module)
            seconds = time.perf_counter() - started
            self.times.append(PassTime(stage.name, self.level.value, seconds))


def begin(source: Source, options: Options, watch: Watch | None = None) -> Compilation:
    """The model, simplified; raises GeError for what cannot be read or asked for."""
    options = checked(options)
    started = time.perf_counter()
    module = _read(source)
    level = level_of(module)
    if level is Level.NPU:
        _check_machine(module, options)
    compilation = Compilation(module, level, options, watch)
    compilation.times.append(PassTime("read", level.value, time.perf_counter() - started))
    compilation.simplify()
    return compilation


def checked(options: Options) -> Options:
    """The options with the number of cores filled in; raises InputError for what is not known."""
    if options.precision not in PRECISIONS:
        hint = did_you_mean(options.precision, PRECISIONS)
        known = ", ".join(PRECISIONS)
        raise InputError(f"precision must be one of {known}, got '{options.precision}'{hint}")
    target = targets.load(options.target)
    if not 0 <= options.cores <= target.cores:
        raise InputError(
            f"cores must be 1 to {target.cores} of target '{target.name}', got {options.cores}"
        )
    return replace(options, cores=options.cores or target.cores)


def level_of(module: ModuleOp) -> Level:
    """The level of a module, by the dialect of its operations."""
    if any(True for _ in programs_of(module)):
        return Level.NPU
    dialects = {op.dialect_name() for op in main_of(module).body.block.ops}
    return Level.FUSED if "fused" in dialects else Level.GRAPH


def _read(source: Source) -> ModuleOp:
    model = source.model
    path = Path(model) if isinstance(model, (str, Path)) else None
    if path is not None and path.suffix == ".mlir":
        for what, given in (("shape", source.shapes), ("value", source.values)):
            if given:
                raise InputError(f"a {what} must be for an ONNX model, got one", str(path))
        return read_module(path, make_context())
    if path is not None and path.suffix in TORCH:
        raise UnsupportedError("models of PyTorch are not read yet, export to ONNX", str(path))
    import onnx

    from ge.frontend.onnx_import import import_onnx

    if not isinstance(model, (str, Path, onnx.ModelProto)):
        raise UnsupportedError(
            f"models must be files or ONNX models, got {type(model).__name__}; modules of PyTorch "
            "are not supported yet, export them to ONNX"
        )
    return import_onnx(model, source.shapes, source.values)


def _check_machine(module: ModuleOp, options: Options) -> None:
    """A text of instructions says itself for which machine they are."""
    for program in programs_of(module):
        asked, said = (options.target, options.cores), _machine(program)
        if asked != said:
            raise InputError(
                f"the text is for {said[1]} cores of '{said[0]}' and must be compiled for those, "
                f"got {asked[1]} cores of '{asked[0]}'"
            )


def _machine(program: ProgramOp) -> tuple[str, int]:
    return program.target.data, program.cores.value.data


@contextmanager
def few_collections() -> Iterator[None]:
    """Fewer runs of the garbage collector while much is made that stays."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
