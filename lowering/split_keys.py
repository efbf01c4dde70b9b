"""`split-keys`: attention of few queries goes through the keys in slices, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf, prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, UnitAttr, f32
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ge.dialects import dtypes
from ge.dialects.attributes import IntsAttr
from ge.dialects.fused.base import ViewOp, YieldOp
from ge.dialects.fused.ops import AttentionOp, RowwiseOp
from ge.dialects.graph.base import ConstantOp, GraphOp, shape_of, tensor, type_of
from ge.dialects.graph.module import functions_of
from ge.dialects.graph.ops.binary import DivOp, MulOp, SubOp
from ge.dialects.graph.ops.reduce import ReduceMaxOp, ReduceSumOp
from ge.dialects.graph.ops.unary import CastOp, ExpOp
from ge.dialects.npu import target as targets
from ge.dialects.npu.target import Target
from ge.lowering.kernels.attention import describe_attention
from ge.lowering.kernels.attention_tiling import attention_tilings
from ge.lowering.kernels.description import Description
from ge.lowering.kernels.region import place_of

SLICES = (32, 24, 16, 12, 8, 6, 4, 3, 2)
FEWEST = 64
"""Keys below which a slice is not worth while."""
KERNEL_CYCLES = 4000
"""What the kernel that joins the slices must save: it waits for all cores."""


@dataclass(frozen=True)
class SplitKeysPass(ModulePass):
    """Go through the keys of few queries in slices on all cores, and join the slices."""

    name = "split-keys"
    target: str = targets.DEFAULT

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = targets.load(self.target)
        found: dict[Description, int] = {}
        for kernel in [k for function in functions_of(op) for k in function.body.block.ops]:
            if isinstance(kernel, AttentionOp) and _may_split(kernel, machine):
                description = describe_attention(kernel)
                if description not in found:
                    found[description] = _slices(kernel, description, machine)
                if (slices := found[description]) > 1:
                    _replace(kernel, _sliced(kernel, slices))


def _may_split(kernel: AttentionOp, target: Target) -> bool:
    """Whether there are fewer queries than cores, all need all keys, and nobody chose tiles."""
    rows = prod(shape_of(kernel.out)[:-1])
    plain = kernel.reach is None and kernel.clear is None and kernel.partial is None
    return plain and kernel.tiling is None and rows < ROWS_MOST * target.cores


ROWS_MOST = 16
"""Queries for each core from which on they are enough for all of them."""


def _slices(kernel: AttentionOp, description: Description, target: Target) -> int:
    """The number of slices that is quickest; 1 leaves the keys together."""
    keys = shape_of(kernel.ins[1])[-2]
    best, chosen = _cycles(description, target), 1
    for slices in SLICES:
        if keys % slices or keys // slices < FEWEST:
            continue
        made = _sliced(kernel, slices)
        cycles = _cycles(describe_attention(made.kernel), target) + KERNEL_CYCLES
        made.erase()
        if cycles < best:
            best, chosen = cycles, slices
    return chosen


def _cycles(description: Description, target: Target) -> float:
    """Cycles of the best tiling."""
    return next((c.cycles for c in islice(attention_tilings(description, target), 1)), inf)


@dataclass(frozen=True)
class _Sliced:
    """An attention over slices of the keys that stands in no block yet."""

    views: Sequence[ViewOp]
    kernel: AttentionOp

    def erase(self) -> None:
        """Leave no reader behind of what it takes."""
        for op in (self.kernel, *self.views):
            op.erase()


def _sliced(kernel: AttentionOp, slices: int) -> _Sliced:
    """The attention of all queries to each slice, one behind the other in front of all axes."""
    q, k, v, *extras = kernel.ins
    scores = kernel.body.block.args[0]
    rank, keys = len(shape_of(scores)), shape_of(scores)[-1]
    views = [_view(q, rank, slices), _view(k, rank, slices, -2), _view(v, rank, slices, -2)]
    views += [
        _view(x, rank, slices, -1 if shape_of(x) and shape_of(x)[-1] == keys else None)
        for x in extras
    ]
    shape = (slices, *shape_of(scores)[:-1], keys // slices)
    types = [tensor(shape, type_of(scores).element_type), *(x.result.type for x in views[3:])]
    block = Block(arg_types=types)
    _again(kernel.body.block, block)
    sources = [s.data for s in kernel.sources]
    made = AttentionOp.of(
        kernel.kind.data,
        sources,
        [view.result for view in views],
        tensor((*shape[:-1], shape_of(v)[-1] + 2), f32),
        block,
        scale=kernel.scale,
        partial=UnitAttr(),
    )
    return _Sliced(views, made)


def _again(old: Block, new: Block) -> None:
    """The operations of a region on values of other shapes."""
    inside: dict[SSAValue, SSAValue] = dict(zip(old.args, new.args, strict=True))
    for op in old.ops:
        if isinstance(op, YieldOp):
            new.add_op(YieldOp(operands=[[inside[v] for v in op.values]]))
        elif isinstance(op, ConstantOp):
            copy = op.clone()
            new.add_op(copy)
            inside[op.out] = copy.out
        elif isinstance(op, GraphOp):
            made = op.make(*(v if v is None else inside[v] for v in op.arguments), **op.attrs)
            new.add_op(made)
            inside.update(zip(op.results, made.results, strict=True))


def _view(value: SSAValue, rank: int, slices: int, axis: int | None = None) -> ViewOp:
    """A view with an axis of slices in front of `rank` others: of `axis`, or the same for each."""
    place, shape = place_of(value), list(shape_of(value))
    strides = list(place.strides)
    pitch = 0
    if axis is not None:
        shape[axis] //= slices
        pitch = strides[axis] * shape[axis]
    missing = rank - len(shape)
    type_ = tensor((slices, *(1,) * missing, *shape), type_of(value).element_type)
    return _see(place.base, place.offset, (pitch, *(0,) * missing, *strides), type_)


def _see(base: SSAValue, offset: int, strides: Sequence[int], type_: TensorType) -> ViewOp:
    return ViewOp.create(
        operands=[base],
        properties={"offset": IntsAttr((offset,)), "strides": IntsAttr(tuple(strides))},
        result_types=[type_],
    )


def _replace(kernel: AttentionOp, sliced: _Sliced) -> None:
    """The slices, then `sum(e^(m - max m) o) / sum(e^(m - max m) l)` over them."""
    where = kernel.parent
    assert where is not None
    partial = sliced.kernel.out
    shape = shape_of(partial)
    wide, strides = shape[-1] - 2, place_of(partial).strides
    parts = [
        _see(partial, at, strides, tensor((*shape[:-1], n), f32))
        for at, n in ((0, wide), (wide, 1), (wide + 1, 1))
    ]
    block = Block(arg_types=[part.result.type for part in parts])
    values, largest, totals = block.args
    highest = ReduceMaxOp.make(largest, axes=(0,), keepdims=False)
    lowered = SubOp.make(largest, highest.results[0])
    weights = ExpOp.make(lowered.results[0])
    shares = [MulOp.make(v, weights.results[0]) for v in (values, totals)]
    sums = [ReduceSumOp.make(s.results[0], axes=(0,), keepdims=False) for s in shares]
    mixed = DivOp.make(*(s.results[0] for s in sums))
    dtype = dtypes.of_ir(type_of(kernel.out).element_type)
    cast = CastOp.make(mixed.results[0], to=dtype)
    block.add_ops([highest, lowered, weights, *shares, *sums, mixed, cast])
    block.add_op(YieldOp(operands=[[cast.results[0]]]))
    said = {"layout": kernel.layout} if kernel.layout else {}
    sources = [s.data for s in kernel.sources]
    ins = [part.result for part in parts]
    out = RowwiseOp.of(kernel.kind.data, sources, ins, kernel.out.type, block, **said)
    where.insert_ops_before([*sliced.views, sliced.kernel, *parts, out], kernel)
    kernel.out.replace_all_uses_with(out.out)
    Rewriter.erase_op(kernel)
