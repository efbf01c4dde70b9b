"""Two kernels as one: the second works on what the first makes before it is stored."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import Rewriter

from ge.dialects.fused.base import FusedOp, YieldOp
from ge.dialects.fused.ops import ConcatOp, JoinOp, RowwiseOp
from ge.lowering.kernels.region import Place, place_of


def merge(first: FusedOp, then: FusedOp, kind: str) -> FusedOp:
    """`then(first(a), b) -> fused(a, b)`, when nothing else reads the value between.

    The new kernel has the anchor of `first`, or that of `then` where `first` is elementwise and
    `then` reduces. It stands where `then` stood; both are gone.
    """
    anchor = then if isinstance(then, RowwiseOp) else first
    between = first.out
    ins = [*first.ins, *(v for v in then.ins if v is not between)]
    head = ins[: anchor.ANCHOR_INS]
    extras = list(dict.fromkeys(ins[anchor.ANCHOR_INS :]))
    body = _joined(first, then, head, extras)
    properties = {
        k: v
        for k, v in anchor.properties.items()
        if k not in ("kind", "sources", "layout", "tiling")
    }
    if then.layout:
        properties["layout"] = then.layout
    sources = [s.data for op in (first, then) for s in op.sources]
    merged = type(anchor).of(kind, sources, [*head, *extras], then.out.type, body, **properties)
    block = then.parent
    assert block is not None
    block.insert_op_before(merged, then)
    then.out.replace_all_uses_with(merged.out)
    Rewriter.erase_op(then)
    Rewriter.erase_op(first)
    return merged


def join(first: FusedOp, then: FusedOp, kind: str) -> FusedOp:
    """`concat(first(a), other(a, b)) -> join(a, b)`: all that is put together is one kernel.

    It stands where the concatenation stood, and looks once at what several of them see.
    """
    assert isinstance(then, ConcatOp)
    kernels = [value.owner for value in then.ins]
    seen: dict[tuple[Place, Attribute], SSAValue] = {}
    for kernel in kernels:
        assert isinstance(kernel, FusedOp)
        for value in kernel.ins:
            seen.setdefault((place_of(value), value.type), value)
    block = Block(arg_types=[value.type for value in seen.values()])
    outside = dict(zip(seen, block.args, strict=True))
    parts = []
    for kernel in kernels:
        assert isinstance(kernel, FusedOp)
        inside: dict[SSAValue, SSAValue] = {}
        for arg, value in zip(kernel.body.block.args, kernel.ins, strict=True):
            inside[arg] = outside[place_of(value), value.type]
        _copy(kernel, block, inside)
        parts.append(inside[kernel.yielded])
    block.add_op(YieldOp(operands=[parts]))
    sources = [s.data for op in (*kernels, then) if isinstance(op, FusedOp) for s in op.sources]
    said = {"layout": then.layout} if then.layout else {}
    made = JoinOp.of(kind, sources, [*seen.values()], then.out.type, block, axis=then.axis, **said)
    where = then.parent
    assert where is not None
    where.insert_op_before(made, then)
    then.out.replace_all_uses_with(made.out)
    Rewriter.erase_op(then)
    for kernel in dict.fromkeys(kernels):
        assert isinstance(kernel, FusedOp)
        Rewriter.erase_op(kernel)
    return made


def _joined(
    first: FusedOp, then: FusedOp, head: Sequence[SSAValue], extras: Sequence[SSAValue]
) -> Block:
    """The two regions one behind the other, over the operands of both."""
    made = [first.body.block.args[0].type] if first.ANCHOR_INS else []
    block = Block(arg_types=[*made, *(v.type for v in extras)])
    outside = dict(zip(extras, block.args[len(made) :], strict=True))
    inside: dict[SSAValue, SSAValue] = {}
    first_args = list(first.body.block.args)
    if made:
        inside[first_args.pop(0)] = block.args[0]
    inside |= {a: outside[v] for a, v in zip(first_args, first.extras, strict=True)}
    _copy(first, block, inside)
    passed = inside[first.yielded]
    for arg, value in zip(then.body.block.args, then.extras, strict=True):
        inside[arg] = passed if value is first.out else outside[value]
    _copy(then, block, inside)
    block.add_op(YieldOp(operands=[[inside[then.yielded]]]))
    return block


def _copy(kernel: FusedOp, block: Block, inside: dict[SSAValue, SSAValue]) -> None:
    for op in kernel.body.block.ops:
        if not isinstance(op, YieldOp):
            copy = op.clone(inside)
            block.add_op(copy)
            inside.update(zip(op.results, copy.results, strict=True))
