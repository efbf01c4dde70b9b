"""`split-sums`: a product with too few tiles for the cores is summed in slices, then added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ge.dialects import dtypes
from ge.dialects.attributes import IntsAttr
from ge.dialects.dtypes import F32
from ge.dialects.fused.base import ViewOp, YieldOp
from ge.dialects.fused.ops import MatMulOp, RowwiseOp
from ge.dialects.graph.base import shape_of, tensor, type_of
from ge.dialects.graph.module import functions_of
from ge.dialects.graph.ops.reduce import ReduceSumOp
from ge.dialects.graph.ops.unary import CastOp
from ge.dialects.npu import target as targets
from ge.dialects.npu.geometry import REPEAT_BYTES
from ge.dialects.npu.target import Target
from ge.lowering.kernels.description import Description
from ge.lowering.kernels.matmul import describe_matmul
from ge.lowering.kernels.product_tiling import shortest
from ge.lowering.kernels.region import place_of

SLICES = (24, 16, 12, 8, 6, 4, 3, 2)
SHORTEST = 256
"""Terms of a sum below which a slice is not worth while."""
KERNEL_CYCLES = 4000
"""What one kernel more must save: it waits for all cores, its first load and its last store."""


@dataclass(frozen=True)
class SplitSumsPass(ModulePass):
    """Sum thin products in slices on all cores, and add the slices in a kernel of its own."""

    name = "split-sums"
    target: str = "ascend910b1"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = targets.load(self.target)
        found: dict[Description, int] = {}
        for kernel in [k for function in functions_of(op) for k in function.body.block.ops]:
            if isinstance(kernel, MatMulOp) and _may_split(kernel):
                description = describe_matmul(kernel)
                if description not in found:
                    found[description] = _slices(kernel, description, machine)
                if (slices := found[description]) > 1:
                    _replace(kernel, _product(kernel, slices))


def _may_split(kernel: MatMulOp) -> bool:
    """Whether it sums floats, has elements, and nobody has chosen its tiles."""
    floats = dtypes.of_ir(type_of(kernel.ins[0]).element_type).is_float
    return floats and kernel.tiling is None and 0 not in shape_of(kernel.body.block.args[0])


def _slices(kernel: MatMulOp, description: Description, target: Target) -> int:
    """The number of slices that is quickest; 1 leaves the sum whole."""
    *batch, rows, columns = shape_of(kernel.body.block.args[0])
    depth = shape_of(kernel.ins[0])[-1]
    best, chosen = shortest(description, target), 1
    for slices in SLICES:
        if depth % slices or depth // slices < SHORTEST:
            continue
        product = _product(kernel, slices)
        elements = slices * prod(batch) * rows * columns
        cycles = shortest(describe_matmul(product.kernel), target) + KERNEL_CYCLES
        product.erase()
        cycles += max(
            2 * 4 * elements / target.bytes_per_cycle("l2_read"),
            _adding(elements, target),
        )
        if cycles < best:
            best, chosen = cycles, slices
    return chosen


def _adding(elements: int, target: Target) -> float:
    """Cycles of the sums on all vector units."""
    item = target.rate("varith", "f32").item
    lanes = REPEAT_BYTES // F32.bytes * target.vector_units * target.cores
    return item * elements / lanes


@dataclass(frozen=True)
class _Sliced:
    """A product in slices that stands in no block yet."""

    views: Sequence[ViewOp]
    kernel: MatMulOp

    def erase(self) -> None:
        """Leave no reader behind of what it multiplies."""
        for op in (self.kernel, *self.views):
            op.erase()


def _product(kernel: MatMulOp, slices: int) -> _Sliced:
    """The product over the slices of its sum, one behind the other in front of all axes, in f32."""
    acc = kernel.body.block.args[0]
    rank = len(shape_of(acc))
    a, b = kernel.ins[0], kernel.ins[1]
    views = [_sliced(a, rank, len(shape_of(a)) - 1, slices), _sliced(b, rank, -2, slices)]
    shape = (slices, *shape_of(acc))
    block = Block(arg_types=[tensor(shape, type_of(acc).element_type)])
    value: SSAValue = block.args[0]
    if type_of(acc).element_type != f32:
        cast = CastOp.make(value, to=F32)
        block.add_op(cast)
        value = cast.results[0]
    block.add_op(YieldOp(operands=[[value]]))
    sources = [s.data for s in kernel.sources]
    ins = [view.result for view in views]
    made = MatMulOp.of(kernel.kind.data, sources, ins, tensor(shape, f32), block)
    return _Sliced(views, made)


def _sliced(value: SSAValue, rank: int, axis: int, slices: int) -> ViewOp:
    """A view of an operand whose `axis` is cut into slices; they are the first of its axes."""
    place, shape = place_of(value), list(shape_of(value))
    strides = list(place.strides)
    length = shape[axis] // slices
    pitch = strides[axis] * length
    shape[axis] = length
    missing = rank - len(shape)
    type_: Attribute = tensor((slices, *(1,) * missing, *shape), type_of(value).element_type)
    return ViewOp.create(
        operands=[place.base],
        properties={
            "offset": IntsAttr((place.offset,)),
            "strides": IntsAttr((pitch, *(0,) * missing, *strides)),
        },
        result_types=[type_],
    )


def _replace(kernel: MatMulOp, product: _Sliced) -> None:
    """The slices, then their sum with what the kernel did behind its product."""
    where = kernel.parent
    assert where is not None
    where.insert_ops_before([*product.views, product.kernel], kernel)
    partial, acc = product.kernel.out, kernel.body.block.args[0]
    block = Block(arg_types=[partial.type, *(v.type for v in kernel.extras)])
    total = ReduceSumOp.make(block.args[0], axes=(0,), keepdims=False)
    block.add_op(total)
    value: SSAValue = total.results[0]
    assert isinstance(acc.type, TensorType)
    if acc.type.element_type != f32:
        cast = CastOp.make(value, to=dtypes.of_ir(acc.type.element_type))
        block.add_op(cast)
        value = cast.results[0]
    inside = {acc: value, **dict(zip(kernel.body.block.args[1:], block.args[1:], strict=True))}
    for op in kernel.body.block.ops:
        copy = op.clone(inside)
        block.add_op(copy)
        inside.update(zip(op.results, copy.results, strict=True))
    said = {"layout": kernel.layout} if kernel.layout else {}
    sources = [s.data for s in kernel.sources]
    ins = [partial, *kernel.extras]
    out = RowwiseOp.of(kernel.kind.data, sources, ins, kernel.out.type, block, **said)
    where.insert_op_before(out, kernel)
    kernel.out.replace_all_uses_with(out.out)
    Rewriter.erase_op(kernel)
