"""ge-opt: read a module, run passes, print it."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ge.dialects.diagnostics import GeError, InputError
from ge.lowering.pipelines import PASSES, PIPELINES, load_pass
from ge.tools.console import read_text, run_tool, shown, tool_parser

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

EXAMPLE = """example:
  ge-opt model.mlir -p fold-constants,simplify --print-ir-after all -o simple.mlir
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns its exit status."""
    return run_tool(lambda words: _run(_arguments().parse_args(words)), argv)


def _arguments() -> argparse.ArgumentParser:
    passes = "".join(f"  {name:20} {row.does}\n" for name, row in PASSES.items())
    pipelines = "".join(f"  {name:20} {', '.join(row)}\n" for name, row in PIPELINES.items())
    parser = tool_parser(
        "ge-opt",
        "Read a module, run passes over it, print it.",
        f"{EXAMPLE}\npasses:\n{passes}\npipelines:\n{pipelines}",
    )
    add = parser.add_argument
    add("file", nargs="?", default="-", metavar="FILE", help="a module; default standard input")
    add("-p", "--passes", default="", metavar="PASSES", help="passes or pipelines, by commas")
    add("--target", metavar="NAME|FILE.toml", help="the machine, for passes that need one")
    add("--split-input-file", action="store_true", help="treat parts between '// -----' apart")
    add("--print-ir-before", default="", metavar="PASS", help="print the module before a pass")
    add("--print-ir-after", default="", metavar="PASS|all", help="print the module after a pass")
    add("-o", dest="out", metavar="OUT", help="the file to write; default standard output")
    return parser


def _run(args: argparse.Namespace) -> int:
    from ge.dialects.module_text import make_context

    passes = list(_passes(args.passes, args.target))
    path = Path(args.file)
    name, text = shown(path), read_text(path)
    if not args.split_input_file:
        _emit(args, _one(args, text, name, passes, make_context()))
        return 0
    status = 0
    for i, part in enumerate(_parts(text)):
        print("// -----\n" if i else "", end="")
        try:
            _emit(args, _one(args, part, name, passes, make_context()))
        except GeError as e:
            print(e, file=sys.stderr)
            status = max(status, e.status)
    return status


def _parts(text: str) -> Iterator[str]:
    """The parts of a split input, each at its own lines so that messages are right."""
    done = 0
    for part in re.split(r"^// -----[^\n]*\n", text, flags=re.MULTILINE):
        yield "\n" * done + part
        done += part.count("\n") + 1


def _passes(spec: str, target: str | None) -> Iterator[ModulePass]:
    """The passes of `-p`, pipelines written out, options in braces applied."""
    from xdsl.utils.arg_spec import ArgSpec, parse_pipeline
    from xdsl.utils.exceptions import ArgSpecParseError

    from ge.dialects.npu.target import pinned

    try:
        asked = list(parse_pipeline(spec)) if spec else []
    except ArgSpecParseError as e:
        raise InputError(f"passes must be NAME or NAME{{OPTION=VALUE}}, got '{spec}'") from e
    for row in asked:
        for name in PIPELINES.get(row.name, (row.name,)):
            cls = load_pass(name)
            options: dict[str, Any] = dict(row.parameters) if name == row.name else {}
            if target is not None and "target" in cls.__dataclass_fields__:
                options["target"] = (pinned(target),)
            try:
                yield cls.from_pass_spec(ArgSpec(name, options))
            except ValueError as e:
                raise InputError(f"options of '{name}': {e}") from None


def _one(
    args: argparse.Namespace, text: str, name: str, passes: list[ModulePass], ctx: Context
) -> ModuleOp:
    from ge.dialects.module_text import attach_weights, parse_module, verify_module

    module = parse_module(text, name, ctx)
    verify_module(module, text, name)
    attach_weights(module, Path("." if name == "<stdin>" else name), ctx)
    for p in passes:
        if args.print_ir_before in (p.name, "all"):
            _dump(module, f"before {p.name}")
        p.apply(ctx, module)
        if args.print_ir_after in (p.name, "all"):
            _dump(module, f"after {p.name}")
    module.verify()
    return module


def _dump(module: ModuleOp, when: str) -> None:
    from ge.dialects.module_text import print_module

    print(f"// IR {when}:\n{print_module(module)}", file=sys.stderr)


def _emit(args: argparse.Namespace, module: ModuleOp) -> None:
    from ge.dialects.module_text import print_module, write_module

    if args.out:
        write_module(module, Path(args.out))
    else:
        sys.stdout.write(print_module(module))


if __name__ == "__main__":
    sys.exit(main())
