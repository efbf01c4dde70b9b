"""`hint-cache`: how much of each load and store reaches device memory.

A tensor that was touched a short while ago is in the second-level cache; what comes from device
memory is loaded from there once, however often the tiles need it. Time then depends on the hints
alone, never on addresses. Device memory is never charged less than each weight, input and output
once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.npu import target as targets
from ge.dialects.npu.axes import Axis
from ge.dialects.npu.isa.move import MISS_ALL
from ge.dialects.npu.ops import ChooseOp, InvokeOp, ProgramOp, RepeatOp, TensorOp
from ge.dialects.npu.target import Target
from ge.dialects.npu.tree import BufferOp, ForOp, KernelOp, MoveOp
from ge.dialects.npu.tree_types import HbmType
from ge.lowering.programs import Calls, programs_of
from ge.lowering.reuse import refetched
from ge.lowering.scopes import Scope, root, scopes

Tile = tuple[int, int]


@dataclass(frozen=True)
class HintCachePass(ModulePass):
    """Say of each load and store how much of it reaches device memory."""

    name = "hint-cache"
    stay: bool = False
    """What the program leaves may stay in the cache, where that has room for all its tensors."""
    stream: tuple[str, ...] = ()
    """Inputs that go past the cache and take no room in it."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in programs_of(op):
            self._hint(program)

    def _hint(self, program: ProgramOp) -> None:
        room = targets.load(program.target.data).cache_room
        cached = [t for t in program.body.block.ops if isinstance(t, TensorOp)]
        cached = [t for t in cached if not t.label or t.label.data not in self.stream]
        stays = self.stay and sum(t.bytes for t in cached) <= room
        _hint(program, room, stays)


def hint_kernel(kernel: KernelOp, cold: Container[int], cores: int, target: Target) -> None:
    """Hint one kernel's moves; `cold` are its operands that device memory delivers or takes."""
    _hint_kernel(kernel, cold, cores, target.cache_room)


def _hint_kernel(kernel: KernelOp, cold: Container[int], cores: int, room: int) -> None:
    for index, arg in enumerate(kernel.body.block.args):
        users = [u.operation for u in arg.uses]
        moves = [o for o in users if isinstance(o, MoveOp) and arg in (o.source, o.target)]
        _set(kernel, arg, moves, index in cold, cores, room)


def _hint(program: ProgramOp, room: int, stays: bool) -> None:
    kernels = {
        k.sym_name.data: k
        for k in program.body.block.ops
        if isinstance(k, KernelOp) and k.dims is not None
    }
    cold = _cold_operands(program, kernels, room, stays)
    for name, kernel in kernels.items():
        _hint_kernel(kernel, cold[name], program.cores.value.data, room)


def _cold_operands(
    program: ProgramOp, kernels: Mapping[str, KernelOp], room: int, stays: bool
) -> dict[str, set[int]]:
    """By kernel: the operands that some call has to fetch from, or leave in, device memory."""
    arena = program.arena.data[0] if program.arena else 0
    elements = {name: [_elements(a.type) for a in k.body.block.args] for name, k in kernels.items()}
    cache = _Cache(room, stays, arena > room, elements)
    cache.go_through(program.body.block)
    return cache.cold


def _elements(type_: Attribute) -> int:
    assert isinstance(type_, HbmType)
    return prod(type_.shape)


