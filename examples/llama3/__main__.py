"""What each stage of the compiler is worth on Llama-3, beside what the machine allows.

`python -m examples.llama3 [--geometry 8b|3.2-1b|70b] [--target NAME] [--json OUT] [--html OUT]`.
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
from examples.llama3.page import page, text
from ge.dialects.diagnostics import GeError


def main() -> int:
    """Print the tables; write them where files are named."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.llama3",
        description="What each stage of the compiler is worth on Llama-3, without its weights.",
        epilog="example: python -m examples.llama3 --geometry 3.2-1b --html llama.html",
    )
    parser.add_argument("--geometry", choices=GEOMETRIES, default="8b")
    parser.add_argument("--target", default="ascend910b1", help="a target's name or TOML file")
    parser.add_argument("--prompt", type=int, default=2048, help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=50, help="tokens to generate")
    parser.add_argument("--batch", type=int, default=8, help="prompts at once, for memory")
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--html", type=Path, metavar="OUT", help="a page with the tables")
    given = parser.parse_args()
    if min(given.prompt, given.tokens, given.batch) < 1:
        parser.error("--prompt, --tokens and --batch must be 1 or more")
    try:
        study = Study(
            GEOMETRIES[given.geometry], given.target, given.prompt, given.tokens, given.batch
        )
        figures: dict[str, Any] = study.figures()
    except GeError as e:
        print(e, file=sys.stderr)
        return e.status
    print(text(figures))
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    if given.html:
        given.html.write_text(page(figures), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
