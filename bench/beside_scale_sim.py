"""The clock beside SCALE-Sim 3.0.0 on the same layers; takes minutes, all of them SCALE-Sim's.

`python bench/beside_scale_sim.py --python PYTHON [--json OUT]`, where PYTHON is that of an
environment with `scalesim==3.0.0` and `numpy<2`, which it needs. Both are timed on this machine,
one after the other, in processor time. SCALE-Sim is told of a systolic array of 16 x 16, weights
kept in place, with three memories of 256 KB and 16 words a cycle, and writes no traces; work that
is no product is left to us.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx
from measure import Figure, report
from timing_speed import TRIES, mlp, program_of, resnet_convolutions, seconds, transformer_gemms

TIMES = 1000
"""How much faster the clock should be."""
CONFIG = """[general]
run_name = layers
[architecture_presets]
ArrayHeight: 16
ArrayWidth: 16
IfmapSramSzkB: 256
FilterSramSzkB: 256
OfmapSramSzkB: 256
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Bandwidth: 16
Dataflow: ws
ReadRequestBuffer: 32
WriteRequestBuffer: 32
[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: 16
IfmapSRAMBankNum: 16
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: 16
FilterSRAMBankNum: 16
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport: false
SparseRep: ellpack_block
OptimizedMapping: false
BlockSize: 8
RandomNumberGeneratorSeed: 40
[run_presets]
InterfaceBandwidth: USER
UseRamulatorTrace: False
"""
LAYOUTS = 20
"""Columns of the file of layouts, which must be there and says nothing."""
LISTS = {
    "MLP 784-512-10": mlp,
    "convolutions of a small ResNet": resnet_convolutions,
    "GEMMs of a 2-layer transformer": transformer_gemms,
}


def main() -> None:
    """Take all figures."""
    parser = argparse.ArgumentParser(description="How fast the clock is beside SCALE-Sim.")
    parser.add_argument("--python", required=True, help="of an environment with scalesim, numpy<2")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    args = parser.parse_args()
    report(_figures(args.python), args.json)


def _figures(python: str) -> Iterator[Figure]:
    for name, make in LISTS.items():
        model = make()
        program = program_of(model)
        ours = min(seconds(program)[0] for _ in range(TRIES))
        theirs = scale_sim(python, model)
        yield Figure(f"{name}, ours", ours, "s")
        yield Figure(f"{name}, SCALE-Sim", theirs, "s")
        yield Figure(f"{name}, times faster", theirs / ours, "x", TIMES, at_least=True)


def scale_sim(python: str, model: onnx.ModelProto) -> float:
    """Seconds of processor time that SCALE-Sim takes for a model's layers."""
    kind, layers = layers_of(model)
    with tempfile.TemporaryDirectory() as folder:
        files = {"config.cfg": CONFIG, "topology.csv": _table(layers)}
        files["layout.csv"] = _table([(name, *[1] * LAYOUTS) for name, *_ in layers])
        for name, text in files.items():
            (Path(folder) / name).write_text(text, "utf-8")
        words = ["-c", "config.cfg", "-t", "topology.csv", "-l", "layout.csv"]
        command = [python, "-m", "scalesim.scale", *words, "-p", "out", "-i", kind, "-s", "N"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if "Run Complete" not in done.stdout:  # It ends with 0 where a file is wrong.
        sys.exit(f"SCALE-Sim must run to its end, got:\n{done.stdout[-500:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def layers_of(model: onnx.ModelProto) -> tuple[str, list[tuple[str | int, ...]]]:
    """The kind of list that SCALE-Sim reads, and its rows, of convolutions or of products."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
    shapes |= {t.name: list(t.dims) for t in graph.initializer}
    convs: list[tuple[str | int, ...]] = []
    gemms: list[tuple[str | int, ...]] = []
    for number, node in enumerate(graph.node):
        ins = [shapes[name] for name in node.input]
        if node.op_type == "Conv":
            attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            out, _, *kernel = ins[1]
            high, wide = (n + 2 * attrs["pads"][0] for n in ins[0][2:])
            row = (high, wide, *kernel, ins[0][1], out, attrs["strides"][0])
            convs.append((f"layer{number}", *row))
        elif node.op_type in ("MatMul", "Gemm"):
            (rows, inner), (_, columns) = ins[:2]
            gemms.append((f"layer{number}", rows, columns, inner))
    return ("conv", convs) if convs else ("gemm", gemms)


def _table(rows: list[tuple[str | int, ...]]) -> str:
    """Rows under a head that is not read; each ends with a comma."""
    head = ",".join(f"column{i}" for i in range(len(rows[0])))
    return "".join(f"{line},\n" for line in (head, *(",".join(map(str, r)) for r in rows)))


if __name__ == "__main__":
    main()
