"""From a description and a tiling to a kernel's tree: nest, placement of loads, chunk loops.

The nest is common to all kernels: a loop over parallel tiles dealt to the cores, parallel loops
inside it, a sequential loop if there is one. A matrix statement has loops of its own over what it
sums; a vector statement has one that cuts its tile into chunks. A load stands in the outermost loop
inside which what it brings does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region

from ge.dialects.attributes import strings
from ge.dialects.dtypes import DType
from ge.dialects.npu.axes import Axes, Axis, dims_of, identity
from ge.dialects.npu.places import Space
from ge.dialects.npu.tree import (
    BufferOp,
    ForOp,
    KernelOp,
    MapAttr,
    MatrixOp,
    MoveOp,
    PairsAttr,
    TreeOp,
)
from ge.dialects.npu.tree_types import BufferType
from ge.lowering.kernels.description import (
    Description,
    DimKind,
    HandOver,
    Matrix,
    Operand,
    Value,
    Vector,
)
from ge.lowering.kernels.flow import first_of
from ge.lowering.kernels.tiling import Tiling, flows, tiled
from ge.lowering.scopes import Scope, root
from ge.lowering.tree_ops import kernel_op, move_op
from ge.lowering.vector_group import Group

Pairs = Sequence[tuple[str, int]]


def build_tree(
    description: Description, tiling: Tiling, name: str, sources: Sequence[str]
) -> KernelOp:
    """The kernel `name` as a tree, without copies, addresses and flags."""
    return Builder(tiled(description, tiling), tiling, name, sources).kernel


class Builder:
    """Builds one kernel: its loops, then the statements that stand in them."""

    def __init__(
        self, description: Description, tiling: Tiling, name: str, sources: Sequence[str]
    ) -> None:
        self.description = description
        self.tiling = tiling
        self.values: dict[str, Value] = dict(description.values)
        self.operands: dict[str, Operand] = {o.name: o for o in description.operands}
        self.results: dict[str, Operand] = {o.name: o for o in description.results}
        self.kernel = kernel_op(description, name, sources)
        self.root = root(self.kernel)
        tensors = (*description.operands, *description.results)
        self.args = {
            o.name: arg for o, arg in zip(tensors, self.kernel.body.block.args, strict=True)
        }
        self.buffers: dict[str, BufferOp] = {}
        self.homes: dict[BufferOp, Scope] = {}
        self.loads: dict[tuple[str, Space, Scope], BufferOp] = {}
        self.copies = dict(tiling.copies)
        self.vectors = 0
        self.flows = flows(description, tiling)
        self._build()

    def _build(self) -> None:
        d, tiling = self.description, self.tiling
        top = self.blocks()
        for dim, n in tiling.inner:
            top = self.loop(top, [(dim, n)], f"inner_{dim}")
        self.top = top
        steps = [(dim, tiling.sequential) for dim in d.dims_with(DimKind.SEQUENTIAL)]
        # One tile of it all needs no loop: then the blocks are what overlaps.
        whole = d.until is None and all(n >= d.extents[dim] for dim, n in steps)
        for first in d.init:
            self.vector(first, top, first.stage if whole else 0)
        main = self.main(top, [] if whole else steps)
        for statement in d.body:
            if isinstance(statement, Matrix):
                self.matrix(statement, main)
            elif isinstance(statement, HandOver):
                self.hand_over(statement, main)
            else:
                self.vector(statement, main, statement.stage)
        for last in d.final:
            self.vector(last, top, last.stage if steps and whole else tiling.final_stage)
        for product in d.matrices:
            if product.out in self.results:
                self.store(product.out, main, tiling.final_stage)

    def main(self, top: Scope, steps: Pairs) -> Scope:
        """Where the statements stand: the sequential loop, and parts that take turns in it."""
        main = self.loop(top, steps, "sequential") if steps else top
        if steps and self.description.until is not None:
            main.op.properties["until"] = MapAttr((self.description.until,))
        if self.flows:
            main.op.properties["flows"] = UnitAttr()
        within = self.tiling.within
        if not within:
            return main
        # What is loaded for the next piece must not wait for the vector unit's queue.
        parts = self.loop(main, within, "within", stage=int(self.flows))
        if self.flows:
            parts.op.properties |= {"flows": UnitAttr(), "oldest_first": UnitAttr()}
        return parts

    def blocks(self) -> Scope:
        """The loop over blocks, which are dealt to the cores."""
        d, tile = self.description, dict(self.tiling.block)
        said = list(tile)
        parallel = list(d.dims_with(DimKind.PARALLEL))
        parallel.sort(key=lambda dim: said.index(dim) if dim in tile else -1)
        needed = dims_of((d.until,)) if d.until else ()
        # Blocks of like cost follow each other, the costliest first: that fills the cores best.
        parallel.sort(key=lambda dim: dim not in needed)
        steps = [(dim, min(tile.get(dim, n), n)) for dim in parallel for n in (d.extents[dim],)]
        top = self.loop(self.root, steps, "block", cores=True)
        if d.until:
            top.op.properties["backwards"] = UnitAttr()
        return top

    # Placement

    def put(self, scope: Scope, op: TreeOp, stage: int, before: Operation | None = None) -> None:
        op.set_stage(stage)
        if before is None:
            scope.block.add_op(op)
        else:
            scope.block.insert_op_before(op, before)

    def loop(
        self, scope: Scope, steps: Pairs, label: str, *, stage: int = 0, cores: bool = False
    ) -> Scope:
        properties: dict[str, Attribute] = {
            "label": StringAttr(label),
            "steps": PairsAttr(tuple(steps)),
        }
        if cores:
            properties["cores"] = UnitAttr()
        if orders := [f"{first} {then}" for at, first, then in self.tiling.orders if at == label]:
            properties["orders"] = strings(orders)
        loop = ForOp.create(properties=properties, regions=[Region(Block())])
        self.put(scope, loop, stage)
        return scope.enter(loop)

    def buffer(self, label: str, axes: Axes, space: Space, dtype: DType, home: Scope) -> BufferOp:
        op = BufferOp.create(
            properties={"label": StringAttr(label), "map": MapAttr(axes)},
            result_types=[BufferType.of(space, dtype)],
        )
        if label in self.copies:
            op.properties["copies"] = IntegerAttr(self.copies[label], i64)
        self.put(home, op, 0, _statement_in(home))
        self.homes[op] = home
        return op

    def hoist(self, scope: Scope, operand: Operand) -> tuple[Scope, Operation | None]:
        """The outermost loop inside which the operand's region is the same, and what it holds."""
        below: Operation | None = None
        dims = set(operand.depends)
        while scope.parent and not dims & scope.cuts and not scope.guards:
            if (operand.name, scope.label) in self.tiling.pinned or _flows(below):
                break
            below, scope = scope.op, scope.parent
        return scope, below

    def fetch(
        self,
        operand: Operand,
        space: Space,
        use: Scope,
        stage: int,
        before: Operation | None,
        when: Axis | None = None,
    ) -> BufferOp:
        """The buffer an operand is loaded into; one load serves all uses at the same place."""
        home, below = self.hoist(use, operand)
        inside = home
        if isinstance(below, ForOp) and _flows(below):
            # The loop begins anew while the last one still ends: the load is a part of it.
            inside, when = home.enter(below), first_of(self.description)
            stage, before = 0, _statement_in(inside)
        elif isinstance(below, TreeOp):
            stage, before = below.stage_number, below
        key = (operand.name, space, home)
        if key not in self.loads:
            buffer = self.buffer(
                f"{operand.name}_{space}", operand.axes, space, operand.dtype, home
            )
            move = move_op(self.args[operand.name], buffer.result, operand.axes, operand.pad, when)
            self.put(inside, self.at_index(move, operand), stage, before)
            self.loads[key] = buffer
        return self.loads[key]

    # Statements

    def made_at(self, product: str) -> int:
        """The stage of a product."""
        return next(m.stage for m in self.description.matrices if m.out == product)

    def matrix(self, statement: Matrix, scope: Scope) -> None:
        stage = statement.stage
        value = self.values[statement.out]
        rows = tuple(d for d in value.dims if d in self.dims_of(statement.a))
        columns = tuple(d for d in value.dims if d not in rows)
        # The cube writes rows by columns, whatever order the value's dimensions have.
        sides = identity((*rows, *columns))
        acc = self.buffer(statement.out, sides, Space.L0C, value.dtype, scope)
        self.buffers[statement.out] = acc
        whole = tuple((d, scope.sizes[d]) for d in statement.over)
        nest = [scope]
        for dim, step in self.tiling.nest(statement.out, whole):
            if step < nest[-1].sizes[dim]:
                label = f"{statement.out}_{dim}{step}"
                outermost = nest[-1] is scope
                nest.append(
                    self.loop(nest[-1], [(dim, step)], label, stage=stage if outermost else 0)
                )
        a = self.side(statement, statement.a, Space.L0A, (*rows, *statement.over), nest)
        b = self.side(statement, statement.b, Space.L0B, (*statement.over, *columns), nest)
        product = MatrixOp.create(
            operands=[acc.result, a.result, b.result],
            properties={"over": strings(statement.over)},
        )
        self.put(nest[-1], product, stage if nest[-1] is scope else 0)

    def dims_of(self, name: str) -> tuple[str, ...]:
        return self.operands[name].dims if name in self.operands else self.values[name].dims

    def side(
        self, statement: Matrix, name: str, space: Space, dims: tuple[str, ...], nest: list[Scope]
    ) -> BufferOp:
        """One side of a product in its memory: staged in `l1`, then cut into the nest's tiles."""
        scope, inner = nest[0], nest[-1]
        if name in self.operands:
            want = dict(self.tiling.loads).get(name)
            path = inner.path
            at = next((s for s in path[1:] if s.label == want), scope)
            below = path[path.index(at) + 1].op if at is not inner else None
            stage = statement.stage - statement.ahead if at is scope else 0
            source = self.fetch(self.operands[name], Space.L1, at, stage, below)
        else:
            source = self.buffers[f"{name}@l1"]
        used = set(self.dims_of(name))
        home, before = inner, None
        while home is not scope and home.parent and not used & home.cuts:
            before, home = home.op, home.parent
        dtype = source.result.type.dtype
        tile = self.buffer(f"{name}_{space}", identity(dims), space, dtype, home)
        move = move_op(source.result, tile.result)
        self.put(home, move, statement.stage if home is scope else 0, before)
        return tile

    def vector(self, statement: Vector, scope: Scope, stage: int) -> None:
        number, self.vectors = self.vectors, self.vectors + 1
        at = self.chunked(statement, number, scope, stage)
        inside = stage if at is scope else 0
        group = Group(self, statement, scope, at, inside)
        for over, steps in groupby(statement.steps, key=lambda s: s.over):
            loop = at
            for dim in over:
                outermost = loop is at
                loop = self.loop(loop, [(dim, 1)], f"{dim}1", stage=inside if outermost else 0)
            for step in steps:
                group.step(step, loop, inside if loop is at else 0)
        for name in dict.fromkeys(s.out for s in statement.steps):
            if name in self.results:
                self.store(name, at, inside)
            if any(name in (m.a, m.b) for m in self.description.matrices):
                self.stage_in_l1(name, scope, at, inside)

    def chunked(self, statement: Vector, number: int, scope: Scope, stage: int) -> Scope:
        """Where a statement's steps stand: in a loop of their own where its tile comes in pieces.

        Or where some tiles go without it.
        """
        chunk = dict(self.tiling.chunks).get(number)
        more: dict[str, Attribute] = {"last": UnitAttr()} if statement.last else {}
        if statement.when is not None:
            more["when"] = MapAttr((statement.when,))
        if not more and (not chunk or chunk[1] >= scope.sizes[chunk[0]]):
            return scope
        at = self.loop(scope, [chunk] if chunk else [], f"chunk{number}", stage=stage)
        at.op.properties |= more
        return at

    def hand_over(self, statement: HandOver, scope: Scope) -> None:
        source, target = self.buffers[statement.source], self.tile(statement.out, scope)
        move = move_op(source.result, target.result, when=statement.when)
        self.put(scope, move, statement.stage)

    def tile(self, name: str, home: Scope) -> BufferOp:
        """The buffer of a value that statements make: what is carried outlives the loop at hand."""
        if name not in self.buffers:
            carried, value = name in self.description.carried, self.values[name]
            place = self.top if carried else home
            tile = self.buffer(name, identity(value.dims), Space.UB, value.dtype, place)
            if carried and self.flows and self.tiling.within:
                # A part of one tile is still there when others of the next one come.
                tile.properties["spread"] = UnitAttr()
            self.buffers[name] = tile
        return self.buffers[name]

    def store(self, name: str, scope: Scope, stage: int) -> None:
        result = self.results[name]
        move = move_op(self.buffers[name].result, self.args[name], result.axes)
        self.put(scope, self.at_index(move, result), stage)

    def at_index(self, move: MoveOp, tensor: Operand) -> MoveOp:
        """The move, where an operand says whereabouts in the tensor it goes."""
        indexed = tensor.indexed
        return move.at_index(self.args[indexed.by], *indexed[1:]) if indexed else move

    def stage_in_l1(self, name: str, scope: Scope, at: Scope, stage: int) -> None:
        """Hand a vector result over to the memory that the matrix unit reads."""
        value = self.values[name]
        staged = self.buffer(f"{name}_l1", identity(value.dims), Space.L1, value.dtype, scope)
        self.buffers[f"{name}@l1"] = staged
        self.put(at, move_op(self.buffers[name].result, staged.result), stage)


def _statement_in(scope: Scope) -> Operation | None:
    """The first operation of a scope that is no buffer."""
    return next((op for op in scope.block.ops if not isinstance(op, BufferOp)), None)


def _flows(op: Operation | None) -> bool:
    return isinstance(op, ForOp) and op.flows is not None
