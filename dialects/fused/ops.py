"""The `fused` dialect: one operation is one kernel of the device.

Each has an anchor, the work that shapes its loops, and a region of `graph` operations that runs on
the anchor's result before it is stored. Tensors are whole; there is no memory and no loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

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
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ge.dialects.attributes import IntsAttr
from ge.dialects.fused.base import FusedOp, ViewOp, YieldOp, tensor


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
        element, shape = tensor(self.ins[0])
        wide = tensor(self.ins[2])[1][-1]
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
        element, shape = tensor(self.ins[0])
        shape[axis] = sum(tensor(v)[1][axis] for v in self.ins)
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
        element, shape = tensor(self.yielded)
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
        (_, into), (_, slices) = tensor(self.ins[0]), tensor(self.ins[2])
        axis, by = self.axis.value.data, self.by.data
        rest = [n for i, n in enumerate(into) if i != axis]
        if not 0 <= axis < len(into) or rest != [n for i, n in enumerate(slices) if i != axis]:
            raise VerifyException(f"{self.name}: must put in slices along axis {axis}")
        if any(not 0 <= a < len(slices) for a in by) or tensor(self.ins[1])[1] != [
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
