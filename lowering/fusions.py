"""The fusions: which kernels become one, under which name, and why a near match does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import Float64Type, FloatAttr, IntegerAttr, i64
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import Rewriter

from ge.dialects.attributes import IntsAttr
from ge.dialects.fused.base import FusedOp, ViewOp, YieldOp
from ge.dialects.fused.ops import (
    AttentionOp,
    ConcatOp,
    Conv2DOp,
    ElementwiseOp,
    GatherOp,
    MatMulOp,
    PoolOp,
    RowwiseOp,
)
from ge.dialects.graph.base import GraphOp, constant_of, shape_of, tensor, type_of
from ge.dialects.graph.ops import binary, norm
from ge.lowering.kernels.reducing_ops import REDUCING
from ge.lowering.kernels.region import place_of
from ge.lowering.merge_kernels import join, merge
from ge.lowering.reach import clear_of, reach_of

HEAD_MOST = 256
"""The widest head that an attention kernel keeps on the chip."""
OPERATORS_MOST = 64
"""The most operators of a kernel: its values must live on the chip, and joining copies them."""


@dataclass(frozen=True)
class Fusion:
    """One rule: kernels `first` whose result a kernel `then` reads become one kernel."""

    name: str
    does: str
    first: tuple[type[FusedOp], ...]
    then: tuple[type[FusedOp], ...]
    objection: Callable[[FusedOp, FusedOp], str | None]
    """Why two kernels of the right kinds must stay apart; None when nothing speaks against it.
    An empty answer means that they are no match at all."""
    build: Callable[[FusedOp, FusedOp, str], FusedOp] = merge
    renames: bool = True
    """Whether the kernel is called after the rule; it keeps its anchor's name otherwise."""
    within: bool = False
    """Whether both must stand for the same operator of the model."""

    def fuse(self, first: FusedOp, then: FusedOp) -> FusedOp:
        """The two as one kernel, in the place of `then`."""
        anchor = then if isinstance(then, RowwiseOp) else first
        return self.build(first, then, self.name if self.renames else anchor.kind.data)

    def refuses(self, first: FusedOp, then: FusedOp) -> str | None:
        """The reason against fusing, the general ones first; `` for what is no match."""
        if self.within and (not first.sources.data or first.sources != then.sources):
            return ""
        reason = self.objection(first, then)
        reason = _shared(first, then) if reason is None else reason
        return _long(first, then) if reason is None else reason


def _shared(first: FusedOp, then: FusedOp) -> str | None:
    """A value that something else needs must be stored, so nothing is won."""
    other = next((use.operation for use in first.out.uses if use.operation is not then), None)
    if other is None:
        return None
    if isinstance(other, ReturnOp):
        return "the value between is an output of the model"
    if isinstance(other, ViewOp):
        return "the value between is also read through a view"
    return "the value between has another reader"


def _long(first: FusedOp, then: FusedOp) -> str | None:
    count = len(first.body.block.ops) + len(then.body.block.ops) - 2
    return (
        f"they have {count} operators, {OPERATORS_MOST} at most" if count > OPERATORS_MOST else None
    )


def _contains(kernel: FusedOp, *kinds: type[GraphOp]) -> bool:
    return any(isinstance(op, kinds) for op in kernel.body.block.ops)


def _reduces(kernel: FusedOp) -> bool:
    return any(type(op) in REDUCING for op in kernel.body.block.ops)


def _same_shape(first: FusedOp, then: FusedOp) -> str | None:
    """An epilogue runs on the anchor's own tile."""
    if first.layout is not None:
        return "the value between is stored transposed"
    if shape_of(then.yielded) != shape_of(first.yielded):
        return f"the shape grows from {shape_of(first.yielded)} to {shape_of(then.yielded)}"
    return None


def _epilogue(first: FusedOp, then: FusedOp) -> str | None:
    if first.out in list(then.ins)[: then.ANCHOR_INS]:
        return ""
    return _same_shape(first, then)


NORMS = (norm.LayerNormalizationOp, norm.RMSNormalizationOp)


def _norm(first: FusedOp, then: FusedOp) -> str | None:
    rows, other = (then, first) if isinstance(then, RowwiseOp) else (first, then)
    if not _contains(rows, *NORMS) or not _contains(other, binary.AddOp):
        return ""
    if _both_reduce(first, then):
        return ""
    return _row_order(first, then)


def _softmax(first: FusedOp, then: FusedOp) -> str | None:
    rows = then if isinstance(then, RowwiseOp) else first
    if not _contains(rows, norm.SoftmaxOp) or _both_reduce(first, then):
        return ""
    return _row_order(first, then)


