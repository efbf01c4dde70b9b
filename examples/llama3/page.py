"""The figures as text, as Markdown, and as a page without anything from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from examples.llama3.tables import Rows, head, tables

REMARK = (
    "All figures are simulated: compiled for the target and timed by its clock. For `ascend910b1` "
    "that is within 9 % of the kernels it was fitted to, 2 % in the median; `ascend910a` is not "
    "calibrated (docs/targets.md). The limit is the larger of operations at the matrix units' peak "
    "and bytes at the memory's sustained rate. Eager is what torch launches, recorded, each "
    "operator a kernel tuned like any other, attention one of them."
)


def text(figures: dict[str, Any]) -> str:
    """The tables for a terminal."""
    lines = [head(figures)]
    for title, rows in tables(figures):
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines += ["", title]
        for first, *rest in rows:
            cells = (c.rjust(w) for c, w in zip(rest, widths[1:], strict=True))
            lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join([*lines, "", REMARK])


def markdown(figures: dict[str, Any]) -> str:
    """The first target's tables but for those of single kernels, as a section of a page."""
    lines = [head(figures)]
    first_only = {**figures, "targets": figures["targets"][:1]}
    for title, rows in tables(first_only, kernels=False):
        first, *rest = rows
        lines += ["", f"{title}:", "", _row(first), _row(["---", *["---:"] * (len(first) - 1)])]
        lines += map(_row, rest)
    return "\n".join([*lines, "", REMARK])


def _row(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; color: #222 }
table { border-collapse: collapse; margin: .5rem 0 1.5rem }
td, th { padding: .25rem .75rem; border-bottom: 1px solid #ddd; text-align: right }
td:first-child, th:first-child { text-align: left }
"""


def page(figures: dict[str, Any]) -> str:
    """The tables and pictures of the stages as one file of HTML."""
    parts = [f"<h1>{escape(head(figures))}</h1>", *_pictures(figures)]
    for title, rows in tables(figures):
        parts += [f"<h2>{escape(title)}</h2>", _html(rows)]
    parts.append(f"<p>{escape(REMARK)}</p>")
    title = escape(figures["model"])
    first = f"<meta charset='utf-8'><title>{title}</title><style>{STYLE}</style>"
    body = "".join(parts)
    return f"<!doctype html>\n<html lang='en'><head>{first}</head><body>{body}</body></html>\n"


def _pictures(figures: dict[str, Any]) -> Iterator[str]:
    for target in figures["targets"]:
        for key, title in (("generate", "Generating"), ("prefill", "Reading the prompt")):
            if key in target:
                yield f"<h2>{title}, microseconds by stage on {escape(target['target'])}</h2>"
                yield _bars(target[key])


def _html(rows: Rows) -> str:
    first, *rest = rows
    top = "".join(f"<th>{escape(c)}</th>" for c in first)
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rest)
    return f"<table><tr>{top}</tr>{body}</table>"


def _bars(table: dict[str, Any]) -> str:
    """Stages as bars, the limit as a line."""
    stages, width, high = table["stages"], 640, 28
    most = max(stage["us"] for stage in stages)
    limit = 150 + (width - 150) * table["limit_us"] / most
    rows = []
    for i, stage in enumerate(stages):
        long, at = (width - 150) * stage["us"] / most, i * high
        rows.append(
            f"<text x='0' y='{at + 19}'>{escape(stage['name'])}</text>"
            f"<rect x='150' y='{at + 4}' width='{long:.1f}' height='20' fill='#4a7ebb'/>"
            f"<text x='{156 + long:.1f}' y='{at + 19}'>{stage['us']:,.0f}</text>"
        )
    tall = len(stages) * high
    line = f"<line x1='{limit:.1f}' x2='{limit:.1f}' y1='0' y2='{tall}' stroke='#c33'/>"
    return (
        f"<svg viewBox='0 0 {width + 110} {tall}' width='{width + 110}' font-size='14'>"
        f"{''.join(rows)}{line}</svg>"
    )
