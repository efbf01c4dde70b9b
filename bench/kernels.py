"""Rows of measured kernels as programs of our compiler, built as the measured ones were."""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from xdsl.dialects.builtin import StringAttr

from examples.models import Net
from ge.codegen.objects import read_object, write_object
from ge.codegen.parse_asm import parse_asm
from ge.codegen.print_asm import print_asm
from ge.dialects.diagnostics import InputError
from ge.dialects.fused.base import FusedOp
from ge.dialects.npu import target as targets
from ge.dialects.npu.program import Program
from ge.lowering.hint_cache import HintCachePass
from ge.lowering.pipelines import Level, Options, passes
from ge.runtime.driver import Compilation, begin
from ge.runtime.source import Source

FOLDER = Path(__file__).parent
I8, F16, F32 = onnx.TensorProto.INT8, onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
Row = Mapping[str, str]
Table = dict[str, Any]

COLUMNS = ("id", "chip", "kernel", "shape", "dtype", "cores", "config", "total_us", "source")
"""What a table of measured kernels must have; columns of busy times may be missing."""


class NotEmitted(Exception):
    """The compiler emits no such kernel, or the row says something that is not understood."""


@dataclass(frozen=True)
class Kernel:
    """A model with one kernel, how it is tiled, and the machine that it is timed on."""

    model: Any
    """An ONNX model, or the text of a module."""
    tiling: str = ""
    machine: str = "compiled"
    stream: tuple[str, ...] = ()
    """Inputs that go past the second-level cache."""
    conflict: bool = False
    """Whether cores read the same operands in the same order, unstaggered."""
    apart: str = ""
    """Why the row is shown, but does not count: how the measured kernel is built otherwise."""


@dataclass(frozen=True)
class Prepared:
    """A row's program, ready to be timed under any parameters."""

    row: Row
    kernel: Kernel
    program: Program
    chip: str
    launch: str
    """The source, as far as it says what launching means."""


@cache
def structures() -> Table:
    """How the measured kernels were built."""
    return tomllib.loads((FOLDER / "configs.toml").read_text("utf-8"))


def described(row: Row, table: Table) -> Kernel:
    """A row's model and structure; raises NotEmitted."""
    family = next((f for f in FAMILIES if row["kernel"].startswith(f)), None)
    if family is None:
        raise NotEmitted(f"the compiler emits no kernel like '{row['kernel']}'")
    return FAMILIES[family](row, table)


def prepare(row: Row, table: Table) -> Prepared:
    """A row's kernel through text and object; raises NotEmitted or GeError."""
    kernel = described(row, table)
    chip = table["chip"].get(row["chip"])
    if chip is None:
        raise NotEmitted(f"no target stands for chip '{row['chip']}'")
    launch = row["source"].partition(" (")[0]
    if launch not in table["launch_us"]:
        raise NotEmitted(f"nothing says what launching means for source '{launch}'")
    options = Options(target=chip, cores=_cores(row, chip))
    compilation = _begun(kernel.model, options)
    compilation.lower_to(Level.FUSED)
    if kernel.tiling:
        for op in compilation.module.walk():
            if isinstance(op, FusedOp):
                op.properties["tiling"] = StringAttr(kernel.tiling)
    text = print_asm(_lowered(compilation, kernel))
    return Prepared(row, kernel, read_object(write_object(parse_asm(text)), "row"), chip, launch)


def _begun(model: Any, options: Options) -> Compilation:
    if not isinstance(model, str):
        return begin(Source(model), options)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.mlir"
        path.write_text(model, "utf-8")
        return begin(Source(path), options)


def _lowered(compilation: Compilation, kernel: Kernel) -> Program:
    """The program, hinted as a measured kernel: what it writes may stay in the cache."""
    hints = HintCachePass(stay=True, stream=kernel.stream)
    stages = passes(Level.FUSED, compilation.options)
    compilation.run([hints if isinstance(p, HintCachePass) else p for p in stages])
    compilation.level = Level.NPU
    return compilation.program()