def _both_reduce(first: FusedOp, then: FusedOp) -> bool:
    return _reduces(first) and _reduces(then)


def _row_order(first: FusedOp, then: FusedOp) -> str | None:
    """Before the rows are reduced the shape must be the rows', behind it must stay."""
    if first.layout is not None:
        return "the value between is stored transposed"
    if isinstance(then, RowwiseOp):
        reducing = next(op for op in then.body.block.ops if type(op) in REDUCING)
        want = shape_of(reducing.operands[0])
        have = shape_of(first.yielded)
        return None if have == want else f"the rows are {want}, the value between is {have}"
    if len(then.ins) > 1 and _drops_inner_axis(first):
        return "the rows lose an axis in front of others, to which other operands are aligned"
    return _same_shape(first, then)


def _drops_inner_axis(kernel: FusedOp) -> bool:
    """Whether a reduction takes away an axis behind one that stays."""
    for op in kernel.body.block.ops:
        if isinstance(op, GraphOp) and (row := REDUCING.get(type(op))) is not None:
            rank = len(shape_of(op.operands[0]))
            gone = sorted(row.axes(op.attrs, rank))
            if len(shape_of(op.results[0])) < rank and gone != list(range(len(gone))):
                return True
    return False


def _reduction(first: FusedOp, then: FusedOp) -> str | None:
    if _reduces(first) == _reduces(then):
        return ""
    return _row_order(first, then)


def _chain(first: FusedOp, then: FusedOp) -> str | None:
    """Elementwise work may also grow by broadcasting what is small."""
    if first.layout is not None:
        return "the value between is stored transposed"
    if isinstance(first, ElementwiseOp):
        return None
    return _same_shape(first, then)


def _side_by_side(first: FusedOp, then: FusedOp) -> str | None:
    """What a concatenation puts together is elementwise and of one shape."""
    shapes = {shape_of(v) for v in then.ins}
    made = [v.owner for v in dict.fromkeys(then.ins)]
    if len(shapes) != 1 or not all(isinstance(kernel, ElementwiseOp) for kernel in made):
        return ""
    for kernel in made:
        assert isinstance(kernel, ElementwiseOp)
        if kernel.layout is not None or shape_of(kernel.yielded) != shape_of(kernel.out):
            return "the values between are stored transposed"
        if (reason := _shared(kernel, then)) is not None:
            return reason
    count = sum(len(kernel.body.block.ops) for kernel in made if isinstance(kernel, FusedOp))
    return f"they have {count} operators" if count > OPERATORS_MOST else None


# Attention


def _attention(first: FusedOp, then: FusedOp) -> str | None:
    """`first` is the softmax of a product, `then` the product of it with the values."""
    if first.out is not then.ins[0] or not _contains(first, norm.SoftmaxOp):
        return ""
    scores = _scores(first)
    if scores is None:
        return ""
    last = first.yielded.owner
    if not isinstance(last, norm.SoftmaxOp) or last.attrs["axis"] % len(shape_of(last.x)) != (
        len(shape_of(last.x)) - 1
    ):
        return "the softmax must be over the keys and come last"
    if scores.yielded is not scores.body.block.args[0] or scores.layout is not None:
        return "the scores must come straight from their product"
    if (reason := _shared(scores, first)) is not None:
        return reason.replace("the value between", "the score tensor")
    depth, wide = shape_of(scores.ins[0])[-1], shape_of(then.ins[1])[-1]
    if max(depth, wide) > HEAD_MOST:
        return f"heads must be at most {HEAD_MOST} wide, got {max(depth, wide)}"
    if type_of(last.x).element_type != type_of(scores.out).element_type:
        return "the scores must keep their type"
    if then.yielded is not then.body.block.args[0]:
        return "the product with the values must have nothing behind it yet"
    return None


def _scores(softmax: FusedOp) -> MatMulOp | None:
    """The product whose result the softmax kernel works on."""
    for value in softmax.ins:
        owner = value.owner
        if isinstance(owner, MatMulOp) and shape_of(value) == shape_of(softmax.out):
            return owner
    return None


