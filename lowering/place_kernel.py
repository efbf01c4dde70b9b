"""A tree that fits: tilings in order, loads moved inwards where memory is short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ge.dialects.diagnostics import DoesNotFit, InputError, UnsupportedError
from ge.dialects.npu.program import ELEMENTS_MOST
from ge.dialects.npu.target import Target
from ge.dialects.npu.tree import BufferOp, ForOp, KernelOp
from ge.lowering.build_tree import build_tree
from ge.lowering.choose_copies import Overflow, choose, hoisted_loads, rooms_of
from ge.lowering.kernels.description import Description
from ge.lowering.kernels.tiling import Tiling, check_tiling

MOVES = 16


class Placed(NamedTuple):
    """A tree that fits, and the tiling that it came out with."""

    kernel: KernelOp
    tiling: Tiling


def place(
    description: Description,
    target: Target,
    name: str,
    sources: Sequence[str],
    tilings: Iterable[Tiling],
) -> Placed:
    """The kernel's tree under the first tiling that fits with two copies of what units hand over.

    Where none leaves room for those, the first that fits at all. Raises DoesNotFit.
    """
    _check(description, target)
    first: Placed | None = None
    failure: DoesNotFit | None = None
    for tiling in tilings:
        try:
            placed = fitted(description, tiling, target, name, sources)
        except DoesNotFit as e:
            failure = failure or e
            continue
        if description.matrices or _roomy(placed.kernel, target):
            return placed
        first = first or placed
    if first is None:
        raise failure or DoesNotFit(f"kernel '{name}' ({description.kind}) has no tiling that fits")
    return first


def place_as(
    description: Description, target: Target, name: str, sources: Sequence[str], tiling: Tiling
) -> Placed:
    """The kernel's tree under a tiling that somebody wrote. Raises InputError or DoesNotFit."""
    _check(description, target)
    check_tiling(tiling, description)
    try:
        placed = fitted(description, tiling, target, name, sources)
    except DoesNotFit as e:
        advice = "the compiler says what a tiling leaves open only where that says 'chosen'"
        raise DoesNotFit(f"{e.message}; {advice}") from None
    _check_labels(tiling, placed.kernel)
    return placed


def _check(description: Description, target: Target) -> None:
    for dim in description.dims:
        if dim.extent > ELEMENTS_MOST:
            raise UnsupportedError(
                f"dimension '{dim.name}' must be at most {ELEMENTS_MOST} long, got {dim.extent}"
            )
    operands = {o.name: o.dtype for o in description.operands}
    for product in description.matrices:
        dtype = operands.get(product.a)
        if dtype and target.rate("mmad", dtype.name).unsupported:
            raise UnsupportedError(
                f"the cube of '{target.name}' must not be given {dtype}; use precision fp16"
            )


def _check_labels(tiling: Tiling, kernel: KernelOp) -> None:
    """Raise InputError where a tiling names a loop or a buffer that the kernel came out without."""
    loops = [op.label.data for op in kernel.walk() if isinstance(op, ForOp)]
    buffers = [op.label.data for op in kernel.walk() if isinstance(op, BufferOp)]
    named = [("loop", loop, loops) for _, loop in (*tiling.loads, *sorted(tiling.pinned)) if loop]
    named += [("loop", loop, loops) for loop, _, _ in tiling.orders]
    named += [("buffer", label, buffers) for label, _ in tiling.copies]
    for what, label, known in named:
        if label not in known:
            raise InputError(
                f"a tiling must name a {what} of the kernel ({', '.join(known)}), got '{label}'"
            )


def _roomy(kernel: KernelOp, target: Target) -> bool:
    copies = choose(kernel, target)
    return all(r.shared or copies[r.buffer] >= r.wanted for r in rooms_of(kernel))


def fitted(
    description: Description, tiling: Tiling, target: Target, name: str, sources: Sequence[str]
) -> Placed:
    """The tree of one tiling; while it overflows, the largest hoisted load moves one loop in."""
    for _ in range(MOVES):
        kernel = build_tree(description, tiling, name, sources)
        try:
            choose(kernel, target)
        except Overflow as e:
            loads = [x for x in hoisted_loads(e.rooms) if x[1:] not in tiling.pinned]
            if not loads:
                raise
            _, operand, loop = max(loads)
            tiling = tiling.with_pin(operand, loop)
            continue
        return Placed(kernel, tiling)
    raise DoesNotFit(f"kernel '{name}' ({description.kind}) does not settle")
