"""Runs the ONNX files of a folder, beside onnxruntime; `python -m bench.real_models FOLDER`.

Each model has a process of its own. Its inputs are random, of the shapes that `real_models.toml`
names or of small ones; hazards are looked for. Nothing is downloaded: install or unpack packages
that hold models into the folder first.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any, NamedTuple

from bench.measure import module, write_json

KNOWN = Path(__file__).with_suffix(".toml")
RANKS = {3: (1, 16, 16), 4: (1, 3, 224, 224)}
"""What open dimensions of an input are, by its rank."""
LENGTH = 16
BELOW = 100
"""Integers are smaller than that: most are places in a table."""


class Row(NamedTuple):
    """How a model went; `said` is what it was refused with, or what went wrong."""

    model: str
    operators: int
    status: int = 70
    programs: int = 0
    compile_s: float = 0.0
    run_s: float = 0.0
    """Processor time of a run in which no hazards are looked for."""
    peak_mb: float = 0.0
    error: float = 0.0
    """The largest difference as a share of the largest number of an output."""
    said: str = ""

    def __str__(self) -> str:
        seconds = f"{self.compile_s:>9.2f}{self.run_s:>9.2f}{self.peak_mb:>9.0f}"
        line = f"{self.model:<44}{self.operators:>6}{self.status:>7}{self.programs:>6}{seconds}"
        return f"{line}{self.error:>10.1e}  {self.said}".rstrip()


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a model neither ran nor was refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="looked through for .onnx files, or one of them")
    parser.add_argument("words", nargs="*", help="run only files whose paths hold one of these")
    parser.add_argument("--precision", default="origin")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.inside:
        print(json.dumps(_measured(args.folder, args.precision)._asdict()))
        return 0
    files = [args.folder] if args.folder.is_file() else sorted(args.folder.rglob("*.onnx"))
    wanted = [f for f in files if not args.words or any(w in str(f) for w in args.words)]
    titles = f"{'compile':>8}{'run s':>9}{'peak MB':>9}{'error':>10}"
    print(f"{'model':<44}{'nodes':>6}{'status':>7}{'parts':>6} {titles}")
    rows = []
    for file in wanted:
        rows.append(_apart(file, args.precision))
        print(rows[-1], flush=True)
    write_json([row._asdict() for row in rows], args.json)
    return int(any(row.status not in (0, 4) for row in rows))


def _apart(file: Path, precision: str) -> Row:
    words = ("bench.real_models", file, "--inside", "--precision", precision)
    try:
        return Row(**json.loads(module(*words).output.splitlines()[-1]))
    except (CalledProcessError, ValueError, IndexError) as e:
        return Row(file.name, 0, said=f"the process failed: {e}"[:80])


def _measured(file: Path, precision: str) -> Row:
    import onnx

    from ge.dialects.diagnostics import GeError

    row = Row(file.name, len(onnx.load(file, load_external_data=False).graph.node))
    try:
        return _compared(row, file, precision)
    except GeError as e:
        return row._replace(status=e.status, said=e.message)


def _compared(row: Row, file: Path, precision: str) -> Row:
    from ge.lowering.pipelines import Options
    from ge.runtime.specialise import SpecialisedModel

    inputs, want = _expected(file)
    model = SpecialisedModel(file, Options(precision=precision))
    got, programs = model.follow(inputs, check_hazards=True)
    started = time.process_time()
    model.follow(inputs)
    run = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = sum(program.report.seconds for program in programs if program.report)
    return row._replace(
        status=0,
        programs=len(programs),
        compile_s=seconds,
        run_s=run,
        peak_mb=peak,
        error=max((_error(got[name], value) for name, value in want.items()), default=0.0),
    )


def _expected(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs for a model, and what onnxruntime gives for them; none where it cannot read it."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # On processors without VNNI its products of u8 by s8 saturate in 16 bits; ours are exact.
    options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        session = onnxruntime.InferenceSession(str(file), options)
    except Exception as e:  # onnxruntime's own kinds are many, and none of them are ours.
        print(f"onnxruntime: {e}", file=sys.stderr)
        return {}, {}
    rng, known = np.random.default_rng(0), _known(file)
    inputs = {i.name: _input(i, known, rng) for i in session.get_inputs()}
    names = [output.name for output in session.get_outputs()]
    return inputs, dict(zip(names, session.run(None, inputs), strict=True))


def _known(file: Path) -> dict[str, Any]:
    """What is known of a file's inputs."""
    for part, rows in tomllib.loads(KNOWN.read_text("utf-8")).items():
        if part in str(file):
            found: dict[str, Any] = rows[0]
            return found
    return {}


def _input(one: Any, known: dict[str, Any], rng: Any) -> Any:
    """An array for one of onnxruntime's inputs."""
    import numpy as np

    names = {"float": "float32", "double": "float64", "bool": "bool"}
    word = one.type.removeprefix("tensor(").removesuffix(")")
    dtype = np.dtype(names.get(word, word))
    rank = len(one.shape)
    usual = RANKS.get(rank, (1, *(LENGTH,) * rank)[:rank])
    pairs = zip(one.shape, usual, strict=True)
    declared = [n if isinstance(n, int) and n > 0 else d for n, d in pairs]
    shape = known.get("shapes", {}).get(one.name, declared)
    if (value := known.get("values", {}).get(one.name)) is not None:
        return np.asarray(value, dtype).reshape(shape)
    if dtype.kind == "f":
        return rng.random(shape).astype(dtype)
    if "mask" in one.name or dtype.kind == "b":
        return np.ones(shape, dtype)
    return rng.integers(0, known.get("below", BELOW), shape).astype(dtype)


def _error(got: Any, want: Any) -> float:
    import numpy as np

    want = np.asarray(want)
    assert got.shape == want.shape
    wide = want.astype(np.float64)
    difference = np.abs(got.astype(np.float64) - wide).max(initial=0.0)
    return float(difference / max(np.abs(wide).max(initial=0.0), 1e-30))


if __name__ == "__main__":
    sys.exit(main())
