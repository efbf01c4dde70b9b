"""Where the values of functions lie: in the tensors of those that call them, as far as those go.

What a function takes is where its caller has it. What a function gives it writes where its caller
wants it. So nothing is copied, but for what a loop hands from one trip to the next while the trip
still reads the old value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ge.dialects.diagnostics import InputError
from ge.dialects.fused.base import FusedOp, ViewOp
from ge.dialects.fused.ops import ElementwiseOp, HostOp, ScatterOp
from ge.dialects.graph.base import ConstantOp, shape_of
from ge.dialects.graph.module import return_of
from ge.lowering.kernels.region import dtype_of, place_of


@dataclass(frozen=True)
class Spot:
    """Bytes of a tensor from `offset` on, further on by `steps` with each trip of the loops around.

    The outermost loop comes first; loops that have no step do not move it.
    """

    tensor: SSAValue
    offset: int = 0
    steps: tuple[int, ...] = ()

    def further(self, offset: int) -> Spot:
        """The place some bytes behind this one."""
        return Spot(self.tensor, self.offset + offset, self.steps)

    def stepping(self, depth: int, offset: int, step: int) -> Spot:
        """The place that moves by `step` with each trip of the loop inside `depth` others."""
        zeros = (0,) * (depth - len(self.steps))
        return Spot(self.tensor, self.offset + offset, (*self.steps, *zeros, step))


def offset_of(value: SSAValue) -> int:
    """How many bytes behind the beginning of its storage a value begins."""
    return place_of(value).offset * dtype_of(value).bytes


def results_of(function: FuncOp) -> list[SSAValue]:
    """The storage of what a function gives: each written by it alone, from its beginning on.

    Raises InputError for a function that does not write all of it.
    """
    found: list[SSAValue] = []
    for value in return_of(function).arguments:
        base = place_of(value).base
        known = isinstance(base.owner, Operation) and (
            not isinstance(base.owner, ConstantOp) or 0 in shape_of(base)
        )
        if not known or offset_of(value) or base in found:
            name = function.sym_name.data
            raise InputError(f"'{name}' must give what its own kernels write, each value once")
        found.append(base)
    return found


def may_replace(function: FuncOp, argument: int, result: int) -> bool:
    """Whether a function may write a result over an argument, given by their numbers.

    Nothing may read the argument behind what first writes to the result's place; that itself may,
    if it reads each element where it writes one.
    """
    block = function.body.block
    first = place_of(return_of(function).arguments[result]).base
    order = places_in(block)
    while takes_over(first.owner, order):
        assert isinstance(first.owner, ScatterOp)
        first = first.owner.base
    maker = first.owner
    if not isinstance(maker, Operation) or isinstance(maker, ConstantOp):
        return False
    return _overwrites(maker, block.args[argument], order)


def places_in(block: Block) -> Mapping[Operation, int]:
    """The operations of a block by their order."""
    return {op: place for place, op in enumerate(block.ops)}


def takes_over(op: Operation | Block, order: Mapping[Operation, int]) -> bool:
    """Whether an operation changes, where it lies, a tensor that nobody reads afterwards."""
    if not isinstance(op, ScatterOp) or not isinstance(op.base.owner, FusedOp | HostOp):
        return False
    return _overwrites(op, op.base, order)


def _overwrites(maker: Operation, value: SSAValue, order: Mapping[Operation, int]) -> bool:
    """Whether a value is read no more once it is written over: by `maker` at most as it goes."""
    readers = list(_readers(value))
    if any(order[reader] > order[maker] for reader, _ in readers):
        return False
    own = [through for reader, through in readers if reader is maker]
    if isinstance(maker, ScatterOp) and maker.base is value:
        return len(own) == 1
    # One element alone is computed by all cores.
    in_place = (
        isinstance(maker, ElementwiseOp)
        and maker.layout is None
        and shape_of(maker.out) == shape_of(value)
        and prod(shape_of(value)) > 1
    )
    return not own or (in_place and not any(own))


def _readers(value: SSAValue) -> Iterator[tuple[Operation, bool]]:
    """What reads a value, and whether it does so through a view."""
    for use in value.uses:
        if isinstance(use.operation, ViewOp):
            yield from ((reader, True) for reader, _ in _readers(use.operation.result))
        else:
            yield use.operation, False
