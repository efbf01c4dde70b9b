"""Models as programs that can be run, timed, read and saved: what `ge.compile` gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ge.codegen.objects import attach_weights, read_object, write_object
from ge.codegen.print_asm import print_asm, save_asm
from ge.dialects.diagnostics import CheckFailed, GeError, InputError
from ge.dialects.npu.isa import sync
from ge.dialects.npu.program import Program
from ge.dialects.npu.target import DEFAULT
from ge.dialects.weights_file import WeightsFile
from ge.lowering.pipelines import Options
from ge.runtime.back_to_back import Series, series
from ge.runtime.compile_report import CompileReport, report_of
from ge.runtime.device import DEVICE
from ge.runtime.driver import Compilation, begin, checked, few_collections
from ge.runtime.program_cache import ProgramCache, cache_in, source_key
from ge.runtime.simulator import Mode, Simulator
from ge.runtime.source import Source
from ge.runtime.stats import Stats

if TYPE_CHECKING:
    import onnx

    from ge.runtime.compare import Comparison

Array = NDArray[Any]


class CompiledModel:
    """A program with its simulator. `report` says how it was compiled; loaded ones have none."""

    def __init__(self, program: Program, report: CompileReport | None = None) -> None:
        self._program = program
        self.report = report
        self.origin: tuple[Source, Options] | None = None
        """What it was compiled from; None for a loaded one."""

    @property
    def program(self) -> Program:
        """What the simulator runs."""
        return self._program

    def run(
        self,
        inputs: Mapping[str, Array] | None = None,
        *,
        check_hazards: bool = False,
        in_place: bool = False,
    ) -> dict[str, Array]:
        """The outputs by name, in the types and shapes that the model declares.

        With `in_place`, an array for an input that an output is written over is device memory: it
        holds that output afterwards, and nothing is copied. Other arrays are left as they are.
        Raises InputError for inputs that do not match, and CheckFailed when hazards are looked for
        and found.
        """
        result = self._simulator.run(
            inputs, mode=Mode.FUNCTIONAL, check_hazards=check_hazards, in_place=in_place
        )
        DEVICE.launched(self.launches)
        if result.hazards:
            first = str(result.hazards[0])
            raise CheckFailed(f"no hazards must be found, got {len(result.hazards)}", detail=first)
        return result.outputs

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The output, or all of them, of inputs in the model's order or by name.

        Inputs are arrays, numbers or tensors of torch; of tensors the outputs are tensors too.
        """
        kinds = {tensor.name: tensor.dtype.numpy for tensor in self.program.inputs}
        return call(list(kinds), kinds, self.run, args, named)

    @property
    def launches(self) -> int:
        """How often the host starts something in one run."""
        return sum(inst.instr is sync.launch for inst in self.program.code) or 1

    def stats(self) -> Stats:
        """The figures of a timed run; they do not depend on what the inputs hold."""
        return self._stats

    def run_many(self, inputs: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
        """The outputs of several inferences on end; `series` says how long those take."""
        return [self.run(given) for given in inputs]

    def series(self, inferences: int) -> Series:
        """How long so many inferences take in one launch.

        Each begins to load while the one before it still computes; its intermediates and outputs
        have places of their own beside those of the one before.
        """
        return series(self.program, inferences)

    def compare(self, inputs: Mapping[str, Array], worst: float | None = None) -> Comparison:
        """Every kernel beside its operators in single precision, and the first that is guilty.

        A kernel is guilty when it is off by more than `worst` of its largest number, or overflows.
        """
        if self.origin is None:
            raise InputError("a program must be compiled here to be compared, got a loaded one")
        from ge.runtime.compare import compare

        return compare(*self.origin, inputs, worst)

    @property
    def assembly(self) -> str:
        """The text of the program; weights above 1 KiB are named by digest only."""
        return print_asm(self.program)

    def save(self, path: str | Path) -> None:
        """Write an object (`.o`), or assembly (`.s`) with large weights in a file beside it."""
        path = Path(path)
        if path.suffix not in (".o", ".s"):
            raise InputError("a compiled model must be saved as .o or .s", str(path))
        try:
            if path.suffix == ".s":
                save_asm(self.program, path)
            else:
                path.write_bytes(write_object(self.program))
        except OSError as e:
            raise InputError(f"must be writable: {e.strerror}", str(path)) from e

    @cached_property
    def _simulator(self) -> Simulator:
        DEVICE.hold(self, self.program.bytes)
        return Simulator(self.program)

    @cached_property
    def _stats(self) -> Stats:
        return self._simulator.run(mode=Mode.TIMING).stats


def call(
    names: Sequence[str],
    kinds: Mapping[str, Any],
    run: Callable[[dict[str, Array]], Mapping[str, Array]],
    args: Sequence[Any],
    named: Mapping[str, Any],
) -> Any:
    """What `run` makes of inputs by place or name: one output or a tuple, tensors of tensors.

    A number takes the type that `kinds` has for it.
    """
    given = {**dict(zip(names, args, strict=False)), **named}
    if len(args) + len(named) != len(names) or len(given) != len(names):
        count = len(args) + len(named)
        raise InputError(f"inputs must be {', '.join(names)}, got {count} arrays")
    tensors = any(type(v).__module__ == "torch" for v in given.values())
    arrays = {name: _array(value, kinds.get(name)) for name, value in given.items()}
    outputs = tuple(run(arrays).values())
    if tensors:
        from ge.frontend.torch_arrays import to_tensor

        outputs = tuple(to_tensor(v) for v in outputs)
    return outputs[0] if len(outputs) == 1 else outputs


def _array(value: Any, dtype: Any) -> Array:
    if type(value).__module__ == "torch":
        from ge.frontend.torch_arrays import to_array

        return to_array(value)
    return np.asarray(value, dtype) if isinstance(value, (bool, int, float)) else np.asarray(value)


def compile(
    model: str | Path | onnx.ModelProto,
    *,
    target: str = DEFAULT,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Any] | None = None,
    precision: str = "origin",
    keep_fp32: Sequence[str] = (),
    cores: int = 0,
    fuse_ops: bool = True,
    memory_reuse: bool = True,
    pipeline_schedule: bool = True,
    native: bool = True,
    tune: bool = False,
    tilings: Mapping[str, str] | None = None,
    in_place: Mapping[str, str] | None = None,
    cache_dir: str | Path = "",
) -> CompiledModel:
    """Compile a model: an `.onnx` file, a `.mlir` file of any level, or an ONNX model in memory.

    `shapes` closes dimensions that the model leaves open, `values` makes inputs constants.
    `keep_fp32` names operators and nodes that no precision narrows. `target` is a name or a TOML
    file; 0 cores are all it has. `tune` times many tilings of every kernel; what `report.tilings`
    then has, given as `tilings` again, needs no search. `in_place` names inputs, each with the
    output that may be written over it. A model whose shapes are not known before it runs comes back
    as one that compiles itself for what it is run with (`SpecialisedModel`). Programs are kept in
    `cache_dir`, or in the folder that `$GE_CACHE_DIR` names; what comes from there has no report.
    Raises GeError for what is at fault.
    """
    options = Options(
        target,
        cores,
        precision,
        fuse_ops,
        memory_reuse,
        pipeline_schedule,
        native=native,
        keep=tuple(keep_fp32),
        tune=tune,
        tilings=tuple(f"{key}: {tiling}" for key, tiling in (tilings or {}).items()),
    )
    source = Source(model, shapes, values, in_place=in_place)
    return compiled(source, options, cache_in(str(cache_dir)))


