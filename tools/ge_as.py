"""`ge-as`: assembly text to an object file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ge.tools.console import (
    STDIN,
    check_apart,
    read_text,
    run_tool,
    shown,
    tool_parser,
    write_output,
)

EXAMPLE = """example:
  ge-compile model.onnx --emit asm -o model.s && ge-as model.s -o model.o && ge-run model.o"""


def main(argv: Sequence[str] | None = None) -> int:
    """The tool; its exit status."""
    return run_tool(_assemble, argv)


def _parser() -> argparse.ArgumentParser:
    parser = tool_parser(
        "ge-as", "Assemble NPU assembly (docs/isa.md) to an ELF object file.", EXAMPLE
    )
    parser.add_argument(
        "file", metavar="FILE.s", type=Path, help="assembly text; - is standard input"
    )
    parser.add_argument(
        "-o", dest="output", metavar="OUT.o", type=Path, help="object file; default: FILE.o"
    )
    return parser


def _assemble(argv: Sequence[str]) -> None:
    parser = _parser()
    options = parser.parse_args(argv)
    if options.file == STDIN and options.output is None:
        parser.error("text from standard input needs -o OUT.o")
    from ge.codegen.objects import write_object
    from ge.codegen.parse_asm import parse_asm
    from ge.dialects.weights_file import WeightsFolder

    output = options.output or options.file.with_suffix(".o")
    check_apart([options.file], [output])
    text = read_text(options.file)
    program = parse_asm(text, shown(options.file), WeightsFolder(options.file.parent))
    data = write_object(program)
    write_output(output, lambda p: p.write_bytes(data))


if __name__ == "__main__":
    raise SystemExit(main())
