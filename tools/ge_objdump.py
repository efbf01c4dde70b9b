"""`ge-objdump`: what an object file holds, as assembly and as tables."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ge.dialects.diagnostics import InputError
from ge.tools.console import check_apart, read_bytes, run_tool, shown, tool_parser, write_output

EXAMPLE = """example:
  ge-objdump -d model.o -o model.s && ge-as model.s -o same.o && cmp model.o same.o"""


def main(argv: Sequence[str] | None = None) -> int:
    """The tool; its exit status."""
    return run_tool(_dump, argv)


def _parser() -> argparse.ArgumentParser:
    parser = tool_parser(
        "ge-objdump", "Show an object file. Without an option: -d.", EXAMPLE, add_help=False
    )
    parser.add_argument(
        "file", metavar="FILE.o", type=Path, help="object file; - is standard input"
    )
    add = parser.add_argument
    add("--help", action="help", help="show this text and exit")
    add("-d", action="store_true", dest="code", help="assembly that ge-as turns into FILE.o again")
    add("-h", action="store_true", dest="sections", help="the sections")
    add("-t", action="store_true", dest="symbols", help="the symbols")
    add("-r", action="store_true", dest="relocations", help="the relocations")
    add(
        *("-o",),
        dest="output",
        metavar="X.s",
        type=Path,
        help="write the assembly to a file, and large weights to X.weights beside it; "
        "text to standard output has the digests of large weights only",
    )
    return parser


def _dump(argv: Sequence[str]) -> None:
    options = _parser().parse_args(argv)
    from ge.codegen.objects import read_object
    from ge.codegen.print_asm import print_asm, save_asm
    from ge.codegen.tables import relocations, sections, symbols

    check_apart([options.file], [options.output])
    data = read_bytes(options.file)
    program = read_object(data, shown(options.file))
    wanted = {
        sections: options.sections,
        symbols: options.symbols,
        relocations: options.relocations,
    }
    tables = [table(data) for table, asked in wanted.items() if asked]
    code = options.code or options.output or not tables
    if tables:
        # Beside code they are comments, so that all of the output is assembly.
        text = "\n".join(tables)
        print("".join(f"; {line}".rstrip() + "\n" for line in text.splitlines()) if code else text)
    if options.output:
        if options.output.suffix == ".weights":
            raise InputError("must not be called like a weights file", str(options.output))
        write_output(options.output, lambda path: save_asm(program, path))
    elif code:
        print(print_asm(program), end="")


if __name__ == "__main__":
    raise SystemExit(main())
