"""The `fused` dialect: one operation is one kernel of the device.

Each has an anchor, the work that shapes its loops, and a region of `graph` operations that runs on
the anchor's result before it is stored. Tensors are whole; there is no memory and no loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from ge.dialects.attributes import IntsAttr


@irdl_op_definition
class YieldOp(IRDLOperation):
    """What the kernel stores."""

    name = "fused.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$values attr-dict `:` type($values)"


@irdl_op_definition
class ViewOp(IRDLOperation):
    """
    The elements of a tensor that lie `strides` apart from `offset` on; it costs nothing.

    ```mlir
    %t = fused.view %x <0> strides <1, 8> : tensor<4x8xf16> -> tensor<8x4xf16>
    ```
    """

    name = "fused.view"
    source = operand_def(TensorType)
    offset = prop_def(IntsAttr)
    strides = prop_def(IntsAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$source $offset `strides` $strides attr-dict `:` type($source) `->` type($result)"
    )


CHANNELS_LAST = (0, 2, 3, 1)
"""The layout that stores all channels of a place of an image side by side."""


class FusedOp(IRDLOperation):
    """A kernel: its operands, the anchor's first, and the region on what the anchor makes."""

    ANCHOR_INS: ClassVar[int] = 0
    """Operands that the anchor takes; its result is then the region's first argument."""

    kind = prop_def(StringAttr)
    """What the kernel is called in reports: the name its fusion has."""
    sources = prop_def(ArrayAttr[StringAttr])
    layout = opt_prop_def(IntsAttr)
    """The result's axis i is axis `layout[i]` of what the region yields: a transpose for free."""
    tiling = opt_prop_def(StringAttr)
    """Tile sizes and placements that somebody chose; the compiler chooses them otherwise."""
    ins = var_operand_def(TensorType)
    out = result_def(TensorType)
    body = region_def("single_block")
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$kind `(` $ins `)` attr-dict-with-keyword $body `:` functional-type($ins, $out)"
    )

    @classmethod
    def of(
        cls,
        kind: str,
        sources: Sequence[str],
        ins: Sequence[SSAValue],
        out: Attribute,
        body: Block,
        **properties: Attribute,
    ) -> Self:
        """The kernel over a body whose block is made already."""
        named: dict[str, Attribute] = {
            "kind": StringAttr(kind),
            "sources": ArrayAttr([StringAttr(s) for s in dict.fromkeys(sources)]),
            **properties,
        }
        return cls.create(
            operands=list(ins), properties=named, result_types=[out], regions=[Region(body)]
        )

    @property
    def extras(self) -> Sequence[SSAValue]:
        """Operands of the region alone."""
        return list(self.ins)[self.ANCHOR_INS :]

    @property
    def yielded(self) -> SSAValue:
        """What the region gives to store."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last.values[0]

    def verify_(self) -> None:
        want = len(self.extras) + bool(self.ANCHOR_INS)
        have = len(self.body.block.args)
        if want != have:
            raise VerifyException(f"{self.name}: its region must take {want} values, got {have}")
        if not isinstance(self.body.block.last_op, YieldOp):
            raise VerifyException(f"{self.name}: its region must end with fused.yield")
        if (type_ := self.laid_out(self.computed())) != self.out.type:
            raise VerifyException(f"{self.name}: must give {type_}, got {self.out.type}")

    def computed(self) -> Attribute:
        """The type of what is stored, before it is laid out."""
        return self.yielded.type

    @property
    def channels_last(self) -> bool:
        """Whether the result is an image that is stored place by place."""
        return self.layout is not None and self.layout.data == CHANNELS_LAST

    def in_layout(self, layout: Sequence[int]) -> Self:
        """This kernel, which must stand in no block yet, its result's axes in another order."""
        body = self.body.detach_block(0)
        properties = {**self.properties, "layout": IntsAttr(tuple(layout))}
        out = _laid_out(self.out.type, layout)
        ins = list(self.ins)
        self.erase()
        return self.create(
            operands=ins,
            properties=properties,
            result_types=[out],
            regions=[Region(body)],
        )

    def laid_out(self, type_: Attribute) -> Attribute:
        """The type of the result when a value of `type_` is stored in the kernel's layout."""
        return type_ if self.layout is None else _laid_out(type_, self.layout.data)


