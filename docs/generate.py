"""Writes the pages that are made from tables, or checks (`--check`) that they are fresh."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path

from ge.codegen.manual import isa_page
from ge.dialects.graph.base import GraphOp
from ge.dialects.graph.kinds import REQUIRED, Kind
from ge.dialects.graph.ops import OPS
from ge.dialects.npu import target
from ge.lowering.fusions import FUSIONS
from ge.lowering.pipelines import PASSES, PIPELINES, load_pass

FOLDER = Path(__file__).parent
_TABLE = re.compile(r"\[(.+)\]\s*(?:#\s*(.*))?").fullmatch
_VALUE = re.compile(r"(\w+) = (\"[^\"]*\"|[^#]*?)\s*(?:#\s*(.*))?").fullmatch


def targets_page() -> str:
    """Every number of every target with its source: the comment beside it in the file."""
    parts = [
        _note("dialects/npu/targets"),
        "# Targets\n",
        "A number's source is the comment beside it: [D] vendor document or header, [M] measured "
        "and published, [F] fitted to measured kernels, [?] assumed. A target that inherits lists "
        "what it changes.\n",
    ]
    for name in sorted(target.names(), key=lambda n: (n != target.DEFAULT, n)):
        machine = target.load(name)
        calibrated = "calibrated" if machine.calibrated else "not calibrated"
        default = ", the default" if name == target.DEFAULT else ""
        parts.append(f"## {name}{default}\n\n{machine.description} ({calibrated}).\n")
        parts += _target_lines((target.FOLDER / f"{name}.toml").read_text("utf-8"))
    return "\n".join(parts)


def _target_lines(text: str) -> Iterator[str]:
    head = "| key | value | source |\n|---|---|---|"
    comments: list[str] = []
    open_table = False
    for line in text.splitlines():
        if line.startswith("#"):
            comments.append(line.removeprefix("#").strip())
        elif comments:
            yield "\n" * open_table + " ".join(comments) + "\n"
            comments, open_table = [], False
        if found := _TABLE(line):
            about = f" ({found[2]})" if found[2] else ""
            yield "\n" * open_table + f"### `{found[1]}`{about}\n\n{head}"
            open_table = True
        elif found := _VALUE(line):
            if not open_table:
                yield head
                open_table = True
            yield f"| `{found[1]}` | {found[2]} | {found[3] or ''} |"
    yield ""


def ops_page() -> str:
    """Every operator of the graph dialect: meaning, example, operands and attributes."""
    parts = [
        _note("dialects/graph/ops"),
        "# Operators\n",
        "The operators of the `graph` dialect, by family. They mean what the ONNX operator named "
        "in brackets means at its newest version; older models are brought up to it on import.\n",
    ]
    families: dict[str, list[type[GraphOp]]] = {}
    for op in OPS.values():
        families.setdefault(op.__module__, []).append(op)
    for module, ops in families.items():
        family = (inspect.getdoc(sys.modules[module]) or "").splitlines()[0]
        parts.append(f"## {family.rstrip('.')}\n")
        parts += [_operator(op) for op in ops]
    return "\n".join(parts)


def _operator(op: type[GraphOp]) -> str:
    lines = [f"### {op.name} ({op.ONNX})\n", inspect.getdoc(op) or "", ""]
    names = [_operand(op, name) for name in op.slots()]
    lines.append(f"Operands: {', '.join(names) or 'none'}.\n")
    if kinds := op.kinds():
        lines += ["| attribute | is | default |", "|---|---|---|"]
        lines += [f"| `{name}` | {kind.what} | {_default(kind)} |" for name, kind in kinds.items()]
        lines.append("")
    return "\n".join(lines)


def _operand(op: type[GraphOp], name: str) -> str:
    if name == op.variadic():
        return f"`{name}` (any number)"
    return f"`{name}` (may be absent)" if name in op.optional() else f"`{name}`"


def _default(kind: Kind) -> str:
    if kind.default is REQUIRED:
        return "must be given"
    return "absent" if kind.default is None else f"`{kind.text(kind.default)}`"


def passes_page() -> str:
    """The passes with their options, the pipelines made of them, and the fusions."""
    parts = [
        _note("lowering/pipelines.py and lowering/fusions.py"),
        "# Passes\n",
        "`ge-opt -p` takes passes and pipelines by commas; options stand in braces: "
        "`NAME{OPTION=VALUE}`.\n",
        "| pass | does | options |\n|---|---|---|",
    ]
    parts += [f"| `{name}` | {row.does} | {_options(name)} |" for name, row in PASSES.items()]
    parts.append("\n## Pipelines\n\n| pipeline | passes |\n|---|---|")
    parts += [f"| `{n}` | {', '.join(f'`{p}`' for p in row)} |" for n, row in PIPELINES.items()]
    parts.append("\n## Fusions\n")
    parts.append(
        "`fuse-kernels` applies them in this order; `fuse-kernels{off=NAME}` leaves one out."
    )
    parts.append("\n| fusion | does |\n|---|---|")
    parts += [f"| `{fusion.name}` | {fusion.does} |" for fusion in FUSIONS]
    return "\n".join(parts) + "\n"


def _options(name: str) -> str:
    return ", ".join(
        f"`{f.name}`" if f.default is MISSING else f"`{f.name}={f.default}`"
        for f in fields(load_pass(name))
        if f.name != "name"
    )


def _note(source: str) -> str:
    return f"<!-- Generated from {source} by docs/generate.py: do not edit. -->"


PAGES: dict[str, Callable[[], str]] = {
    "isa.md": isa_page,
    "targets.md": targets_page,
    "ops.md": ops_page,
    "passes.md": passes_page,
}


def main() -> int:
    """Write or check all pages; the exit status is 1 if a checked page is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, name stale pages")
    check = parser.parse_args().check
    stale = []
    for name, page in PAGES.items():
        path, text = FOLDER / name, page()
        if not path.is_file() or path.read_text("utf-8") != text:
            stale.append(name)
            if not check:
                path.write_text(text, "utf-8")
            print(f"docs/{name}: {'stale, run make docs' if check else 'written'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
