"""The figures as tables: a title, then rows of which the first names the columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

GIB = 1 << 30
PREFILL_SAID = 1.85
"""How many times as fast as eager the vendor's engine is said to read a prompt."""
PIPELINE_SAID = 0.358
"""By how much its pipeline is said to raise throughput."""
Rows = Sequence[Sequence[str]]
Table = tuple[str, Rows]


def head(figures: dict[str, Any]) -> str:
    """What was compiled, and when."""
    size = figures["weights_bytes"] / GIB
    torch = " and ".join(f"{name} {version}" for name, version in figures["recorded"].items())
    return (
        f"{figures['model']} ({size:.1f} GiB in f16), {figures['date']}, "
        f"eager as recorded with {torch}"
    )


def tables(figures: dict[str, Any], kernels: bool = True) -> Iterator[Table]:
    """Every table; those of single kernels where they are asked for."""
    for target in figures["targets"]:
        known = "calibrated" if target["calibrated"] else "not calibrated"
        name = f"{target['target']} ({known})"
        if "does_not_fit" in target:
            yield _too_large(figures, target)
            continue
        yield from _times(figures, target, name)
        yield _memory(figures, target["memory"], name)
        if kernels:
            for part in ("generate", "prefill"):
                yield from _hottest(target[part], part, name)


def _too_large(figures: dict[str, Any], target: dict[str, Any]) -> Table:
    sizes = target["does_not_fit"]
    need, have = sizes["needs_bytes"], sizes["available_bytes"]
    rows = [
        ("", "bytes"),
        ("weights and keys and values need", f"{need:,}"),
        ("one device has", f"{have:,}"),
        ("devices that hold it", f"{-(-need // have)}"),
        ("one layer of a decode step", f"{target['decode_layer_us']:,.1f} us"),
    ]
    return f"{figures['model']} does not fit one {target['target']}", rows


def _times(figures: dict[str, Any], target: dict[str, Any], name: str) -> Iterator[Table]:
    prompt, tokens = figures["prompt"], figures["tokens"]
    generate, prefill = target["generate"], target["prefill"]
    yield f"Generating {tokens} tokens behind {prompt:,}, batch 1, {name}", _stages(generate)
    yield f"The same, by how fast the host dispatches, {name}", _dispatches(generate, tokens)
    use = prefill["cube_use"]
    what = f"Reading {prompt:,} tokens, batch 1, {name}, matrix units {use:.1%} of their peak"
    yield what, _stages(prefill, PREFILL_SAID)
    yield f"The same, by how fast the host dispatches, {name}", _dispatches(prefill, 1)


PRODUCTS = "native, its products alone"
TOO_MUCH = " (more than the memory)"
TITLES = ("stage", "us", "tokens/s", "times eager", "reduction", "of limit", "launches")


def _stages(table: dict[str, Any], said: float | None = None) -> Rows:
    rows = [TITLES]
    for stage in table["stages"]:
        rows.append(
            (
                stage["name"] + ("" if stage["fits"] else TOO_MUCH),
                f"{stage['us']:,.0f}",
                f"{stage['tokens_per_second']:,.1f}",
                f"x{stage['to_eager']:.2f}",
                f"{stage['reduction']:.1%}",
                f"{stage['of_limit']:.1%}",
                f"{stage['launches']:,}",
            )
        )
    if (products := table.get("products_us")) is not None:
        ratio = table["stages"][0]["us"] / products
        share = table["limit_us"] / products
        rows.append((PRODUCTS, f"{products:,.0f}", "", f"x{ratio:.2f}", "", f"{share:.1%}", ""))
    most = table["limit_to_eager"]
    rows.append(("limit", f"{table['limit_us']:,.0f}", "", f"x{most:.2f}", "", "100.0%", ""))
    if said is not None:
        rows.append(("said of the vendor's", "", "", f"x{said:.2f}", f"{1 - 1 / said:.1%}", "", ""))
    return rows


def _dispatches(table: dict[str, Any], times: int) -> Rows:
    rows: list[tuple[str, ...]] = [("us a dispatch", "eager us", "native to eager")]
    for row in table["host_dispatch"]:
        ratio = f"x{row['native_to_eager']:.2f}"
        rows.append((f"{row['host_dispatch_us']:g}", f"{row['eager_us'] * times:,.0f}", ratio))
    return rows


SIZES = {
    "weights_bytes": "weights",
    "cache_bytes": "keys and values",
    "activations_bytes": "activations",
    "activations_bound_bytes": "activations, least possible",
    "activations_no_reuse_bytes": "activations without reuse",
    "total_bytes": "in all",
    "available_bytes": "of the device",
}


def _memory(figures: dict[str, Any], memory: dict[str, Any], name: str) -> Table:
    rows = [("", "bytes", "GiB")]
    rows += [(what, f"{memory[k]:,}", f"{memory[k] / GIB:.2f}") for k, what in SIZES.items()]
    part = memory["activations_bytes"] / memory["activations_no_reuse_bytes"]
    layer = memory["layer_us"]
    most = layer["serial"] / layer["bound"] - 1
    gain = layer["serial"] / layer["pipeline"] - 1
    rows += [
        ("activations to those without reuse", f"x{part:.3f}", ""),
        ("a layer without pipeline", f"{layer['serial']:,.0f} us", ""),
        ("a layer with pipeline", f"{layer['pipeline']:,.0f} us", f"+{gain:.1%}"),
        ("a layer if each kernel ran at its bound", f"{layer['bound']:,.0f} us", f"+{most:.1%}"),
        ("said of the vendor's pipeline", "", f"+{PIPELINE_SAID:.1%}"),
    ]
    return f"Device memory, batch {memory['batch']}, {figures['prompt']:,} tokens, {name}", rows


def _hottest(table: dict[str, Any], part: str, name: str) -> Iterator[Table]:
    for stage in table["stages"]:
        rows = [("kernel", "first node", "times", "us", "share", "unit", "busy", "bound", "of it")]
        for row in stage["hottest"]:
            rows.append(
                (
                    row["kernel"],
                    row["first"],
                    f"{row['times']}",
                    f"{row['us']:,.1f}",
                    f"{row['share']:.1%}",
                    row["unit"],
                    f"{row['unit_use']:.0%}",
                    row["bound"],
                    f"{row['of_bound']:.0%}",
                )
            )
        yield f"Where the time goes: {part}, {stage['name']}, {name}", rows