def compiled(source: Source, options: Options, cache: ProgramCache | None = None) -> CompiledModel:
    """The program of a model from the cache or made anew, or one that waits for its shapes."""
    options = checked(options)
    key = None if cache is None or options.tune else source_key(source, options)
    if cache is not None and key is not None and (found := cache.get(key)) is not None:
        made = CompiledModel(found[0])
        made.origin = source, options
        return made
    try:
        with few_collections():
            made = finish(begin(source, options), source)
    except GeError as e:
        from ge.runtime.specialise import SpecialisedModel, waits

        if not waits(e, source):
            raise
        given: dict[str, Any] = {"shapes": source.shapes, "values": source.values}
        return SpecialisedModel(source.model, options, cache, in_place=source.in_place, **given)
    if cache is not None and key is not None:
        cache.put(key, made.program, {})
    return made


def finish(compilation: Compilation, source: Source | None = None) -> CompiledModel:
    """The rest of a compile, of what `source` said."""
    level = compilation.level.value
    program = compilation.program()
    made = CompiledModel(program, report_of(compilation, level))
    if source is not None:
        made.origin = source, compilation.options
    return made


def load(path: str | Path) -> CompiledModel:
    """The compiled model of an object file; weights outside it are found beside it."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as e:
        raise InputError(f"must be a readable file: {e.strerror}", str(path)) from e
    program = read_object(data, str(path))
    weights = path.with_suffix(".weights")
    if weights.is_file() and any(blob.data is None for blob in program.weights):
        attach_weights(program, WeightsFile(weights).__getitem__)
    return CompiledModel(program)
