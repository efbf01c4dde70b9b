"""Writes the pages that are made from tables, or checks (`--check`) that they are fresh."""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from ge.codegen.manual import isa_page
from ge.dialects.graph.base import GraphOp
from ge.dialects.graph.kinds import REQUIRED, Kind
from ge.dialects.graph.ops import OPS
from ge.dialects.npu import target
from ge.lowering.fusions import FUSIONS
from ge.lowering.pipelines import PASSES, PIPELINES, load_pass

FOLDER = Path(__file__).parent
BENCH = FOLDER.parent / "bench"
_TABLE = re.compile(r"\[(.+)\]\s*(?:#\s*(.*))?").fullmatch
_VALUE = re.compile(r"(\w+) = (\"[^\"]*\"|[^#]*?)\s*(?:#\s*(.*))?").fullmatch


def targets_page() -> str:
    """How far the clock can be trusted, and every number of every target with its source."""
    parts = [
        _note("dialects/npu/targets and bench/fit.json"),
        "# Targets\n",
        "A number's source is the comment beside it: [D] vendor document or header, [M] measured "
        "and published, [F] fitted to measured kernels, [?] assumed. A target that inherits lists "
        "what it changes.\n",
        *_accuracy(),
    ]
    for name in sorted(target.names(), key=lambda n: (n != target.DEFAULT, n)):
        machine = target.load(name)
        calibrated = "calibrated" if machine.calibrated else "not calibrated"
        default = ", the default" if name == target.DEFAULT else ""
        parts.append(f"## {name}{default}\n\n{machine.description} ({calibrated}).\n")
        parts += _target_lines((target.FOLDER / f"{name}.toml").read_text("utf-8"))
    return "\n".join(parts)


def _accuracy() -> Iterator[str]:
    """What was fitted, what was set by hand, and the errors that are left."""
    fit = json.loads((BENCH / "fit.json").read_text("utf-8"))
    table = tomllib.loads((BENCH / "fit.toml").read_text("utf-8"))
    yield "## What the clock is worth\n"
    yield _claims(fit)
    yield "![Errors of the clock](fidelity-ascend910b1.png)\n"
    yield "Searched, within what is physically possible (`python bench/fit.py`):\n"
    yield "| parameter | value | least | most | what it is |\n|---|---|---|---|---|"
    for row in table["searched"]:
        low, high = row["range"]
        value = fit["parameters"][row["name"]]
        yield f"| `{row['name']}` | {value:g} | {low:g} | {high:g} | {row['why']} |"
    yield "\nSet by hand, with the measured kernels in view:\n\n| numbers | why |\n|---|---|"
    for row in table["by_hand"]:
        yield f"| {', '.join(f'`{key}`' for key in row['keys'])} | {row['why']} |"
    yield (
        "\nKeys of `bench.` stand in bench/configs.toml and belong to the measured kernels, not to "
        "the machine: what a source counts as launch, what its library costs the scalar unit. All "
        "other numbers are documented or measured one by one, or assumed where marked so.\n"
    )
    yield "\n".join(_left_out(fit))


def _claims(fit: dict[str, Any]) -> str:
    fitted, row, family = (fit[k] for k in ("fitted", "each_row_left_out", "each_family_left_out"))
    return (
        f"The clock is cycle-approximate. Its parameters are from public documents and open "
        f"measurements; of {len(fit['rows'])} published measurements of whole kernels on the 910B, "
        f"which the parameters were fitted to, it is {fitted['median']} % off in the median, "
        f"{fitted['mean']} % on average and {fitted['largest']} % at most. Rows that the fit did "
        f"not see are {row['median']} % off in the median ({row['largest']} % at most) when one is "
        f"left out, {family['median']} % ({family['largest']} %) when all kernels of one kind and "
        "source are.\n\n"
        "- `ascend910b1`: that accuracy may be claimed for matrix products, elementwise kernels, "
        "copies and convolutions of 50 us and more.\n"
        "- No accuracy may be claimed for kernels under 50 us: launching and filling decide there, "
        "and sources differ in what they count.\n"
        "- The images of the measured convolutions lie in blocks of 16 channels, those of the "
        "compiler have their channels last.\n"
        "- Attention is timed by the same rules, but not compared: measured kernels have other "
        "tiles than those emitted here (`python bench/fidelity.py` shows both times).\n"
        "- `ascend910b2`, `b3`, `b4` are the 910B1 with other sizes: single rows were measured on "
        "the first two, none on the last.\n"
        "- `ascend910a`: no accuracy may be claimed. No kernel of it has been compared.\n"
    )


def _left_out(fit: dict[str, Any]) -> Iterator[str]:
    """The errors row by row."""
    yield "| kernel | error % | left out alone % | left out with its kind % |\n|---|---|---|---|"
    for name, error in fit["rows"].items():
        alone, kind = fit["row_left_out"][name], fit["family_left_out"][name]
        yield f"| {name} | {error:+.1f} | {alone:+.1f} | {kind:+.1f} |"
    for name, why in fit["not_counted"].items():
        yield f"| {name} | not compared: {why} | | |"
    yield ""


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
