"""Kernels before they are instructions: loops over tiles, buffers, and statements on buffers.

A kernel has named dimensions. A loop cuts some of them into tiles; a buffer belongs to the loop it
stands in and holds the box that its map spans there; a statement moves or computes what its
buffers' maps give for the current tiles. Nothing has an address until it is allocated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    UnitAttr,
    i64,
)
from xdsl.ir import Data, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from ge.dialects.npu.axes import Axes, axes, dims_of, text_of
from ge.dialects.npu.places import UNITS, Unit
from ge.dialects.npu.tree_types import BufferType, HbmType

Pairs = tuple[tuple[str, int], ...]


@irdl_attr_definition
class MapAttr(Data[Axes]):
    """An affine map, as text: `#npu.map<"b, 2*y+ky-1">`."""

    name = "npu.map"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Axes:
        with parser.in_angle_brackets():
            start = parser.pos
            try:
                return axes(parser.parse_str_literal())
            except ValueError as e:
                parser.raise_error(str(e), start, parser.pos)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(text_of(self.data))


@irdl_attr_definition
class PairsAttr(Data[Pairs]):
    """Dimensions with a number each, in order: `#npu.dims<m = 128, n = 256>`."""

    name = "npu.dims"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Pairs:
        def pair() -> tuple[str, int]:
            name = parser.parse_identifier()
            parser.parse_punctuation("=")
            return name, parser.parse_integer()

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, pair))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(", ".join(f"{d} = {n}" for d, n in self.data))


class TreeOp(IRDLOperation):
    """What all share: the stage each runs in when its loop is skewed, and on which tiles."""

    stage = opt_prop_def(IntegerAttr[I64])
    when = opt_prop_def(MapAttr)
    """A map of one axis: a statement is left out on tiles on which that is nowhere above 0."""
    last = opt_prop_def(UnitAttr)
    """Only the last iteration of the loop has the statement."""
    irdl_options = (ParsePropInAttrDict(),)

    @property
    def stage_number(self) -> int:
        return self.stage.value.data if self.stage else 0

    def set_stage(self, stage: int) -> None:
        if stage:
            self.properties["stage"] = IntegerAttr(stage, i64)
        else:
            self.properties.pop("stage", None)

    def verify_(self) -> None:
        kernel: Operation | None = self
        while kernel is not None and not isinstance(kernel, KernelOp):
            kernel = kernel.parent_op()
        if kernel is None or kernel.dims is None:
            return
        known = [name for name, _ in kernel.dims.data]
        for name in _dims_named(self):
            if name not in known:
                has = ", ".join(known)
                raise VerifyException(f"a dimension must be of the kernel ({has}), got '{name}'")


def _dims_named(op: TreeOp) -> Iterator[str]:
    for attr in op.properties.values():
        if isinstance(attr, MapAttr):
            yield from dims_of(attr.data)
        elif isinstance(attr, PairsAttr):
            yield from (name for name, _ in attr.data)


@irdl_op_definition
class KernelOp(IRDLOperation):
    """
    One kernel. Its arguments are views of tensors in device memory.

    As a tree it has `dims`; once its instructions are emitted it has none.
    """

    name = "npu.kernel"
    sym_name = prop_def(SymbolNameConstraint())
    kind = prop_def(StringAttr)
    sources = prop_def(ArrayAttr[StringAttr])
    dims = opt_prop_def(PairsAttr)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface(), NoTerminator())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$sym_name $kind attr-dict-with-keyword $body"


@irdl_op_definition
class ForOp(TreeOp):
    """
    A loop over tiles of some dimensions, the last varying fastest.

    With `cores` its iterations are dealt to the cores in turn, `backwards` from the last one on.
    With `until`, a map of one axis, it ends with the tile that holds the highest place of that
    axis. `orders = ["fix mte2"]` lets the first work of MTE2 wait for the last of FIX before it.
    With `flows` what is left over of its stages runs beside the loop's next run, and behind the
    last; with `oldest_first` what is furthest behind comes first, but for stage 0.
    """

    name = "npu.for"
    label = prop_def(StringAttr)
    steps = prop_def(PairsAttr)
    cores = opt_prop_def(UnitAttr)
    backwards = opt_prop_def(UnitAttr)
    until = opt_prop_def(MapAttr)
    orders = opt_prop_def(ArrayAttr[StringAttr])
    flows = opt_prop_def(UnitAttr)
    oldest_first = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    assembly_format = "$label $steps attr-dict-with-keyword $body"


@irdl_op_definition
class BufferOp(TreeOp):
    """
    A buffer of the loop it stands in, with room for the box that `map` spans there.

    `copies` boxes lie behind each other from `address` on; iterations use them in turn. In one that
    is `spread` smaller tiles lie as far apart as those of the largest box.
    """

    name = "npu.buffer"
    label = prop_def(StringAttr)
    map = prop_def(MapAttr)
    copies = opt_prop_def(IntegerAttr[I64])
    address = opt_prop_def(IntegerAttr[I64])
    spread = opt_prop_def(UnitAttr)
    result = result_def(BufferType)
    assembly_format = "$label $map attr-dict `:` type($result)"

    @property
    def copy_count(self) -> int:
        """Its copies; one where nothing is said yet."""
        return self.copies.value.data if self.copies else 1


@irdl_op_definition
class MoveOp(TreeOp):
    """
    Move a tile between two places; which instruction it is follows from the two memories.

    A tensor in device memory is seen through `map`; what lies outside it is filled with `pad`.
    With `index` the tile in device memory lies as many times `pitch` elements further on as the
    element of `index` at `places` says; a negative one counts from `extent`.
    """

    name = "npu.move"
    source = operand_def()
    target = operand_def()
    index = opt_operand_def(HbmType)
    map = opt_prop_def(MapAttr)
    places = opt_prop_def(MapAttr)
    extent = opt_prop_def(IntegerAttr[I64])
    pitch = opt_prop_def(IntegerAttr[I64])
    pad = opt_prop_def(FloatAttr[Float64Type])
    words = opt_prop_def(ArrayAttr[StringAttr])
    miss = opt_prop_def(IntegerAttr[I64])
    """How many 256ths of the bytes reach device memory; all of them where it is not said."""
    assembly_format = (
        "$source `to` $target (`at` $index^)? attr-dict "
        "`:` type($source) `to` type($target) (`at` type($index)^)?"
    )

    def at_index(self, index: SSAValue, places: Axes, extent: int, pitch: int) -> MoveOp:
        """This move, which must stand in no block yet, from where an element of `index` says."""
        operands = [self.source, self.target, index]
        properties = {
            **self.properties,
            "places": MapAttr(places),
            "extent": IntegerAttr(extent, i64),
            "pitch": IntegerAttr(pitch, i64),
        }
        self.erase()
        return MoveOp.create(operands=operands, properties=properties)


@irdl_op_definition
class MatrixOp(TreeOp):
    """`acc += a . b`, summed over the dimensions `over`; their first step starts from zero."""

    name = "npu.matrix"
    acc = operand_def(BufferType)
    a = operand_def(BufferType)
    b = operand_def(BufferType)
    over = prop_def(ArrayAttr[StringAttr])
    assembly_format = (
        "$acc `,` $a `,` $b `over` $over attr-dict `:` type($acc) `,` type($a) `,` type($b)"
    )


@irdl_op_definition
class VectorOp(TreeOp):
    """
    One vector instruction on tiles.

    `ins` are its tile operands in the instruction's order; `numbers` and `words` the others. A
    reduction may have one tile more, like the one it reads: rows are folded into it first.
    """

    name = "npu.vector"
    instr = prop_def(StringAttr)
    out = operand_def(BufferType)
    ins = var_operand_def(BufferType)
    numbers = opt_prop_def(ArrayAttr[FloatAttr[Float64Type]])
    words = opt_prop_def(ArrayAttr[StringAttr])
    assembly_format = "$instr $out `from` $ins attr-dict `:` type($out) `from` type($ins)"


class FlagOp(TreeOp):
    """
    A flag between two units.

    In a loop its number is `base` plus the loop's iteration modulo `copies`, else `base`.
    """

    source_unit = prop_def(StringAttr)
    target_unit = prop_def(StringAttr)
    base = prop_def(IntegerAttr[I64])
    copies = prop_def(IntegerAttr[I64])

    @classmethod
    def of(cls, source: Unit, target: Unit, base: int, copies: int, stage: int = 0) -> FlagOp:
        """The flag operation between `source` and `target`."""
        op = cls.create(
            properties={
                "source_unit": StringAttr(source.value),
                "target_unit": StringAttr(target.value),
                "base": IntegerAttr(base, i64),
                "copies": IntegerAttr(copies, i64),
            }
        )
        op.set_stage(stage)
        return op

    @property
    def units(self) -> tuple[Unit, Unit]:
        return UNITS[self.source_unit.data], UNITS[self.target_unit.data]


@irdl_op_definition
class SetOp(FlagOp):
    """Raise a flag in the queue of its source."""

    name = "npu.set"
    assembly_format = "$source_unit `to` $target_unit `base` $base `copies` $copies attr-dict"


@irdl_op_definition
class WaitOp(FlagOp):
    """Wait for a flag in the queue of its target."""

    name = "npu.wait"
    assembly_format = "$source_unit `to` $target_unit `base` $base `copies` $copies attr-dict"


TREE_OPS: tuple[type[IRDLOperation], ...] = (
    *(KernelOp, ForOp, BufferOp, MoveOp),
    *(MatrixOp, VectorOp, SetOp, WaitOp),
)
TREE_ATTRS: tuple[type[Any], ...] = (MapAttr, PairsAttr, BufferType, HbmType)