def _cores(row: Row, chip: str) -> int:
    """Cores as the target counts them: vector units are named by pairs there, or as `1:2`."""
    numbers = re.findall(r"\d+", row["cores"])
    if not numbers:
        raise NotEmitted(f"'cores' must hold a number, got '{row['cores']}'")
    machine = targets.load(chip)
    count = int(numbers[0])
    if "aiv" in row["cores"]:
        count = -(-count // machine.vector_units)
    if not 1 <= count <= machine.cores:
        raise NotEmitted(f"'{chip}' must have the cores of the row, {count}")
    return count


# Models and tilings, one function a family


def _model(net: Net, inputs: Mapping[str, tuple[int, ...]], out: str, element: int) -> Any:
    return net.model(inputs, [out], 20, dict.fromkeys(inputs, element))


def _numbers(row: Row) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+(x\d+)+", row["shape"]):
        raise NotEmitted(f"a shape must be like 8192x8192, got '{row['shape']}'")
    return tuple(map(int, row["shape"].split("x")))


def _use(row: Row, table: Table, family: str) -> dict[str, Any]:
    """What the first entry says whose words all stand in the row's config or source."""
    for entry in table[family]:
        if all(word in f"{row['config']} {row['source']}" for word in entry["words"]):
            return dict(entry["use"])
    raise NotEmitted(f"no entry of '{family}' matches config '{row['config']}'")


def _matmul(row: Row, table: Table) -> Kernel:
    m, n, k = _numbers(row)
    if not row["dtype"].startswith("fp16"):
        raise NotEmitted(f"products of {row['dtype']} are not understood")
    if "CV" in row["config"]:
        raise NotEmitted("what the vector epilogue of the row computes is not known")
    use = _use(row, table, "gemm" if row["kernel"].startswith("gemm") else "matmul")
    net = Net()
    by_rows = use.get("b_by_rows", False)
    out = net("MatMul", "a", "b" if by_rows else net("Transpose", "b", perm=[1, 0]))
    if "fp32" in row["dtype"] or "fp32" in row["kernel"]:
        out = net("Cast", out, to=F32)
    model = _model(net, {"a": (m, k), "b": (k, n) if by_rows else (n, k)}, out, F16)
    words = row["config"]
    return Kernel(
        model,
        _product_tiling((m, n, k), words, use, table["base"]["block"]),
        machine=use["machine"],
        conflict=use.get("conflict", False),
    )


def _named(kind: str, words: str) -> tuple[int, ...] | None:
    found = re.search(rf"{kind} ?(\d+)x(\d+)x(\d+)", words)
    return tuple(map(int, found.groups())) if found else None


def _product_tiling(
    shape: tuple[int, ...], words: str, use: Mapping[str, Any], usual: list[int]
) -> str:
    """The clauses that give a product the row's blocks, loads and copies."""
    m, n, k = shape
    bm, bn, bk = _named("base", words) or usual
    loads_a, loads_b = use["loads"]
    block = [min(bm, m), min(bn, n)]
    inner = ""
    if staged := _named("L1", words):
        block = [min(staged[0], m), min(staged[1], n)]
        loads_a = loads_b = max(1, staged[2] // bk)
    share = _named("core", words)
    split = re.search(r"split(\d+)x(\d+)", words)
    parts = [int(p) for p in split.groups()] if split else use.get("split", [])
    cut = [ceil(e / p / b) * b for e, p, b in zip((m, n), parts, (bm, bn), strict=False)]
    if whole := share or cut:
        inner = f"inner m={block[0]} n={block[1]}"
        block = [min(whole[0], m), min(whole[1], n)]
    counts = {"a": loads_a, "b": loads_b}
    steps = sorted({bk * count for count in (loads_a, loads_b, 1)}, reverse=True)
    nest = " ".join(f"k={s}" for s in steps if s < k)
    clauses = [f"block m={block[0]} n={block[1]}", inner, f"nest acc {nest}" if nest else ""]
    clauses += [f"load {x} acc_k{bk * c}" for x, c in counts.items() if bk * c < k]
    clauses.append(f"copies a_l1={use['copies']} b_l1={use['copies']}")
    clauses += [f"pin {x} block" for x, c in counts.items() if bk * c >= k]
    if order := use.get("order"):
        clauses.append(f"order {order.replace('BASE', f'acc_k{bk}')}")
    return "; ".join(filter(None, clauses))


def _quantised(row: Row, table: Table) -> Kernel:
    """An integer product, then scales and GELU: as long as the vector unit was measured busy."""
    if row["dtype"] != "int8":
        raise NotEmitted(f"products of {row['dtype']} are not understood")
    text = quantised_product(_numbers(row))
    serial = re.search(r"CV serial 1:(\d)", row["config"])
    if not serial:
        return Kernel(text, apart="measured with four workspaces in device memory")
    # One workspace: the next block is handed over once this one is stored.
    tiling = "block m=128 n=256; nest acc k=512 k=128; load a acc_k512; load b acc_k512"
    order = f"chunk 0 m={32 * int(serial[1])}; order block mte3 fix"
    machine = "one_vector_unit" if serial[1] == "1" else "compiled"
    return Kernel(text, f"{tiling}; {order}", machine=machine)


def quantised_product(sizes: Sequence[int]) -> str:
    """The text of a product of 8-bit integers with all that follows it; sizes are M, N and K."""
    text = (FOLDER / "quantised_matmul.mlir").read_text("utf-8")
    for letter, extent in zip("MNK", sizes, strict=True):
        text = re.sub(rf"(?<=[<x ]){letter}(?=[x>])", str(extent), text)
    return text


def _add(row: Row, table: Table) -> Kernel:
    use = _use(row, table, "add")
    single = row["cores"] == "1aiv"
    units = 1 if single else targets.load().vector_units
    named = re.search(r"tile(\d+)", row["config"])
    tile = int(named[1]) if named else use["tile"]
    copies = use["copies"]
    net = Net()
    shape = _numbers(row)
    return Kernel(
        _model(net, {"a": shape, "b": shape}, net("Add", "a", "b"), F16),
        f"block d0={tile * units}; copies x0_ub={copies} x1_ub={copies} y={copies}",
        machine="one_vector_unit" if single else use["machine"],
        stream=tuple(use.get("stream", ())),
    )


def _gelu(row: Row, table: Table) -> Kernel:
    net = Net()
    out = net("Gelu", "a", approximate="tanh")
    return Kernel(_model(net, {"a": _numbers(row)}, out, F32))


def _copied_tile(row: Row) -> tuple[int, int]:
    found = re.search(r"(\d+)x(\d+)", row["config"])
    if not found:
        raise NotEmitted(f"the config of a copy must name a tile, got '{row['config']}'")
    return int(found[1]), int(found[2])


def _to_ub(row: Row, table: Table) -> Kernel:
    """The largest of each piece of a row: tiles are loaded as measured, what is stored is small.

    The last columns are left out, so that tiles are strided, and rows added to the same bytes.
    """
    height, width = _numbers(row)
    rows, columns = _copied_tile(row)
    small = rows * columns < 32768
    pieces = (width - 1) // columns
    height = height * width // (pieces * columns)
    element = "f16"
    if not (width % 2 or columns % 2):
        # The same bytes as half as many elements: the vector unit is done with them sooner.
        element, width, columns = "f32", width // 2, columns // 2
    times = re.search(r"x(\d+)", row["kernel"])
    repeats = int(times[1]) if times else 1
    hit = "L2 hit" in row["kernel"]
    chunks = table["copy"]["chunks"] if hit else 1
    ways = ("max", *("min",) * (repeats - 1)) if hit else ("max",)
    # What the vector unit does needs room beside a large tile: it comes in parts.
    tile = rows * targets.load().vector_units if small else rows // 2
    block = f"block {'d0=1 ' * (repeats > 1 and not hit)}d1={tile} d2=1"
    return Kernel(
        _pieces(
            (1 if hit else repeats, height // chunks, pieces, columns), width, element, chunks, ways
        ),
        f"{block}; copies x0_ub=4",
    )


def _pieces(
    shape: tuple[int, int, int, int], width: int, element: str, chunks: int, ways: Sequence[str]
) -> str:
    """A module that reduces the last dimension of each chunk in each of `ways`, all in turn."""
    _, height, _, columns = shape
    whole = f"tensor<{height}x{width}x{element}>"
    viewed = f"tensor<{'x'.join(map(str, shape))}x{element}>"
    small = f"tensor<{'x'.join(map(str, shape[:-1]))}x{element}>"
    lines, outs = [], []
    for chunk in range(chunks):
        strides = f"strides <0, {width}, {columns}, 1>"
        lines.append(f"%v{chunk} = fused.view %x{chunk} <0> {strides} : {whole} -> {viewed}")
        for number, way in enumerate(ways):
            outs.append(out := f"%y{chunk}_{number}")
            lines.append(
                f'{out} = fused.rowwise "Pieces"(%v{chunk}) attributes {{sources = ["pieces"]}} {{'
                f"\n^bb0(%t: {viewed}):"
                f"\n%r = graph.reduce_{way} %t {{axes = [3], keepdims = false}}"
                f" : ({viewed}) -> {small}"
                f"\nfused.yield %r : {small}\n}} : ({viewed}) -> {small}"
            )
    args = ", ".join(f"%x{i}: {whole}" for i in range(chunks))
    named = ", ".join(f'"x{i}"' for i in range(chunks))
    results = ", ".join([small] * len(outs))
    outputs = ", ".join(f'"y{i}"' for i in range(len(outs)))
    names = f"attributes {{input_names = [{named}], output_names = [{outputs}]}}"
    body = "\n".join([*lines, f"func.return {', '.join(outs)} : {results}"])
    return f"builtin.module {{\nfunc.func @main({args}) -> ({results}) {names} {{\n{body}\n}}\n}}\n"


def _to_l1(row: Row, table: Table) -> Kernel:
    """A matrix times a vector that stays in `l1`: the matrix is loaded once, tile by tile."""
    height, width = _numbers(row)
    rows, columns = _copied_tile(row)
    net = Net()
    out = net("MatMul", "a", net("Transpose", "b", perm=[1, 0]))
    return Kernel(
        _model(net, {"a": (height, width), "b": (1, width)}, out, F16),
        f"block m={rows} n=1; nest acc k={columns}; load a acc_k{columns}; copies a_l1=4",
    )


def _conv(row: Row, table: Table) -> Kernel:
    image, weights = (list(map(int, part[1:].split("x"))) for part in row["shape"].split())
    batch, groups, height, width, part = image
    net = Net()
    w = np.zeros((weights[1] * weights[2], groups * part, 3, 3), np.float16)
    # Between convolutions images have their channels last; the measured ones, in blocks of 16.
    out = net("Conv", net("Transpose", "x", perm=[0, 3, 1, 2]), w, pads=[1, 1, 1, 1])
    return Kernel(
        _model(net, {"x": (batch, height, width, groups * part)}, out, F16),
        _use(row, table, "conv")["tiling"],
    )


def _attention(row: Row, table: Table) -> Kernel:
    length, depth = map(int, re.findall(r"\d+", row["shape"])[:2])
    net = Net()
    scores = net("MatMul", "q", net("Transpose", "k", perm=[0, 2, 1]))
    scaled = net("Mul", scores, np.float16(depth**-0.5))
    out = net("MatMul", net("Softmax", scaled, axis=-1), "v")
    inputs = dict.fromkeys("qkv", (1, length, depth))
    return Kernel(
        _model(net, inputs, out, F16),
        _use(row, table, "attention")["tiling"],
        apart="measured with tiles of 128 x 256 scores, which fill the accumulators",
    )


FAMILIES: dict[str, Callable[[Row, Table], Kernel]] = {
    "matmul": _matmul,
    "gemm": _matmul,
    "quant grouped mm": _quantised,
    "add": _add,
    "gelu": _gelu,
    "copy GM->UB": _to_ub,
    "copy GM->L1": _to_l1,
    "conv2d 3x3": _conv,
    "flash attention": _attention,
}


def check_columns(names: list[str] | None, where: str) -> None:
    """Raise InputError for a table that lacks a column."""
    for column in COLUMNS:
        if column not in (names or ()):
            raise InputError(f"must have a column '{column}'", where)
