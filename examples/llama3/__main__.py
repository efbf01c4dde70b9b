"""What each stage of the compiler is worth on Llama-3, beside what the machine allows.

Nothing is computed and no weights are needed: programs are compiled and timed, so every figure is
simulated. Ratios depend on how fast a host dispatches kernels, so several are given.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from examples.llama3.figures import Study
from examples.llama3.model import GEOMETRIES
from examples.llama3.page import markdown, page, text
from examples.llama3.work import study
from ge import OptimizeConfig
from ge.dialects.diagnostics import GeError, InputError
from ge.runtime.source import need_torch

TARGETS = ("ascend910b1", "ascend910a")
BEGIN, END = "<!-- llama3: begin -->", "<!-- llama3: end -->"


def main(argv: list[str] | None = None) -> int:
    """Print the tables; write them where files are named."""
    given = _parser().parse_args(argv)
    try:
        if given.model:
            from examples.llama3.generate import generate

            target = (given.target or TARGETS)[0]
            config = OptimizeConfig(target=target, precision_mode=given.precision)
            print(generate(given.model, given.words, given.tokens, config))
            return 0
        _figures(given)
    except GeError as e:
        print(e, file=sys.stderr)
        return e.status
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.llama3",
        description="What each stage of the compiler is worth on Llama-3, without its weights.",
        epilog="example: python -m examples.llama3 --geometry 3.2-1b --html llama.html",
    )
    add = parser.add_argument
    add("--geometry", choices=GEOMETRIES, default="8b")
    add("--target", action="append", help="a target's name or TOML file; default: two of them")
    add("--prompt", type=_count, default=2048, help="tokens of the prompt")
    add("--tokens", type=_count, default=50, help="tokens to generate")
    add("--batch", type=_count, default=8, help="prompts at once, for memory")
    add("--capture", action="store_true", help="the model of transformers (the 'torch' extra)")
    add("--json", type=Path, metavar="OUT", help="all figures")
    add("--html", type=Path, metavar="OUT", help="a page with tables and pictures, one file")
    add("--png", type=Path, metavar="DIR", help="pictures (the 'plot' extra)")
    add("--trace", type=Path, metavar="OUT", help="a layer's instructions, for Perfetto")
    add("--update", type=Path, metavar="FILE", help="replace the section of a Markdown file")
    own = parser.add_argument_group("a model of your own (the 'torch' extra and transformers)")
    own.add_argument("--model", type=Path, metavar="DIR", help="a checkpoint to generate with")
    own.add_argument(
        "--words", type=_numbers, default=[1], metavar="1,2", help="the prompt's tokens"
    )
    own.add_argument("--precision", default="origin", help="what it is computed in")
    return parser


def _count(word: str) -> int:
    if not word.isdecimal() or not int(word):
        raise argparse.ArgumentTypeError(f"must be a number of 1 or more, got '{word}'")
    return int(word)


def _numbers(words: str) -> list[int]:
    return [int(word) for word in words.split(",")]


def _figures(given: Any) -> None:
    geometry, targets = GEOMETRIES[given.geometry], given.target or TARGETS
    if given.capture:
        need_torch("--capture")
    sizes = (given.prompt, given.tokens, given.batch, given.capture)
    studies = [Study(geometry, t, *sizes) for t in targets]
    figures = study(studies)
    print(text(figures))
    if given.json:
        _write(given.json, json.dumps(figures, indent=1) + "\n")
    if given.html:
        _write(given.html, page(figures))
    if given.png:
        from examples.llama3.pictures import pictures

        pictures(figures, given.png)
    if given.trace:
        _write(given.trace, json.dumps(studies[0].trace()))
    if given.update:
        _write(given.update, _updated(given.update, markdown(figures)))


def _updated(path: Path, section: str) -> str:
    try:
        before, marked, rest = path.read_text("utf-8").partition(BEGIN)
    except OSError as e:
        raise InputError(f"must be a readable file: {e.strerror}", str(path)) from e
    _, ended, after = rest.partition(END)
    if not marked or not ended:
        raise InputError(f"must hold '{BEGIN}' and '{END}'", str(path))
    return f"{before}{BEGIN}\n{section}\n{END}{after}"


def _write(path: Path, content: str) -> None:
    try:
        path.write_text(content, "utf-8")
    except OSError as e:
        raise InputError(f"must be writable: {e.strerror}", str(path)) from e


if __name__ == "__main__":
    sys.exit(main())