class _Cache(Calls):
    """What calls find in the cache, in the order in which they run."""

    def __init__(
        self, room: int, stays: bool, full: bool, elements: Mapping[str, Sequence[int]]
    ) -> None:
        self.elements = elements
        """How much of each of its arguments a kernel touches."""
        self.room = room
        self.stays = stays
        self.full = full
        """Whether the intermediates alone have no room."""
        self.cold: dict[str, set[int]] = defaultdict(set)
        self.touched: dict[TensorOp, int] = {}
        self.passed = 0

    def call(self, call: InvokeOp) -> None:
        name = call.callee.root_reference.data
        cold, written = self.cold[name], set()
        for index, value in enumerate(call.args):
            tensor = value.owner
            assert isinstance(tensor, TensorOp)
            away = tensor not in self.touched or self.passed - self.touched[tensor] > self.room
            leaves = not self.stays and (tensor.role.data == "output" or self.full)
            if leaves if index >= call.written else away:
                cold.add(index)
            if index >= call.written and name in self.elements:
                part = self.elements[name][index] * tensor.result.type.dtype.bytes
                if part < tensor.bytes and tensor not in self.touched:
                    # The rest of what is written in part comes from where it was.
                    written.add(tensor)
                    self.passed += part
        tensors = [v.owner for v in dict.fromkeys(call.args) if isinstance(v.owner, TensorOp)]
        tensors = [tensor for tensor in tensors if tensor not in written]
        self.passed += sum(tensor.bytes for tensor in tensors)
        self.touched.update(dict.fromkeys(tensors, self.passed))

    def choice(self, op: ChooseOp) -> None:
        """Behind two branches only that is known which both of them leave."""
        before, passed = dict(self.touched), self.passed
        self.go_through(op.then.block)
        then, longer = self.touched, self.passed
        self.touched, self.passed = before, passed
        self.go_through(op.otherwise.block)
        both = then.keys() & self.touched.keys()
        self.touched = {t: min(then[t], self.touched[t]) for t in both}
        self.passed = max(longer, self.passed)

    def loop(self, op: RepeatOp) -> None:
        self.go_through(op.body.block)


def _set(
    kernel: KernelOp, arg: SSAValue, moves: Iterable[MoveOp], cold: bool, cores: int, room: int
) -> None:
    """The hint of every move of one operand."""
    homes = {op: scope for scope in scopes(root(kernel)) for op in scope.block.ops}
    loads = [m for m in moves if m.source is arg]
    loaded = sum(_loaded(m, homes[m.target.owner], cores) for m in loads)
    fetched = max(
        (refetched(kernel, m, homes[m.target.owner], cores, room) for m in loads), default=1
    )
    type_ = arg.type
    assert isinstance(type_, HbmType)
    distinct = prod(n for n, s in zip(type_.shape, type_.strides, strict=True) if s)
    distinct *= max((m.extent.value.data for m in loads if m.extent), default=1)
    for move in moves:
        if not cold:
            miss = 0
        elif move.source is arg:
            miss = min(MISS_ALL, ceil(MISS_ALL * distinct * fetched / max(loaded, 1)))
        else:
            miss = MISS_ALL
        if miss != MISS_ALL:
            move.properties["miss"] = IntegerAttr(miss, i64)


def _loaded(move: MoveOp, home: Scope, cores: int) -> int:
    """Elements that all cores load together, remainders and borders exactly."""
    buffer, tensor = move.target.owner, move.source.type
    assert isinstance(buffer, BufferOp)
    assert isinstance(tensor, HbmType)
    tiles = _tiles(home)
    count = 1
    used: set[str] = set()
    for axis, n in zip(buffer.map.data, tensor.shape, strict=True):
        count *= _along(axis, n, tiles)
        used |= {d for d, _ in axis.terms}
    for dim, parts in tiles.items():
        if dim not in used:
            count *= len(parts)
    return count * (cores if home.parent is None else 1)


def _tiles(home: Scope) -> dict[str, list[Tile]]:
    """Offset and size of every tile of each dimension, as the loops above cut them.

    Of what decides whether a loop runs at all, only the last tile does.
    """
    path = home.path
    tiles: dict[str, list[Tile]] = {d: [(0, n)] for d, n in path[0].sizes.items()}
    for scope in path[1:]:
        assert isinstance(scope.op, ForOp)
        for dim, step in scope.op.steps.data:
            tiles[dim] = [
                (at + cut, min(step, size - cut))
                for at, size in tiles[dim]
                for cut in range(0, size, step)
            ]
        for dim in scope.guards:
            tiles[dim] = tiles[dim][-1:]
    return tiles


def _along(axis: Axis, n: int, tiles: dict[str, list[Tile]]) -> int:
    """Places of one axis that the tiles of its dimensions load, inside the tensor."""
    places = 0
    for parts in product(*(tiles[d] for d, _ in axis.terms)):
        low = high = axis.offset
        for (_, step), (at, size) in zip(axis.terms, parts, strict=True):
            ends = (step * at, step * (at + size - 1))
            low, high = low + min(ends), high + max(ends)
        places += max(0, min(high + 1, n) - max(low, 0))
    return places
