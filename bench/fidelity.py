"""Measured kernels beside what the clock says of the kernels that the compiler emits for them.

`python -m bench.fidelity [--csv FILE] [--json OUT]`: a row a measured kernel; the compiler's own
kernel for its shape, forced to the tiling that was measured where the row names one, assembled,
loaded and timed. Rows whose kernel the compiler does not emit are listed with the reason.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx

from examples.models import Net
from ge.codegen.objects import read_object, write_object
from ge.codegen.parse_asm import parse_asm
from ge.codegen.print_asm import print_asm
from ge.dialects.diagnostics import GeError
from ge.dialects.fused.ops import FusedOp
from ge.dialects.npu import target as targets
from ge.lowering.pipelines import Level, Options
from ge.runtime.driver import begin
from ge.runtime.simulator import simulate
from ge.runtime.source import Source

FOLDER = Path(__file__).parent
F16, F32 = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT


class NotEmitted(Exception):
    """The compiler emits no such kernel, or the row says something that is not understood."""


@dataclass(frozen=True)
class Kernel:
    """A model with one kernel, and how it is tiled: the compiler chooses where it is not said."""

    model: Any
    tiling: str = ""


@dataclass(frozen=True)
class Outcome:
    """One row: measured and predicted microseconds, or why there is no prediction."""

    id: str
    kernel: str
    measured: float
    predicted: float | None
    reason: str = ""

    @property
    def error(self) -> float | None:
        """Relative, in percent."""
        return None if self.predicted is None else 100 * (self.predicted / self.measured - 1)


def structures() -> dict[str, Any]:
    """How the measured kernels were built."""
    return tomllib.loads((FOLDER / "configs.toml").read_text("utf-8"))


# Models and tilings, one a family


def _model(net: Net, inputs: dict[str, tuple[int, ...]], out: str, element: int) -> Any:
    return net.model(inputs, [out], 17, dict.fromkeys(inputs, element))


def _matched(rule: dict[str, Any], words: str) -> Any:
    """What a family's table says of the first of its words that a config has."""
    known = (v for w, v in rule.items() if w not in ("base", "default") and w in words)
    return next(known, rule["default"])


