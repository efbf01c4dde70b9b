"""What vector steps take on a tile, before there is any instruction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, NamedTuple

from ge.dialects.dtypes import F32, DType
from ge.dialects.npu.geometry import REPEAT_BYTES
from ge.dialects.npu.isa import INSTRS
from ge.dialects.npu.target import Target
from ge.lowering.accesses import FOLDS, REDUCE_RATE
from ge.lowering.kernels.description import Description, Step, Vector


class _Pass(NamedTuple):
    """What steps have in common that go over the same dimensions of tiles of the same kind."""

    dims: tuple[str, ...]
    """The innermost first."""
    tiles: tuple[frozenset[str], ...]
    bytes: int
    """Of one element."""


class _Fold(NamedTuple):
    """A reduction: what stays, what goes, and what folding and the last step take."""

    kept: tuple[str, ...]
    gone: tuple[str, ...]
    bytes: int
    fold: float
    last: float


class VectorCost:
    """Prices the vector statements of a kernel on tiles of any size."""

    def __init__(self, description: Description, target: Target) -> None:
        self._target = target
        self._order = list(description.extents)
        self._values = {name: (v.dims, v.dtype) for name, v in description.values}
        self._values |= {o.name: (o.dims, o.dtype) for o in description.operands}
        self._sorted: dict[int, tuple[Vector, dict[_Pass, float], list[_Fold]]] = {}
        """By statement, which is kept with them: cycles a repeat of alike passes, and folds."""

    def cycles(self, statements: Iterable[Vector], sizes: Mapping[str, Any]) -> Any:
        """Busy cycles of all steps; a dimension that `sizes` does not have counts as 1.

        Sizes are numbers, or arrays of one for each of many tiles; so are the cycles. What tiles
        may go without counts nothing: most do.
        """
        total: Any = 0.0
        for statement in statements:
            known = self._sorted.get(id(statement))
            if known is None:
                known = self._sorted[id(statement)] = (statement, *self._sort(statement))
            _, passes, folds = known
            total += sum(_repeats(alike, sizes) * each for alike, each in passes.items())
            total += sum(_folded(fold, sizes) for fold in folds)
        return total / self._target.vector_units

    def _sort(self, statement: Vector) -> tuple[dict[_Pass, float], list[_Fold]]:
        """The steps, with all that does not depend on the sizes of tiles."""
        passes: dict[_Pass, float] = {}
        folds: list[_Fold] = []
        for step in (step for step in statement.steps if step.when is None):
            tiles = [self._values.get(name, ((), F32)) for name in (step.out, *step.ins)]
            dims = set(step.over).union(*(found for found, _ in tiles))
            dtype = tiles[-1][1]
            row = INSTRS[step.instr]
            if row.rate == REDUCE_RATE and len(step.ins) > 1 and step.instr in FOLDS:
                folds.append(self._fold(step, dims, dtype))
                continue
            order = tuple(d for d in reversed(self._order) if d in dims)
            alike = _Pass(order, tuple(frozenset(found) for found, _ in tiles), dtype.bytes)
            item = self._target.rate(row.rate, dtype.name).item
            passes[alike] = passes.get(alike, 0.0) + item
        return passes, folds

    def _fold(self, step: Step, dims: set[str], dtype: DType) -> _Fold:
        kept = set(self._values[step.out][0])
        return _Fold(
            tuple(dims & kept),
            tuple(dims - kept),
            dtype.bytes,
            self._target.rate(INSTRS[FOLDS[step.instr]].rate, dtype.name).item,
            self._target.rate(REDUCE_RATE, dtype.name).item,
        )


def _repeats(alike: _Pass, sizes: Mapping[str, Any]) -> Any:
    """Repeats of a pass: rows of elements that lie one behind the other in all tiles that move.

    Those move that have the innermost dimension whose size is not 1. Sizes may be arrays, so that
    there is arithmetic here in place of branches.
    """
    order = [(dim, sizes.get(dim, 1)) for dim in alike.dims]
    repeats = 1
    # From the outermost on: what lies further inside has the last word.
    for inside, (dim, n) in reversed(list(enumerate(order))):
        moving = [tile for tile in alike.tiles if dim in tile]
        count, run = 1, n
        for outer, more in order[inside + 1 :]:
            grows = (count == 1) if all(outer in tile for tile in moving) else False
            run = run * more**grows
            count = count * more ** (1 - grows)
        found = count * -(-run * alike.bytes // REPEAT_BYTES)
        repeats = repeats + (n != 1) * (found - repeats)
    return repeats


def _folded(fold: _Fold, sizes: Mapping[str, Any]) -> Any:
    """Rows folded to one repeat, which is then reduced."""
    rows = prod(sizes.get(d, 1) for d in fold.kept)
    width = prod(sizes.get(d, 1) for d in fold.gone)
    repeats = -(-width * fold.bytes // REPEAT_BYTES)
    return rows * ((repeats - 1) * fold.fold + fold.last)