def _build_attention(softmax: FusedOp, product: FusedOp, kind: str) -> FusedOp:
    """softmax(q . k^T) . v -> attention q, k, v; the region is what came before the softmax."""
    scores = _scores(softmax)
    assert scores is not None
    q, k = scores.ins[0], scores.ins[1]
    extras = [v for v in softmax.ins if v is not scores.out]
    block = Block(arg_types=[scores.out.type, *(v.type for v in extras)])
    inside: dict[SSAValue, SSAValue] = {}
    outside = dict(zip([scores.out, *extras], block.args, strict=True))
    for arg, value in zip(softmax.body.block.args, softmax.ins, strict=True):
        inside[arg] = outside[value]
    last = softmax.yielded.owner
    assert isinstance(last, norm.SoftmaxOp)
    for op in softmax.body.block.ops:
        if op is not last and not isinstance(op, YieldOp):
            copy = op.clone(inside)
            block.add_op(copy)
            inside.update(zip(op.results, copy.results, strict=True))
    block.add_op(YieldOp(operands=[[inside[last.x]]]))
    scale = _taken_scale(block)
    reach = reach_of(block, extras, *shape_of(scores.out)[-2:])
    where = product.parent
    assert where is not None
    keys = _turned(k)
    where.insert_op_before(keys, product)
    sources = [s.data for op in (scores, softmax, product) for s in op.sources]
    said: dict[str, Attribute] = {"layout": product.layout} if product.layout else {}
    if reach is not None:
        said["reach"] = IntegerAttr(reach, i64)
    op = AttentionOp.of(
        kind,
        sources,
        [q, keys.result, product.ins[1], *extras],
        product.out.type,
        block,
        scale=FloatAttr(scale, Float64Type()),
        **said,
    )
    if (clear := clear_of(op)) is not None:
        op.properties["clear"] = IntegerAttr(clear, i64)
    where.insert_op_before(op, product)
    product.out.replace_all_uses_with(op.out)
    for old in (product, softmax, scores):
        Rewriter.erase_op(old)
    return op


def _taken_scale(block: Block) -> float:
    """The number that the region multiplies the scores by first, which leaves it; else 1."""
    scores = block.args[0]
    uses = list(scores.uses)
    user = uses[0].operation if len(uses) == 1 else None
    if not isinstance(user, binary.MulOp):
        return 1.0
    factor = constant_of(user.operands[1 - uses[0].index])
    if factor is None or factor.size != 1 or shape_of(user.results[0]) != shape_of(scores):
        return 1.0
    user.results[0].replace_all_uses_with(scores)
    Rewriter.erase_op(user)
    return float(factor.reshape(-1)[0])


def _turned(value: SSAValue) -> ViewOp:
    """The last two axes the other way round."""
    place = place_of(value)
    shape = shape_of(value)
    *outer, a, b = range(len(shape))
    order = (*outer, b, a)
    return ViewOp.create(
        operands=[place.base],
        properties={
            "offset": IntsAttr((place.offset,)),
            "strides": IntsAttr(tuple(place.strides[i] for i in order)),
        },
        result_types=[tensor(tuple(shape[i] for i in order), type_of(value).element_type)],
    )


FUSIONS = (
    Fusion(
        "SoftmaxDropout",
        "Scale, mask and dropout around a softmax join it.",
        (ElementwiseOp, RowwiseOp),
        (RowwiseOp, ElementwiseOp),
        _softmax,
    ),
    Fusion(
        "Attention",
        "The product of queries and keys, its softmax and the product with the values are one.",
        (RowwiseOp,),
        (MatMulOp,),
        _attention,
        _build_attention,
    ),
    Fusion(
        "Conv2DBatchNorm",
        "What follows a convolution joins it: normalisation, activation, the residual.",
        (Conv2DOp,),
        (ElementwiseOp,),
        _epilogue,
    ),
    Fusion(
        "MatMulRelu",
        "What follows a product joins it: bias, activation, the residual.",
        (MatMulOp,),
        (ElementwiseOp,),
        _epilogue,
    ),
    Fusion(
        "LayerNormAdd",
        "An addition before or behind a layer norm joins it.",
        (ElementwiseOp, RowwiseOp),
        (RowwiseOp, ElementwiseOp),
        _norm,
    ),
    Fusion(
        "Reduction",
        "Elementwise work around a reduction of rows joins it.",
        (ElementwiseOp, RowwiseOp),
        (RowwiseOp, ElementwiseOp),
        _reduction,
        renames=False,
    ),
    Fusion(
        "Elementwise",
        "Elementwise kernels in a chain are one, also behind a pool or a gather.",
        (ElementwiseOp, PoolOp, GatherOp),
        (ElementwiseOp,),
        _chain,
        renames=False,
    ),
    Fusion(
        "Join",
        "Elementwise kernels of one shape write where a concatenation puts what they make.",
        (ElementwiseOp,),
        (ConcatOp,),
        _side_by_side,
        join,
    ),
)
"""In the order in which they are tried on the whole model."""