def _matmul(row: dict[str, str], table: dict[str, Any]) -> Kernel:
    m, n, k = map(int, row["shape"].split("x"))
    if not row["dtype"].startswith("fp16"):
        raise NotEmitted(f"products of {row['dtype']} are not compiled from a model")
    net = Net()
    out = net("MatMul", "a", net("Transpose", "b", perm=[1, 0]))
    if "fp32" in row["dtype"] or "fp32" in row["kernel"]:
        out = net("Cast", out, to=F32)
    words = row["config"]
    rule = table.get(row["kernel"].partition("(")[0], table["matmul"])
    base = re.search(r"base(\d+)x(\d+)x(\d+)", words)
    core = re.search(r"(?:core|L1) (\d+)x(\d+)x(\d+)", words)
    bm, bn, bk = map(int, base.groups()) if base else rule["base"]
    loads_a, loads_b, copies = _matched(rule, words)
    block = f"block m={min(bm, m)} n={min(bn, n)}"
    if core:
        cm, cn, ck = map(int, core.groups())
        block = f"block m={min(cm, m)} n={min(cn, n)}; inner n={min(bn, cn)}"
        if "L1" in core[0]:
            block, loads_a = f"block m={min(cm, m)} n={min(cn, n)}", max(1, ck // bk)
            loads_b = loads_a
    steps = sorted({bk * loads_a, bk * loads_b, bk}, reverse=True)
    nest = " ".join(f"k={s}" for s in steps if s < k)
    places = [
        f"load {name} acc_k{bk * count}"
        for name, count in (("a", loads_a), ("b", loads_b))
        if bk * count < k
    ]
    parts = [block, *([f"nest acc {nest}"] if nest else []), *places]
    parts.append(f"copies a_l1={copies} b_l1={copies}")
    return Kernel(_model(net, {"a": (m, k), "b": (n, k)}, out, F16), "; ".join(parts))


def _add(row: dict[str, str], table: dict[str, Any]) -> Kernel:
    shape = tuple(map(int, row["shape"].split("x")))
    if "bypass" in row["config"] or "conflict" in row["config"]:
        raise NotEmitted("the compiler has no kernel that goes past L2 or avoids bank conflicts")
    if row["cores"] == "1aiv":
        raise NotEmitted("one vector unit of a core cannot be had alone")
    net = Net()
    rule = table["add"]
    tile, copies = _matched(rule, row["config"])
    units = targets.load("ascend910b1").vector_units
    kept = f"copies x0_ub={copies} x1_ub={copies} y={copies}"
    out = net("Add", "a", "b")
    return Kernel(
        _model(net, {"a": shape, "b": shape}, out, F16), f"block d0={tile * units}; {kept}"
    )


def _gelu(row: dict[str, str], table: dict[str, Any]) -> Kernel:
    shape = tuple(map(int, row["shape"].split("x")))
    net = Net()
    made = net("Mul", "a", np.float32(0.5**0.5))
    share = net("Add", net("Erf", made), np.float32(1))
    out = net("Mul", net("Mul", "a", share), np.float32(0.5))
    return Kernel(_model(net, {"a": shape}, out, F32))


def _conv(row: dict[str, str], table: dict[str, Any]) -> Kernel:
    image, weights = (list(map(int, part[1:].split("x"))) for part in row["shape"].split())
    batch, groups, height, width, part = image
    channels = groups * part
    out_channels = weights[1] * weights[2]
    net = Net()
    w = net.normal(out_channels, channels, 3, 3, scale=0.1).astype(np.float16)
    out = net("Conv", "x", w, pads=[1, 1, 1, 1])
    return Kernel(_model(net, {"x": (batch, channels, height, width)}, out, F16))


def _attention(row: dict[str, str], table: dict[str, Any]) -> Kernel:
    length, depth = map(int, re.findall(r"\d+", row["shape"])[:2])
    net = Net()
    scores = net("MatMul", "q", net("Transpose", "k", perm=[0, 2, 1]))
    scaled = net("Mul", scores, np.float16(depth**-0.5))
    out = net("MatMul", net("Softmax", scaled, axis=-1), "v")
    inputs = dict.fromkeys("qkv", (1, length, depth))
    return Kernel(_model(net, inputs, out, F16))


FAMILIES: dict[str, Callable[[dict[str, str], dict[str, Any]], Kernel]] = {
    "matmul": _matmul,
    "gemm": _matmul,
    "add": _add,
    "gelu": _gelu,
    "conv2d": _conv,
    "flash attention": _attention,
}


def predict(row: dict[str, str], table: dict[str, Any]) -> float:
    """Microseconds of a row's kernel through text and object; raises NotEmitted or GeError."""
    family = next((f for f in FAMILIES if row["kernel"].startswith(f)), None)
    if family is None:
        raise NotEmitted(f"the compiler emits no kernel like '{row['kernel']}'")
    if row["chip"] not in table["chip"]:
        raise NotEmitted(f"no target stands for chip '{row['chip']}'")
    kernel = FAMILIES[family](row, table)
    target = table["chip"][row["chip"]]
    machine = targets.load(target)
    cores = min(machine.cores, int(re.findall(r"\d+", row["cores"])[0]))
    compilation = begin(Source(kernel.model, {}, {}), Options(target=target, cores=cores))
    compilation.lower_to(Level.FUSED)
    if kernel.tiling:
        for op in compilation.module.walk():
            if isinstance(op, FusedOp):
                op.properties["tiling"] = _text(kernel.tiling)
    text = print_asm(compilation.program())
    program = read_object(write_object(parse_asm(text)), "kernel.o")
    stats = simulate(program, mode="timing").stats
    launch = table["launch_us"].get(row["source"].partition(" (")[0], machine.launch_us)
    return stats.us - machine.launch_us + float(launch)


def _text(words: str) -> Any:
    from xdsl.dialects.builtin import StringAttr

    return StringAttr(words)


def outcome(row: dict[str, str], table: dict[str, Any]) -> Outcome:
    """What the clock says of a row."""
    measured = float(row["total_us"])
    try:
        return Outcome(row["id"], row["kernel"], measured, predict(row, table))
    except (NotEmitted, GeError) as e:
        return Outcome(row["id"], row["kernel"], measured, None, str(e).partition("\n")[0])


def report(outcomes: Sequence[Outcome]) -> str:
    """The table, and the errors in all."""
    lines = [f"{'id':8}{'kernel':26}{'measured us':>14}{'predicted us':>14}{'error %':>9}"]
    for o in outcomes:
        figures = (
            f"{o.predicted:14.2f}{o.error:9.1f}" if o.predicted is not None else f"  {o.reason}"
        )
        lines.append(f"{o.id:8}{o.kernel[:25]:26}{o.measured:14.2f}{figures}")
    errors = sorted(abs(o.error) for o in outcomes if o.error is not None)
    if errors:
        within = sum(e <= 10 for e in errors)
        lines.append(
            f"{len(errors)} of {len(outcomes)} rows timed: median {median(errors):.1f} %, "
            f"{100 * within / len(errors):.0f} % within 10 %, largest {errors[-1]:.1f} %"
        )
    return "\n".join(lines)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path, default=FOLDER / "calibration.csv")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", help="comma-separated ids")
    options = parser.parse_args()
    with options.csv.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if options.only:
        rows = [r for r in rows if r["id"] in options.only.split(",")]
    outcomes = [outcome(row, structures()) for row in rows]
    print(report(outcomes))
    if options.json:
        found = [{**vars(o), "error": o.error} for o in outcomes]
        options.json.write_text(json.dumps(found, indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
