"""Results that may lie where an operand lay that is read for the last time to make them.

A kernel allows it where each tile of the operand is loaded once, and what is stored lies exactly
where that tile lay: the load comes before the store, and no other tile reaches there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import TypeGuard

from xdsl.ir import SSAValue

from ge.dialects.npu.axes import dims_of, identity
from ge.dialects.npu.geometry import dense
from ge.dialects.npu.ops import InvokeOp, ProgramOp, TensorOp
from ge.dialects.npu.tree import BufferOp, ForOp, KernelOp, MoveOp
from ge.dialects.npu.tree_types import HbmType
from ge.lowering.lives import Life
from ge.lowering.scopes import Scope, root, scopes

Places = frozenset[tuple[int, int, int]]
"""An operand and a result by their places among a kernel's arguments, and their elements."""


def places_of(kernel: KernelOp) -> Places:
    """The operands and results of a kernel that may be one tensor."""
    loads: dict[int, list[tuple[MoveOp, Scope]]] = {}
    stores: dict[int, list[tuple[MoveOp, Scope]]] = {}
    numbers: dict[SSAValue, int] = {
        arg: number for number, arg in enumerate(kernel.body.block.args)
    }
    for scope in scopes(root(kernel)):
        for op in scope.block.ops:
            if isinstance(op, MoveOp):
                for value, moves in ((op.source, loads), (op.target, stores)):
                    if value in numbers:
                        moves.setdefault(numbers[value], []).append((op, scope))
    pairs = product(loads.items(), stores.items())
    return frozenset(
        (i, o, _elements(load[0][0])) for (i, load), (o, store) in pairs if _alike(load, store)
    )


def _elements(load: MoveOp) -> int:
    assert isinstance(load.source.type, HbmType)
    return prod(load.source.type.shape)


def _alike(loads: list[tuple[MoveOp, Scope]], stores: list[tuple[MoveOp, Scope]]) -> bool:
    """Whether the one load of an operand and the one store of a result walk the same places."""
    if len(loads) != 1 or len(stores) != 1:
        return False
    (load, inside), (store, around) = loads[0], stores[0]
    read, written = load.source.type, store.target.type
    buffer = load.target.owner
    if load.index is not None or not isinstance(buffer, BufferOp) or store.map is None:
        return False
    if not isinstance(read, HbmType) or not isinstance(written, HbmType):
        return False
    axes = buffer.map.data
    if axes != store.map.data or axes != identity(dims_of(axes)):
        return False
    if (read.shape, read.strides) != (written.shape, written.strides):
        return False
    if read.strides != dense(read.shape) or read.dtype.bytes != written.dtype.bytes:
        return False
    if not any(isinstance(scope.op, ForOp) and scope.op.cores is not None for scope in inside.path):
        return False  # Every core loads it, also behind the store of the one that has the tile.
    cut = {dim for at in (inside, around) for scope in at.path for dim in scope.cuts - at.once}
    return cut <= set(dims_of(axes))


def reused(
    program: ProgramOp, moments: Mapping[InvokeOp, int], lives: Mapping[TensorOp, Life]
) -> Iterator[tuple[TensorOp, TensorOp]]:
    """Intermediates whose bytes the result of the last call that reads them takes over.

    Calls inside branches and loops have places of their own for what they make.
    """
    kernels = {
        op.sym_name.data: op
        for op in program.body.block.ops
        if isinstance(op, KernelOp) and op.dims is not None
    }
    found: dict[str, Places] = {}
    for call in program.body.block.ops:
        if not isinstance(call, InvokeOp):
            continue
        moment = moments[call]
        name = call.callee.root_reference.data
        if name in kernels and name not in found:
            found[name] = places_of(kernels[name])
        for operand, result, elements in sorted(found.get(name, ())):
            old, new = call.args[operand].owner, call.args[result].owner
            if _ends(old, lives, moment) and _begins(new, lives, moment):
                once = [value.owner for value in call.args].count(old) == 1
                if once and all(prod(t.result.type.shape) == elements for t in (old, new)):
                    yield old, new
                    break


def _ends(tensor: object, lives: Mapping[TensorOp, Life], moment: int) -> TypeGuard[TensorOp]:
    return isinstance(tensor, TensorOp) and tensor in lives and lives[tensor].last == moment


def _begins(tensor: object, lives: Mapping[TensorOp, Life], moment: int) -> TypeGuard[TensorOp]:
    return isinstance(tensor, TensorOp) and tensor in lives and lives[tensor].first == moment
