"""The figures as text, and as a page without anything from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

GIB = 1 << 30
TITLES = ("stage", "us", "per second", "to eager", "of the limit", "launches")
REMARK = (
    "All figures are simulated: compiled for the target and timed by its clock, whose error is "
    "said in docs/targets.md. The limit is the larger of operations at the matrix units' peak "
    "and bytes at the memory's sustained rate."
)
Rows = Sequence[Sequence[str]]


def tables(figures: dict[str, Any]) -> Iterator[tuple[str, Rows]]:
    """Every table with its title; the first row holds the columns' names."""
    if "does_not_fit" in figures:
        yield _too_large(figures)
        return
    prompt, tokens = figures["prompt"], figures["tokens"]
    generate, prefill, memory = figures["generate"], figures["prefill"], figures["memory"]
    name = f"Generating {tokens} tokens behind {prompt:,}, batch 1 (tokens a second)"
    yield name, _stages(generate)
    yield "The same, by how fast the host dispatches kernels", _dispatches(generate, tokens)
    use = figures["prefill_cube_use"]
    name = f"Reading {prompt:,} tokens, batch 1 (matrix units {use:.0%} of their peak in the end)"
    yield name, _stages(prefill)
    yield "The same, by how fast the host dispatches kernels", _dispatches(prefill, 1)
    yield f"Device memory, batch {memory['batch']}, {prompt:,} tokens", _memory(memory)


def _too_large(figures: dict[str, Any]) -> tuple[str, Rows]:
    sizes = figures["does_not_fit"]
    need, have = sizes["needs_bytes"], sizes["available_bytes"]
    rows = [
        ("", "bytes"),
        ("weights and keys and values need", f"{need:,}"),
        ("one device has", f"{have:,}"),
        ("devices that hold it", f"{-(-need // have)}"),
        ("one layer of a decode step", f"{figures['decode_layer_us']:,.1f} us"),
    ]
    return f"{figures['model']} does not fit one {figures['target']}", rows


def _stages(table: dict[str, Any]) -> Rows:
    rows = [TITLES]
    for stage in table["stages"]:
        reduced = 1 - 1 / stage["to_eager"]
        rows.append(
            (
                stage["name"],
                f"{stage['us']:,.0f}",
                f"{stage['per_second']:,.1f}",
                f"x{stage['to_eager']:.2f} (-{reduced:.0%})",
                f"{stage['of_limit']:.0%}",
                f"{stage['launches']:,}",
            )
        )
    rows.append(("limit", f"{table['limit_us']:,.0f}", "", "", "100%", ""))
    return rows


def _dispatches(table: dict[str, Any], times: int) -> Rows:
    rows: list[tuple[str, ...]] = [("us a dispatch", "eager us", "native to eager")]
    for row in table["host_dispatch"]:
        ratio = f"x{row['native_to_eager']:.2f}"
        rows.append((f"{row['host_dispatch_us']:g}", f"{row['eager_us'] * times:,.0f}", ratio))
    return rows


def _memory(memory: dict[str, Any]) -> Rows:
    names = {
        "weights_bytes": "weights",
        "cache_bytes": "keys and values",
        "activations_bytes": "activations",
        "activations_bound_bytes": "activations, least possible",
        "activations_no_reuse_bytes": "activations without reuse",
        "total_bytes": "in all",
        "available_bytes": "of the device",
    }
    rows = [("", "bytes", "GiB")]
    rows += [(names[k], f"{memory[k]:,}", f"{memory[k] / GIB:.2f}") for k in names]
    gain = f"x{memory['pipeline_to_none']:.2f}"
    return [*rows, ("throughput with the pipeline", gain, "")]


def text(figures: dict[str, Any]) -> str:
    """The tables for a terminal."""
    lines = [_head(figures)]
    for title, rows in tables(figures):
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines += ["", title]
        for first, *rest in rows:
            cells = (c.rjust(w) for c, w in zip(rest, widths[1:], strict=True))
            lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join([*lines, "", REMARK])


def _head(figures: dict[str, Any]) -> str:
    known = "calibrated" if figures["calibrated"] else "not calibrated"
    size = figures["weights_bytes"] / GIB
    return (
        f"{figures['model']} ({size:.1f} GiB in f16) on {figures['target']} ({known}), "
        f"{figures['date']}"
    )


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; color: #222 }
table { border-collapse: collapse; margin: .5rem 0 1.5rem }
td, th { padding: .25rem .75rem; border-bottom: 1px solid #ddd; text-align: right }
td:first-child, th:first-child { text-align: left }
"""


def page(figures: dict[str, Any]) -> str:
    """The tables and a picture of the stages as one file of HTML."""
    parts = [f"<h1>{escape(_head(figures))}</h1>"]
    for key, title in (("generate", "Microseconds by stage, generating"), ("prefill", "Reading")):
        if key in figures:
            parts += [f"<h2>{title}</h2>", _bars(figures[key])]
    for title, rows in tables(figures):
        parts += [f"<h2>{escape(title)}</h2>", _html(rows)]
    parts.append(f"<p>{escape(REMARK)}</p>")
    title = escape(figures["model"])
    head = f"<meta charset='utf-8'><title>{title}</title><style>{STYLE}</style>"
    body = "".join(parts)
    return f"<!doctype html>\n<html lang='en'><head>{head}</head><body>{body}</body></html>\n"


def _html(rows: Rows) -> str:
    first, *rest = rows
    head = "".join(f"<th>{escape(c)}</th>" for c in first)
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rest)
    return f"<table><tr>{head}</tr>{body}</table>"


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