def _tensor(value: SSAValue) -> tuple[Attribute, list[int]]:
    """The element type and the shape of a tensor."""
    assert isinstance(value.type, TensorType)
    return value.type.element_type, list(value.type.get_shape())


def _laid_out(type_: Attribute, layout: Sequence[int]) -> Attribute:
    assert isinstance(type_, TensorType)
    shape = type_.get_shape()
    return TensorType(type_.element_type, [shape[i] for i in layout])


@irdl_op_definition
class ElementwiseOp(FusedOp):
    """Every element of the result from the elements at its place."""

    name = "fused.elementwise"


@irdl_op_definition
class RowwiseOp(FusedOp):
    """Elementwise, with reductions over some axes: a tile always spans those."""

    name = "fused.rowwise"


@irdl_op_definition
class MatMulOp(FusedOp):
    """The product of the last two axes of two tensors, batch by batch; batches broadcast."""

    name = "fused.matmul"
    ANCHOR_INS: ClassVar = 2


@irdl_op_definition
class Conv2DOp(FusedOp):
    """A convolution of images, channels second; `pads` are top, left, bottom, right."""

    name = "fused.conv2d"
    ANCHOR_INS: ClassVar = 2
    strides = prop_def(IntsAttr)
    pads = prop_def(IntsAttr)
    dilations = prop_def(IntsAttr)
    group = prop_def(IntegerAttr[I64])


@irdl_op_definition
class PoolOp(FusedOp):
    """The largest element (`max`) or the sum (`sum`) of each window of a batch of images."""

    name = "fused.pool"
    ANCHOR_INS: ClassVar = 1
    reduction = prop_def(StringAttr)
    window = prop_def(IntsAttr)
    strides = prop_def(IntsAttr)
    pads = prop_def(IntsAttr)
    dilations = prop_def(IntsAttr)


@irdl_op_definition
class AttentionOp(FusedOp):
    """
    Softmax of `q . k^T * scale`, row by row, times `v`.

    The region works on the scaled scores; what it yields goes through the softmax. With `reach`,
    query i has no weight for keys behind i plus that; with `clear`, its scores for keys up to i
    plus that go through the region as they are. A `partial` one is of some of the keys: in f32,
    what is not divided yet, then the largest score and the sum of the exponentials.
    """

    name = "fused.attention"
    ANCHOR_INS: ClassVar = 3
    scale = prop_def(FloatAttr[Float64Type])
    reach = opt_prop_def(IntegerAttr[I64])
    clear = opt_prop_def(IntegerAttr[I64])
    partial = opt_prop_def(UnitAttr)

    def computed(self) -> Attribute:
        element, shape = _tensor(self.ins[0])
        wide = _tensor(self.ins[2])[1][-1]
        if self.partial is not None:
            return TensorType(f32, [*shape[:-1], wide + 2])
        return TensorType(element, [*shape[:-1], wide])


@irdl_op_definition
class ConcatOp(FusedOp):
    """The operands one behind the other along an axis."""

    name = "fused.concat"
    axis = prop_def(IntegerAttr[I64])

    def verify_(self) -> None:
        if len(self.ins) < 1:
            raise VerifyException(f"{self.name}: must have an operand")
        super().verify_()

    def computed(self) -> Attribute:
        axis = self.axis.value.data
        element, shape = _tensor(self.ins[0])
        shape[axis] = sum(_tensor(v)[1][axis] for v in self.ins)
        return TensorType(element, shape)


