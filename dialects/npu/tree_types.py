"""The types of a kernel's tree: places on the chip, and views of tensors in device memory."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ge.dialects import dtypes
from ge.dialects.attributes import IntsAttr
from ge.dialects.dtypes import DType
from ge.dialects.npu.places import SPACES, Space


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """A place for a tile in one memory: `!npu.buffer<ub, f32>`."""

    name = "npu.buffer"
    space_name: StringAttr
    element_name: StringAttr

    @classmethod
    def of(cls, space: Space, dtype: DType) -> BufferType:
        return cls(StringAttr(space.value), StringAttr(dtype.name))

    @property
    def space(self) -> Space:
        return SPACES[self.space_name.data]

    @property
    def dtype(self) -> DType:
        return dtypes.BY_NAME[self.element_name.data]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            space = parser.parse_identifier()
            parser.parse_punctuation(",")
            element = parser.parse_identifier()
        if space not in SPACES or element not in dtypes.BY_NAME:
            parser.raise_error(f"must be a memory and an element type, got {space}, {element}")
        return StringAttr(space), StringAttr(element)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.space_name.data}, {self.element_name.data}>")


@irdl_attr_definition
class HbmType(ParametrizedAttribute, TypeAttribute):
    """A strided view of a tensor in device memory: `!npu.hbm<[16, 128], [128, 1], f16>`."""

    name = "npu.hbm"
    shape_: IntsAttr
    strides_: IntsAttr
    element_name: StringAttr

    @classmethod
    def of(cls, shape: Sequence[int], strides: Sequence[int], dtype: DType) -> HbmType:
        return cls(IntsAttr(tuple(shape)), IntsAttr(tuple(strides)), StringAttr(dtype.name))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.shape_.data

    @property
    def strides(self) -> tuple[int, ...]:
        return self.strides_.data

    @property
    def dtype(self) -> DType:
        return dtypes.BY_NAME[self.element_name.data]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def numbers() -> IntsAttr:
            square = parser.Delimiter.SQUARE
            return IntsAttr(tuple(parser.parse_comma_separated_list(square, parser.parse_integer)))

        with parser.in_angle_brackets():
            shape = numbers()
            parser.parse_punctuation(",")
            strides = numbers()
            parser.parse_punctuation(",")
            element = parser.parse_identifier()
        if element not in dtypes.BY_NAME or len(shape.data) != len(strides.data):
            parser.raise_error("must be a shape, as many strides, and an element type")
        return shape, strides, StringAttr(element)

    def print_parameters(self, printer: Printer) -> None:
        shape, strides = list(self.shape), list(self.strides)
        printer.print_string(f"<{shape}, {strides}, {self.element_name.data}>")
