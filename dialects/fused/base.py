"""What all kernels of the `fused` dialect have, and the operations between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType
from xdsl.ir import Attribute, Block, Region, SSAValue
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


def tensor(value: SSAValue) -> tuple[Attribute, list[int]]:
    """The element type and the shape of a tensor."""
    assert isinstance(value.type, TensorType)
    return value.type.element_type, list(value.type.get_shape())


def _laid_out(type_: Attribute, layout: Sequence[int]) -> Attribute:
    assert isinstance(type_, TensorType)
    shape = type_.get_shape()
    return TensorType(type_.element_type, [shape[i] for i in layout])
