"""`ge-compile`: a model to an object file, or to the text of any level on the way."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ge.lowering.pipelines import PRECISIONS
from ge.tools.console import check_apart, read_text, run_tool, tool_parser, write_output
from ge.tools.model_options import add_model_options, named, once

if TYPE_CHECKING:
    from ge.dialects.npu.program import Program
    from ge.lowering.pipelines import Options
    from ge.runtime.driver import Compilation
    from ge.runtime.program_cache import ProgramCache
    from ge.runtime.source import Source

EXAMPLE = """example:
  ge-compile model.onnx --shape x:1,3,224,224 --precision fp16 -o model.o --report report.json

exit status: 0 done, 2 arguments, 3 an input is at fault, 4 not supported, 5 does not fit"""
TEXTS = ("graph", "fused", "npu", "asm")
PROGRESS_AFTER = 1.0
"""Seconds before a compile shows how far it is."""


def main(argv: Sequence[str] | None = None) -> int:
    """The tool; its exit status."""
    return run_tool(_compile, argv)


def _parser() -> argparse.ArgumentParser:
    parser = tool_parser(
        "ge-compile", "Compile a model for an NPU: .onnx, or .mlir of any level.", EXAMPLE
    )
    add = parser.add_argument
    add("model", metavar="MODEL", type=Path, help="the model")
    add("-o", dest="output", metavar="OUT", type=Path, help="default: MODEL.o, or text to stdout")
    add("--emit", choices=[*TEXTS, "obj"], default="obj", help="what is written; default: obj")
    add(
        "--weights", metavar="FILE", type=Path, help="keep large weights in FILE, not in the object"
    )
    add("--save-temps", metavar="DIR", type=Path, help="write the text of every level to DIR")
    add("--report", metavar="FILE.json", type=Path, help="write what was done and what it costs")
    add("--ablation", action="store_true", help="compile and time every stage of the switches")
    add_model_options(parser, PRECISIONS)
    _add_switches(parser)
    _add_tilings(parser)
    return parser


def _add_switches(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("switches").add_argument
    add("--no-fuse", action="store_true", help="one kernel an operator")
    add("--no-memory-reuse", action="store_true", help="a place of its own for each intermediate")
    add("--no-pipeline", action="store_true", help="matrix and vector work of a kernel in turns")
    add("--no-native", action="store_true", help="one launch a kernel")
    add("--eager", action="store_true", help="all four of these")
    add("--no-skip", action="store_true", help="time every loop trip for --report")
    add(
        *("--in-place",),
        metavar="INPUT:OUTPUT",
        action="append",
        default=[],
        type=_pair,
        help="let an output be written over an input, such as a cache",
    )


def _pair(text: str) -> tuple[str, str]:
    return named(text, _name, "INPUT:OUTPUT")


def _name(word: str) -> str:
    if not word:
        raise ValueError(word)
    return word


def _add_tilings(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("tilings").add_argument
    add("--tune", action="store_true", help="time many tilings of every kernel, take the quickest")
    add(
        *("--tilings",),
        metavar="FILE",
        type=Path,
        help="take tilings from FILE; with --tune it gets those of the kernels that it has none of",
    )


def _compile(argv: Sequence[str]) -> None:
    args = _parser().parse_args(argv)
    from ge.runtime.driver import begin
    from ge.runtime.source import Source

    output = args.output or (args.model.with_suffix(".o") if args.emit == "obj" else None)
    # A module may be written over the one it came from, like any text that a tool rewrites.
    rewrites = args.model.suffix == ".mlir" and args.emit not in ("asm", "obj")
    check_apart([] if rewrites else [args.model], [output, args.weights, args.report])
    shapes, values = once(args.shape, "shape"), once(args.value, "value")
    source = Source(args.model, shapes, values, in_place=once(args.in_place, "output over"))
    kept = _kept(args)
    options = _options(args, kept)
    cache, key = _place(source, options, args)
    if cache is not None and (found := cache.get(key)) is not None:
        _put_object(found[0], args)
        print(f"taken as it is from the cache in {cache.folder}")
        return
    compilation = begin(source, options, _progress())
    level = compilation.level.value
    stages = compilation.fork(compilation.options) if args.ablation else None
    _lower(compilation, args)
    if compilation.watch is not None:
        compilation.watch("")
    if args.report or args.emit == "obj" or stages:
        _report(compilation, stages, level, args)
    if args.tune and args.tilings:
        _keep(compilation, kept, args.tilings)
    if cache is not None:
        cache.put(key, compilation.program(), {})


def _place(
    source: Source, options: Options, args: argparse.Namespace
) -> tuple[ProgramCache | None, str]:
    """Where the object is kept, if nothing but the object is asked for, and under which name."""
    from ge.runtime.driver import checked
    from ge.runtime.program_cache import cache_in, source_key

    more = args.report or args.save_temps or args.ablation or args.tune
    cache = None if more or args.emit != "obj" else cache_in(args.cache)
    key = source_key(source, checked(options)) if cache is not None else None
    return (cache, key) if key is not None else (None, "")


def _kept(args: argparse.Namespace) -> list[str]:
    """The lines of the file with tilings; one that tuning is to write may not be there yet."""
    if args.tilings is None or (args.tune and not args.tilings.exists()):
        return []
    from ge.lowering.tune_kernel import kept

    lines = read_text(args.tilings).splitlines()
    kept(lines, str(args.tilings))
    return lines


def _keep(compilation: Compilation, kept: list[str], path: Path) -> None:
    """Add the tilings that are new to the file."""
    from ge.runtime.compile_report import report_of

    known = {line.partition(": ")[0] for line in kept}
    found = report_of(compilation, "").tilings
    lines = [*kept, *(f"{key}: {tiling}" for key, tiling in found.items() if key not in known)]
    write_output(path, lambda p: p.write_text("".join(f"{x}\n" for x in lines), "utf-8"))


def _options(args: argparse.Namespace, kept: Sequence[str]) -> Options:
    from ge.lowering.pipelines import Options

    on = not args.eager
    return Options(
        target=args.target,
        cores=args.cores,
        precision=args.precision,
        fuse=on and not args.no_fuse,
        memory_reuse=on and not args.no_memory_reuse,
        pipeline=on and not args.no_pipeline,
        native=on and not args.no_native,
        tune=args.tune,
        tilings=tuple(kept),
    )


def _progress() -> Callable[[str], None] | None:
    if not sys.stderr.isatty():
        return None
    started = time.perf_counter()

    def show(name: str) -> None:
        if time.perf_counter() - started > PROGRESS_AFTER:
            print(f"\r{name:<40}", end="\r", file=sys.stderr, flush=True)

    return show


def _lower(compilation: Compilation, args: argparse.Namespace) -> None:
    """Take the model down as far as it is asked for, and write each level that is."""
    from ge.lowering.pipelines import Level
    from ge.runtime.emit import assembly_text, module_text

    levels = list(Level)
    texts = [level.value for level in levels]
    if args.emit in texts[: levels.index(compilation.level)]:
        compilation.lower_to(Level(args.emit))
    whole = args.report or args.save_temps or args.ablation or args.emit not in texts
    for level in levels[levels.index(compilation.level) :]:
        compilation.lower_to(level)
        _save(args, f"{level.value}.mlir", lambda p: module_text(compilation.module, p, None))
        if level.value == args.emit:
            _put(module_text(compilation.module, args.output, args.weights), args.output)
            if not whole:
                return
    program = compilation.program()
    _save(args, "s", lambda p: assembly_text(program, p, None))
    if args.emit == "asm":
        _put(assembly_text(program, args.output, args.weights), args.output)
    if args.emit == "obj":
        _put_object(program, args)


def _put_object(program: Program, args: argparse.Namespace) -> None:
    from ge.runtime.emit import object_bytes

    path = args.output or args.model.with_suffix(".o")
    data = object_bytes(program, path, args.weights)
    write_output(path, lambda p: p.write_bytes(data))


def _save(args: argparse.Namespace, suffix: str, text: Callable[[Path], str]) -> None:
    """A level's text in the folder for those, if there is one."""
    if args.save_temps:
        path = args.save_temps / f"{args.model.stem}.{suffix}"
        write_output(args.save_temps, lambda p: p.mkdir(parents=True, exist_ok=True))
        write_output(path, lambda p: p.write_text(text(p), "utf-8"))


def _put(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(text)
    else:
        write_output(out, lambda p: p.write_text(text, "utf-8"))


def _report(
    compilation: Compilation, stages: Compilation | None, level: str, args: argparse.Namespace
) -> None:
    """Say what was done, where text is not in the way of it."""
    from ge.runtime.ablation import ablation
    from ge.runtime.compile_report import report_of
    from ge.runtime.simulator import Mode, Simulator

    report = report_of(compilation, level)
    table = ablation(stages) if stages else None
    busy = args.output is None and args.emit in TEXTS
    print(*filter(None, (report, table)), sep="\n", file=sys.stderr if busy else sys.stdout)
    if args.report:
        simulator = Simulator(compilation.program())
        stats = simulator.run(mode=Mode.TIMING, skip=not args.no_skip).stats
        document = {**stats.to_json(), **report.to_json()}
        if table:
            document["ablation"] = table.to_json()
        text = json.dumps(document, indent=1) + "\n"
        write_output(args.report, lambda p: p.write_text(text, "utf-8"))


if __name__ == "__main__":
    sys.exit(main())
