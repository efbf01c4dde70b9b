"""The way of a model down the levels: prepared, lowered level by level, made a program."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects.builtin import ModuleOp

from ge.codegen.check import Fault, check
from ge.codegen.from_npu import program_of
from ge.dialects.diagnostics import InputError, did_you_mean
from ge.dialects.module_text import make_context
from ge.dialects.npu import target as targets
from ge.dialects.npu.ops import ChooseOp, InvokeOp, ProgramOp, RepeatOp
from ge.dialects.npu.program import Program
from ge.dialects.npu.tree import BufferOp
from ge.lowering.pipelines import PRECISIONS, Level, Options, passes, scheduling, simplification
from ge.lowering.programs import kernels_of, programs_of
from ge.runtime.garbage import few_collections as few_collections
from ge.runtime.source import Source
from ge.timing.areas import check_fits

if TYPE_CHECKING:
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


class Compilation:
    """A model at some level, and what has been done to it."""

    def __init__(
        self, module: ModuleOp, level: Level, options: Options, watch: Watch | None = None
    ) -> None:
        self.module = module
        self.level = level
        self.first = level
        self.options = options
        self.watch = watch
        self.times: list[PassTime] = []
        self._context = make_context()

    def prepare(self) -> None:
        """Bring the module into the form that its level has when it is printed."""
        if self.level is Level.GRAPH:
            self.run(simplification(self.options))
        elif self.level is Level.NPU and _has_calls(self.module):
            _check_unscheduled(self.module)
            self.run(scheduling(self.options))
        self.module.verify()

    def lower(self) -> None:
        """Go down one level."""
        self.run(passes(self.level, self.options))
        self.arrive(NEXT[self.level])

    def arrive(self, level: Level) -> None:
        """Be at a level: all passes that lead to it have run."""
        self.level = level
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

    def program(self, *, fits: bool = True) -> Program:
        """The whole way down, and the program that the assembler takes.

        Raises DoesNotFit if its tensors are too large for the target, unless `fits` is off.
        """
        self.lower_to(Level.NPU)
        found = list(programs_of(self.module))
        if len(found) != 1:
            raise InputError(f"a module must hold one npu.program, got {len(found)}")
        program = program_of(found[0])
        if self.first is Level.NPU:
            _check_rules(program)
        if fits:
            check_fits(program, targets.load(program.target))
        return program

    def fork(self, options: Options) -> Compilation:
        """The same module, to be lowered in another way."""
        copy = Compilation(self.module.clone(), self.level, options, self.watch)
        copy.first = self.first
        return copy

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
    if source.is_torch:
        options = replace(options, narrow=True)
    started = time.perf_counter()
    module, level = source.read(make_context())
    if level is Level.NPU:
        _check_machine(module, options)
    compilation = Compilation(module, level, options, watch)
    compilation.times.append(PassTime("read", level.value, time.perf_counter() - started))
    compilation.prepare()
    return compilation


def unsimplified(source: Source, options: Options) -> Compilation:
    """The operators of a model as they stand: what a framework runs that does not look at them."""
    module, level = source.read(make_context())
    return Compilation(module, level, checked(options))


def checked(options: Options) -> Options:
    """The options with cores and target made definite; raises InputError for what is not known."""
    if options.precision not in PRECISIONS:
        hint = did_you_mean(options.precision, PRECISIONS)
        known = ", ".join(PRECISIONS)
        raise InputError(f"precision must be one of {known}, got '{options.precision}'{hint}")
    name = targets.pinned(options.target)
    target = targets.load(name)
    if not 0 <= options.cores <= target.cores:
        raise InputError(
            f"cores must be 1 to {target.cores} of target '{target.name}', got {options.cores}"
        )
    return replace(options, target=name, cores=options.cores or target.cores)


def _check_machine(module: ModuleOp, options: Options) -> None:
    """A text of instructions says itself for which machine they are."""
    for program in programs_of(module):
        asked, said = (options.target, options.cores), _machine(program)
        if asked != said:
            raise InputError(
                f"the text is for {said[1]} cores of '{said[0]}' and must be compiled for those, "
                f"got {asked[1]} cores of '{asked[0]}'"
            )


def _check_rules(program: Program) -> None:
    """A user wrote these instructions: what is wrong with them is no fault of ours."""
    try:
        check(program)
    except Fault as e:
        raise InputError(e.message) from None


def _has_calls(module: ModuleOp) -> bool:
    """Whether there are kernels that are trees, or calls that are no instructions yet."""
    runs = (InvokeOp, ChooseOp, RepeatOp)
    calls = (op for p in programs_of(module) for op in p.body.ops if isinstance(op, runs))
    return any(True for _ in chain(kernels_of(module), calls))


def _check_unscheduled(module: ModuleOp) -> None:
    """Of loops that some passes have scheduled it is not known which passes those were."""
    for op in module.walk():
        if isinstance(op, BufferOp) and op.copies is not None:
            raise InputError(
                "kernels must be scheduled wholly or not at all, got buffers with copies; run the "
                "passes that are left with ge-opt, 'emit-instructions' is the last"
            )


def _machine(program: ProgramOp) -> tuple[str, int]:
    return targets.pinned(program.target.data), program.cores.value.data