@irdl_op_definition
class JoinOp(FusedOp):
    """
    Tensors of one shape, one behind the other along an axis.

    Each element of them comes from the elements at its place.
    """

    name = "fused.join"
    axis = prop_def(IntegerAttr[I64])

    @property
    def parts(self) -> Sequence[SSAValue]:
        """The tensors, in order."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return list(last.values)

    def verify_(self) -> None:
        super().verify_()
        if any(part.type != self.yielded.type for part in self.parts):
            raise VerifyException(f"{self.name}: its region must yield tensors of one type")

    def computed(self) -> Attribute:
        element, shape = _tensor(self.yielded)
        shape[self.axis.value.data] *= len(self.parts)
        return TensorType(element, shape)


@irdl_op_definition
class PadOp(FusedOp):
    """The operand with `before` and `after` elements of `value` around it; negative ones cut."""

    name = "fused.pad"
    ANCHOR_INS: ClassVar = 1
    before = prop_def(IntsAttr)
    value = prop_def(FloatAttr[Float64Type])


@irdl_op_definition
class GatherOp(FusedOp):
    """
    Slices of the first operand along an axis, at the places the second operand names.

    The axes of the second stand in the result where that axis stood in the first.
    """

    name = "fused.gather"
    ANCHOR_INS: ClassVar = 2
    axis = prop_def(IntegerAttr[I64])


@irdl_op_definition
class ScatterOp(FusedOp):
    """
    The tensor that the first operand is a view of, with slices of the view replaced.

    The third operand is what is put in, the second where it goes along `axis` of the view: it has
    a number for each place along the axes `by` of the third. Where `axis` is not among those, what
    is put in lies from there on.
    """

    name = "fused.scatter"
    ANCHOR_INS: ClassVar = 3
    axis = prop_def(IntegerAttr[I64])
    by = prop_def(IntsAttr)

    @property
    def base(self) -> SSAValue:
        """The tensor that is changed, which may lie where the result does."""
        owner = self.ins[0].owner
        return owner.source if isinstance(owner, ViewOp) else self.ins[0]

    def verify_(self) -> None:
        super().verify_()
        (_, into), (_, slices) = _tensor(self.ins[0]), _tensor(self.ins[2])
        axis, by = self.axis.value.data, self.by.data
        rest = [n for i, n in enumerate(into) if i != axis]
        if not 0 <= axis < len(into) or rest != [n for i, n in enumerate(slices) if i != axis]:
            raise VerifyException(f"{self.name}: must put in slices along axis {axis}")
        if any(not 0 <= a < len(slices) for a in by) or _tensor(self.ins[1])[1] != [
            slices[a] for a in by
        ]:
            raise VerifyException(f"{self.name}: must have an index for each place along 'by'")

    def computed(self) -> Attribute:
        return self.base.type


@irdl_op_definition
class HostOp(IRDLOperation):
    """
    One operator that the AI CPU computes, on tensors with their elements in order.

    ```mlir
    %y = fused.host "Det"(%x) {sources = ["det"]} {
    ^bb0(%a : tensor<2x2xf32>):
      %b = graph.det %a : (tensor<2x2xf32>) -> tensor<f32>
      fused.yield %b : tensor<f32>
    } : (tensor<2x2xf32>) -> tensor<f32>
    ```
    """

    name = "fused.host"
    kind = prop_def(StringAttr)
    """The operator's name in ONNX."""
    sources = prop_def(ArrayAttr[StringAttr])
    ins = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    body = region_def("single_block")
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$kind `(` $ins `)` attr-dict-with-keyword $body `:` functional-type($ins, $outs)"
    )

    @property
    def operator(self) -> Operation:
        """The operator of the region."""
        first = self.body.block.first_op
        assert first is not None
        return first

    def verify_(self) -> None:
        block = self.body.block
        ops = list(block.ops)
        if len(ops) != 2 or not isinstance(ops[1], YieldOp) or ops[0].regions:
            raise VerifyException(f"{self.name}: its region must be one operator and fused.yield")
        whole = list(ops[1].values) == list(ops[0].results)
        if not whole or list(dict.fromkeys(ops[0].operands)) != list(block.args):
            raise VerifyException(
                f"{self.name}: its operator must take all values in order and yield all results"
            )
        types = [a.type for a in block.args], [v.type for v in ops[1].values]
        if types != ([v.type for v in self.ins], [v.type for v in self.outs]):
            raise VerifyException(f"{self.name}: the types must be those of its operator")


KERNEL_OPS: tuple[type[FusedOp], ...] = (
    ElementwiseOp,
    RowwiseOp,
    MatMulOp,
    Conv2DOp,
    PoolOp,
    AttentionOp,
    ConcatOp,
    JoinOp,
    PadOp,
    GatherOp,
    ScatterOp,
)
