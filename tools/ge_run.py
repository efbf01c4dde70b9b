"""`ge-run`: runs an object file, or a model, on the simulator."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ge.dialects.diagnostics import CheckFailed
from ge.tools.console import check_apart, read_bytes, run_tool, shown, tool_parser, write_output
from ge.tools.model_options import add_model_options, count, given_of
from ge.tools.run_inputs import inputs_of

if TYPE_CHECKING:
    from ge.dialects.npu.program import Program
    from ge.runtime.simulator import Result

EXAMPLE = """example:
  ge-run model.o --input x=x.npy --output-dir out --stats stats.json --check-hazards
  ge-run model.onnx --input x=x.npy --output-dir out"""
MODELS = (".onnx", ".mlir", ".pt", ".pt2")
"""Suffixes of files that are compiled before they run."""
SHOWN_HAZARDS = 20
RUNS = 20
"""Runs at most to see how long one takes here; more than that are timed on end."""
PROGRESS_AFTER = 1.0
"""Seconds before a run shows how far it is."""


def main(argv: Sequence[str] | None = None) -> int:
    """The tool; its exit status."""
    return run_tool(_run, argv)


def _parser() -> argparse.ArgumentParser:
    parser = tool_parser(
        "ge-run",
        "Run an object file, or a model, on the simulator: its numbers, and how long they take.",
        EXAMPLE,
    )
    add = parser.add_argument
    what = "object file; - is standard input; a model is compiled for the inputs that are given"
    add("file", metavar="FILE", type=Path, help=what)
    add(
        "--input",
        metavar="NAME=FILE.npy|NAME=random[:SEED]",
        action="append",
        default=[],
        type=_input,
        help="an input's values; those not given are random with seed 0",
    )
    add("--output-dir", metavar="DIR", type=Path, help="write each output to DIR/NAME.npy")
    add("--mode", choices=["functional", "timing", "both"], default="both", help="default: both")
    add("--stats", metavar="FILE.json", type=Path, help="write the figures of the run")
    add("--trace", metavar="FILE.json", type=Path, help="write a trace for Chrome or Perfetto")
    add("--check-hazards", action="store_true", help="find accesses that nothing orders")
    add("--no-skip", action="store_true", help="time every loop trip, as with --trace")
    add(
        "--repeat",
        metavar="N",
        type=count,
        default=1,
        help=f"run N times, {RUNS} at most, and time N inferences on end",
    )
    add_model_options(parser, None)
    return parser


def _input(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator or not value:
        raise argparse.ArgumentTypeError(f"must be NAME=FILE.npy or NAME=random, got '{text}'")
    return name, value


def _run(argv: Sequence[str]) -> None:
    parser = _parser()
    options = parser.parse_args(argv)
    if options.mode == "timing" and (options.check_hazards or options.output_dir):
        parser.error("--check-hazards and --output-dir need numbers: not with --mode timing")
    if options.mode == "functional" and options.trace:
        parser.error("--trace needs the clock: not with --mode functional")
    check_apart([options.file], [options.stats, options.trace])
    if options.file.suffix in MODELS:
        from ge.runtime.specialise import SpecialisedModel
        from ge.tools.run_model import compiled_for, run_parts

        model, inputs = compiled_for(options)
        if isinstance(model, SpecialisedModel):
            run_parts(model, inputs, options)
            return
        program = model.program
    else:
        for name in given_of(parser, options):
            parser.error(f"--{name} is for models: an object file has been compiled")
        program = _object(options)
        inputs = inputs_of(program.inputs, options.input, options.mode != "timing")
    _simulate(program, inputs, options)


def _simulate(program: Program, inputs: dict[str, Any], options: argparse.Namespace) -> None:
    from ge.runtime.report import report

    result, seconds = _repeated(program, inputs, options)
    _write(result, options)
    print(report(result.stats))
    if options.repeat > 1:
        print(_repeats(seconds))
        if options.mode != "functional":
            from ge.runtime.back_to_back import series

            print(f"in one launch: {series(program, options.repeat)}")
    if result.hazards:
        first = "\n".join(map(str, result.hazards[:SHOWN_HAZARDS]))
        found = len(result.hazards)
        raise CheckFailed(f"no hazards must be found, got {found}", shown(options.file), first)


def _object(options: argparse.Namespace) -> Program:
    from ge.codegen.objects import read_object

    program = read_object(read_bytes(options.file), shown(options.file))
    if options.mode != "timing":
        _find_weights(program, options.file.with_suffix(".weights"))
    return program


def _find_weights(program: Program, path: Path) -> None:
    """Take values that the object leaves out from the weights file beside it, if there is one."""
    from ge.dialects.weights_file import WeightsFile

    if path.is_file() and any(blob.data is None for blob in program.weights):
        file = WeightsFile(path)
        program.weights = [
            blob if blob.data is not None else blob._replace(data=file[blob.digest])
            for blob in program.weights
        ]


def _repeated(
    program: Program, inputs: dict[str, Any], options: argparse.Namespace
) -> tuple[Result, list[float]]:
    """The last of the runs, and the seconds that each took here: all give the same."""
    from ge.runtime.simulator import Simulator

    simulator = Simulator(program)
    seconds = []
    for _ in range(min(options.repeat, RUNS)):
        started = time.perf_counter()
        result = simulator.run(
            inputs,
            mode=options.mode,
            check_hazards=options.check_hazards,
            trace=options.trace is not None,
            skip=not options.no_skip,
            progress=_progress(started),
        )
        seconds.append(time.perf_counter() - started)
    return result, seconds


def _progress(started: float) -> Callable[[int], None] | None:
    if not sys.stderr.isatty():
        return None

    def show(instructions: int) -> None:
        if time.perf_counter() - started > PROGRESS_AFTER:
            print(f"\r{instructions:,} instructions", end="\r", file=sys.stderr, flush=True)

    return show


def _repeats(seconds: Sequence[float]) -> str:
    """Cycles are the same in every run: the clock starts each with nothing left of the last."""
    first, best = seconds[0], min(seconds[1:])
    return (
        f"repeated: {len(seconds)} runs of the same cycles (a run starts with nothing cached); "
        f"simulated in {first:.3f} s, then {best:.3f} s at best"
    )


def _write(result: Result, options: argparse.Namespace) -> None:
    from ge.runtime.arrays import write_arrays

    def write_json(path: Path, document: Any) -> None:
        text = json.dumps(document, indent=None if document is result.trace else 1)
        write_output(path, lambda p: p.write_text(text + "\n", "utf-8"))

    if options.output_dir:
        write_output(options.output_dir, lambda p: write_arrays(p, result.outputs))
    if options.stats:
        write_json(options.stats, result.stats.to_json())
    if options.trace:
        write_json(options.trace, result.trace)


if __name__ == "__main__":
    sys.exit(main())
