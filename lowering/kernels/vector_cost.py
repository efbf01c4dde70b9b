"""What vector steps take on a tile, before there is any instruction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from ge.dialects.dtypes import F32, DType
from ge.dialects.npu.geometry import REPEAT_BYTES
from ge.dialects.npu.isa import INSTRS
from ge.dialects.npu.target import Target
from ge.lowering.accesses import FOLDS, REDUCE_RATE
from ge.lowering.kernels.description import Description, Step, Vector


class VectorCost:
    """Prices the vector statements of a kernel on tiles of any size."""

    def __init__(self, description: Description, target: Target) -> None:
        self._target = target
        self._order = list(description.extents)
        self._values = {name: (v.dims, v.dtype) for name, v in description.values}
        self._values |= {o.name: (o.dims, o.dtype) for o in description.operands}

    def cycles(self, statements: Iterable[Vector], sizes: Mapping[str, int]) -> float:
        """Busy cycles of all steps; a dimension that `sizes` does not have counts as 1.

        What tiles may go without counts nothing: most do.
        """
        steps = (step for v in statements for step in v.steps if step.when is None)
        return sum(self._step(step, sizes) for step in steps)

    def _step(self, step: Step, sizes: Mapping[str, int]) -> float:
        tiles = [self._values.get(name, ((), F32)) for name in (step.out, *step.ins)]
        dims = set(step.over).union(*(found for found, _ in tiles))
        dtype = tiles[-1][1]
        row = INSTRS[step.instr]
        item = self._target.rate(row.rate, dtype.name).item
        units = self._target.vector_units
        if row.rate == REDUCE_RATE and len(step.ins) > 1 and step.instr in FOLDS:
            return self._reduced(step, dims, sizes, dtype) / units
        run = self._run([set(found) for found, _ in tiles], dims, sizes)
        rows = prod(sizes.get(d, 1) for d in dims) // run
        return rows * -(-run * dtype.bytes // REPEAT_BYTES) * item / units

    def _run(self, tiles: list[set[str]], dims: set[str], sizes: Mapping[str, int]) -> int:
        """Elements that lie one behind the other in all tiles that change along them."""
        run, inner = 1, [d for d in reversed(self._order) if d in dims and sizes.get(d, 1) > 1]
        moving = [found for found in tiles if inner and inner[0] in found]
        for dim in inner:
            if not all(dim in found for found in moving):
                break
            run *= sizes[dim]
        return run

    def _reduced(self, step: Step, dims: set[str], sizes: Mapping[str, int], dtype: DType) -> float:
        """Rows folded to one repeat, which is then reduced."""
        kept = set(self._values[step.out][0])
        rows = prod(sizes.get(d, 1) for d in dims & kept)
        width = prod(sizes.get(d, 1) for d in dims - kept)
        repeats = -(-width * dtype.bytes // REPEAT_BYTES)
        fold = self._target.rate(INSTRS[FOLDS[step.instr]].rate, dtype.name).item
        last = self._target.rate(REDUCE_RATE, dtype.name).item
        return rows * ((repeats - 1) * fold + last)
