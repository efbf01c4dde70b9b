"""Every kernel of a program beside its operators in single precision: where the numbers go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ArrayAttr, FunctionType, StringAttr
from xdsl.dialects.func import ReturnOp

from ge.dialects.diagnostics import InputError
from ge.dialects.fused.base import FusedOp
from ge.dialects.graph.base import GraphOp
from ge.dialects.graph.control import ControlOp
from ge.dialects.graph.evaluate import evaluate
from ge.dialects.graph.module import input_names, main_of, output_names, return_of
from ge.lowering.pipelines import Level, Options
from ge.runtime.driver import Compilation, begin
from ge.runtime.source import Source

Array = NDArray[Any]

CAST = "Cast"
"""What casts that no node asks for are named after."""

WORST = {"fp16": 2e-2, "mixed": 2e-2, "bf16": 1e-1, "origin": 1e-3, "fp32": 1e-3}
"""How far a kernel may be off, as a share of the largest number, before it is called guilty."""


class Row(NamedTuple):
    """One kernel: its rule, the model's nodes in it, and how far its result is off."""

    kind: str
    nodes: tuple[str, ...]
    max_abs: float
    relative: float
    """The largest difference as a share of the largest number."""
    cosine: float
    overflows: bool
    """Whether a number became infinite that is not."""
    low: float
    high: float
    """The range of the numbers in single precision."""

    def __str__(self) -> str:
        over = f", OVERFLOW of [{self.low:.3g}, {self.high:.3g}]" if self.overflows else ""
        return (
            f"{self.kind} ({', '.join(self.nodes)}): max abs {self.max_abs:.2e}, relative "
            f"{self.relative:.2e}, cosine {self.cosine:.6f}{over}"
        )


@dataclass(frozen=True)
class Comparison:
    """The kernels in the order in which they run."""

    rows: tuple[Row, ...]
    worst: float
    unmatched: tuple[str, ...]
    """Kernels whose result no node of the model gives."""

    @property
    def guilty(self) -> Row | None:
        """The first kernel that overflows, or is off by more than `worst`."""
        return next((r for r in self.rows if r.overflows or not r.relative <= self.worst), None)

    def __str__(self) -> str:
        guilty = self.guilty
        last = f"first guilty: {guilty}" if guilty else f"none is off by more than {self.worst:g}"
        return "\n".join([*map(str, self.rows), last])


def compare(
    source: Source, options: Options, inputs: Mapping[str, Array], worst: float | None = None
) -> Comparison:
    """Run the model with every kernel watched, and its operators one by one in single precision."""
    want = _operators(source, options, inputs)
    rows, missing = [], []
    for kind, nodes, got in _kernels(source, options, inputs):
        last = max((want[n] for n in nodes if n in want), key=lambda v: v[0], default=None)
        if last is None or last[1].size != got.size:
            missing.append(f"{kind} ({', '.join(nodes)})")
        else:
            rows.append(_row(kind, nodes, got, last[1]))
    limit = WORST[options.precision] if worst is None else worst
    return Comparison(tuple(rows), limit, tuple(missing))


def _operators(
    source: Source, options: Options, inputs: Mapping[str, Array]
) -> dict[str, tuple[int, Array]]:
    """What each node of the model gives, and its place in their order."""
    compilation = begin(source, replace(options, precision="fp32"))
    if compilation.level is not Level.GRAPH:
        raise InputError("only a model of level 'graph' can be compared operator by operator")
    main = main_of(compilation.module)
    given = (inputs[name] for name in input_names(main))
    found: dict[str, tuple[int, Array]] = {}
    place = count()

    def watch(op: GraphOp | ControlOp, results: Sequence[Array]) -> None:
        at = next(place)
        found.update((name, (at, results[0])) for name in op.source.split(","))

    with np.errstate(all="ignore"):
        evaluate(main, list(given), watch)
    return found


def _kernels(
    source: Source, options: Options, inputs: Mapping[str, Array]
) -> Iterator[tuple[str, tuple[str, ...], Array]]:
    """What each kernel gives, those that only change types left out."""
    from ge.runtime.compiled import finish

    compilation = begin(source, options)
    compilation.lower_to(Level.FUSED)
    found = _watch(compilation)
    results = finish(compilation).run(inputs)
    for op, name in found:
        nodes = tuple(n for s in op.sources if (n := s.data) != CAST)
        result = results[name].astype(np.float32)
        if op.layout is not None:
            result = result.transpose(np.argsort(op.layout.data))
        if nodes:
            yield op.kind.data, nodes, result


def _watch(compilation: Compilation) -> list[tuple[FusedOp, str]]:
    """Make every kernel's result an output of the model; their names in order."""
    main = main_of(compilation.module)
    last = return_of(main)
    names = dict(zip(last.arguments, output_names(main), strict=True))
    values = list(last.arguments)
    found: list[tuple[FusedOp, str]] = []
    for op in main.body.block.ops:
        if not isinstance(op, FusedOp):
            continue
        if op.out not in names:
            names[op.out] = f"kernel{len(found)}"
            values.append(op.out)
        found.append((op, names[op.out]))
    main.body.block.erase_op(last)
    main.body.block.add_op(ReturnOp(*values))
    types = [v.type for v in main.body.block.args], [v.type for v in values]
    main.properties["function_type"] = FunctionType.from_lists(*types)
    main.attributes["output_names"] = ArrayAttr([StringAttr(names[v]) for v in values])
    return found


def _row(kind: str, nodes: tuple[str, ...], got: Array, want: Array) -> Row:
    a, b = got.astype(np.float64).reshape(-1), want.astype(np.float64).reshape(-1)
    known = np.isfinite(b)
    overflows = bool((~np.isfinite(a) & known).any())
    difference = np.abs(np.where(np.isfinite(a), a, 0) - b)[known].max(initial=0.0)
    largest = np.abs(b[known]).max(initial=0.0)
    size = float(np.linalg.norm(a[known]) * np.linalg.norm(b[known]))
    cosine = float(a[known] @ b[known]) / size if size and np.isfinite(size) else float(size == 0)
    share = float(difference / largest) if largest else float(difference)
    low, high = (float(f(b[known], initial=0.0)) for f in (np.min, np.max))
    return Row(kind, nodes, float(difference), share, cosine, overflows, low, high)
