"""Models that are compiled for the inputs of a run: what `ge-run` does with them."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ge.dialects.diagnostics import UnsupportedError
from ge.tools.console import write_output
from ge.tools.model_options import once
from ge.tools.run_inputs import checked, inputs_of, is_random

if TYPE_CHECKING:
    from ge.dialects.npu.program import Tensor
    from ge.runtime.compiled import CompiledModel
    from ge.runtime.specialise import SpecialisedModel


def compiled_for(args: argparse.Namespace) -> tuple[CompiledModel, dict[str, Any]]:
    """The model, ready for the inputs of the run, and those."""
    from ge.lowering.pipelines import Options
    from ge.runtime.compiled import compiled
    from ge.runtime.program_cache import cache_in
    from ge.runtime.source import Source
    from ge.runtime.specialise import SpecialisedModel, taken

    shapes, values = once(args.shape, "shape"), once(args.value, "value")
    if args.file.suffix == ".onnx":
        shapes = {**_file_shapes(args, values), **shapes}
    options = Options(target=args.target, cores=args.cores, precision=args.precision)
    source = Source(args.file, shapes, values)
    model = compiled(source, options, cache_in(args.cache))
    if not isinstance(model, SpecialisedModel):
        return model, inputs_of(model.program.inputs, args.input, args.mode != "timing")
    arrays = inputs_of(_tensors(model, args.file, shapes), args.input, True)
    whole = model.whole(arrays)
    return (model, arrays) if whole is None else (whole, taken(whole.program, arrays))


def run_parts(model: SpecialisedModel, inputs: dict[str, Any], args: argparse.Namespace) -> None:
    """Run a model of which each part is compiled for what the one before it gave."""
    from ge.runtime.arrays import write_arrays
    from ge.runtime.report import report

    if args.mode == "timing" or args.trace:
        what = "shapes must not depend on the data in mode timing, and for a trace"
        raise UnsupportedError(what, str(args.file))
    for _ in range(args.repeat):
        outputs, parts = model.follow(inputs, check_hazards=args.check_hazards)
    if args.output_dir:
        write_output(args.output_dir, lambda p: write_arrays(p, outputs))
    figures = [part.stats() for part in parts] if args.mode == "both" else []
    for i, stats in enumerate(figures, 1):
        print(f"part {i} of {len(parts)}: {report(stats)}")
    if not figures:
        print(f"ran as {len(parts)} programs")
    if args.check_hazards:
        print("hazards: 0")
    if args.stats:
        text = json.dumps({"parts": [stats.to_json() for stats in figures]}, indent=1)
        write_output(args.stats, lambda p: p.write_text(text + "\n", "utf-8"))


def _file_shapes(args: argparse.Namespace, values: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of the inputs that come from files."""
    from ge.frontend.onnx_load import signature
    from ge.runtime.arrays import load_array

    names = [name for name in signature(args.file) if name not in values]
    files = {n: v for n, v in checked(args.input, names).items() if not is_random(v)}
    return {name: load_array(Path(file)).shape for name, file in files.items()}


def _tensors(model: SpecialisedModel, file: Path, shapes: dict[str, Any]) -> list[Tensor]:
    """The inputs of a model that has no program yet."""
    from ge.dialects.npu.program import Tensor
    from ge.frontend.onnx_load import concrete_shapes

    known = concrete_shapes(file, shapes)
    signature = model.signature.items()
    return [Tensor("", n, one.element, known[n]) for n, one in signature if one.element]
