"""Kinds of operator attributes: Python value <-> IR attribute <-> text <-> ONNX, one class each."""

from __future__ import annotations

import math
import struct
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar

from typing_extensions import TypeVar
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, f32, i1, i64
from xdsl.ir import Attribute
from xdsl.irdl import AttrConstraint, IntConstraint, VerificationContext, opt_prop_def, prop_def
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from ge.dialects import dtypes
from ge.dialects.dtypes import DType


class _Required:
    """The default of an attribute that must be given."""


REQUIRED = _Required()


@dataclass(frozen=True)
class Kind(AttrConstraint[Attribute]):
    """A kind of attribute together with the default of one attribute of that kind."""

    default: Any = REQUIRED
    element: ClassVar[DType | None] = None
    """The element type where ONNX takes such a value as an input."""

    @property
    @abstractmethod
    def what(self) -> str:
        """What a value of this kind is, for messages."""

    @abstractmethod
    def to_attr(self, value: Any) -> Attribute:
        """The IR attribute of a Python value."""

    @abstractmethod
    def to_python(self, attr: Attribute) -> Any:
        """The Python value of an IR attribute; raises VerifyException for another kind of one."""

    @abstractmethod
    def text(self, value: Any) -> str:
        """A value as it stands in the text of an operation."""

    @abstractmethod
    def parse(self, parser: Parser) -> Any:
        """Read back what `text` wrote."""

    def to_onnx(self, value: Any) -> Any:
        """A value as ONNX stores it in an attribute."""
        return value

    def of_onnx(self, value: Any) -> Any:
        """The value that ONNX stores as an attribute, or that a constant input holds."""
        return value

    @cached_property
    def default_attr(self) -> Attribute | None:
        """The default as an attribute: None without one, or when absence is its own value."""
        has = self.default is not REQUIRED and self.default is not None
        return self.to_attr(self.default) if has else None

    def as_input(self, value: Any) -> Any:
        """The array for a value that ONNX takes as an input."""
        import numpy as np

        if self.element is None:
            raise TypeError(f"{type(self).__name__} is no kind of ONNX input")
        return np.asarray(value, self.element.numpy)

    def fail(self, attr: Attribute) -> VerifyException:
        return VerifyException(f"must be {self.what}, got {attr}")

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        self.to_python(attr)

    def mapping_type_vars(
        self, type_var_mapping: Mapping[TypeVar, AttrConstraint[Any] | IntConstraint]
    ) -> Kind:
        return self


@dataclass(frozen=True)
class Int(Kind):
    """A whole number; `onnx_dims` is the rank it has where ONNX takes it as an input."""

    onnx_dims: int = 0
    what = "an integer"
    element = dtypes.I64

    def to_attr(self, value: int) -> Attribute:
        return IntegerAttr(int(value), i64)

    def to_python(self, attr: Attribute) -> int:
        if not isinstance(attr, IntegerAttr) or attr.type != i64:
            raise self.fail(attr)
        return attr.value.data

    def text(self, value: int) -> str:
        return str(value)

    def parse(self, parser: Parser) -> int:
        return parser.parse_integer(allow_boolean=False)

    def as_input(self, value: int) -> Any:
        return super().as_input(value).reshape((1,) * self.onnx_dims)

    def of_onnx(self, value: Any) -> int:
        return int(value.reshape(-1)[0]) if hasattr(value, "reshape") else int(value)


@dataclass(frozen=True)
class Bool(Kind):
    """Yes or no; ONNX stores 0 or 1."""

    what = "true or false"
    element = dtypes.B8

    def to_attr(self, value: bool) -> Attribute:
        return IntegerAttr(int(bool(value)), i1)

    def to_python(self, attr: Attribute) -> bool:
        if not isinstance(attr, IntegerAttr) or attr.type != i1:
            raise self.fail(attr)
        return bool(attr.value.data)

    def text(self, value: bool) -> str:
        return "true" if value else "false"

    def parse(self, parser: Parser) -> bool:
        return parser.parse_boolean()

    def to_onnx(self, value: bool) -> int:
        return int(value)

    def of_onnx(self, value: Any) -> bool:
        return bool(value)


def _float_text(value: float) -> str:
    """The shortest decimal that gives the same single-precision number back."""
    if not math.isfinite(value):
        return str(value).replace("-inf", "neg_inf")
    text = next(
        t
        for digits in range(6, 18)
        if struct.pack("<f", float(t := f"{value:.{digits}g}")) == struct.pack("<f", value)
    )
    mantissa, e, exponent = text.partition("e")
    return (mantissa if "." in mantissa else mantissa + ".0") + e + exponent


def _parse_float(parser: Parser) -> float:
    words = {"inf": math.inf, "neg_inf": -math.inf, "nan": math.nan}
    if (word := parser.parse_optional_keyword_in(words)) is not None:
        return words[word]
    return float(parser.parse_number())


@dataclass(frozen=True)
class Float(Kind):
    """A number in single precision, as ONNX has it."""

    what = "a number"
    element = dtypes.F32

    def to_attr(self, value: float) -> Attribute:
        return FloatAttr(float(value), f32)

    def to_python(self, attr: Attribute) -> float:
        if not isinstance(attr, FloatAttr) or attr.type != f32:
            raise self.fail(attr)
        return attr.value.data

    def text(self, value: float) -> str:
        return _float_text(value)

    def parse(self, parser: Parser) -> float:
        return _parse_float(parser)

    def of_onnx(self, value: Any) -> float:
        return float(value.reshape(-1)[0]) if hasattr(value, "reshape") else float(value)


@dataclass(frozen=True)
class Ints(Kind):
    """A list of whole numbers."""

    what = "a list of integers"
    element = dtypes.I64

    def to_attr(self, value: tuple[int, ...]) -> Attribute:
        return DenseArrayBase.from_list(i64, [int(v) for v in value])

    def to_python(self, attr: Attribute) -> tuple[int, ...]:
        if not isinstance(attr, DenseArrayBase) or attr.elt_type != i64:
            raise self.fail(attr)
        return tuple(attr.get_values())

    def text(self, value: tuple[int, ...]) -> str:
        return f"[{', '.join(map(str, value))}]"

    def parse(self, parser: Parser) -> tuple[int, ...]:
        one = lambda: parser.parse_integer(allow_boolean=False)  # noqa: E731
        return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, one))

    def to_onnx(self, value: tuple[int, ...]) -> list[int]:
        return list(value)

    def of_onnx(self, value: Any) -> tuple[int, ...]:
        return tuple(int(v) for v in (value.reshape(-1) if hasattr(value, "reshape") else value))


@dataclass(frozen=True)
class Floats(Kind):
    """A list of numbers in single precision."""

    what = "a list of numbers"
    element = dtypes.F32

    def to_attr(self, value: tuple[float, ...]) -> Attribute:
        return DenseArrayBase.from_list(f32, [float(v) for v in value])

    def to_python(self, attr: Attribute) -> tuple[float, ...]:
        if not isinstance(attr, DenseArrayBase) or attr.elt_type != f32:
            raise self.fail(attr)
        return tuple(attr.get_values())

    def text(self, value: tuple[float, ...]) -> str:
        return f"[{', '.join(map(_float_text, value))}]"

    def parse(self, parser: Parser) -> tuple[float, ...]:
        one = lambda: _parse_float(parser)  # noqa: E731
        return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, one))

    def to_onnx(self, value: tuple[float, ...]) -> list[float]:
        return list(value)

    def of_onnx(self, value: Any) -> tuple[float, ...]:
        return tuple(float(v) for v in (value.reshape(-1) if hasattr(value, "reshape") else value))


@dataclass(frozen=True)
class Str(Kind):
    """Free text."""

    what = "a string"

    def to_attr(self, value: str) -> Attribute:
        return StringAttr(value)

    def to_python(self, attr: Attribute) -> str:
        if not isinstance(attr, StringAttr):
            raise self.fail(attr)
        return attr.data

    def text(self, value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    def parse(self, parser: Parser) -> str:
        return parser.parse_str_literal()


@dataclass(frozen=True)
class Choice(Kind):
    """One word of an enumeration, written bare."""

    words: type[StrEnum] = StrEnum

    @property
    def what(self) -> str:
        return " or ".join(f"'{w}'" for w in self.words)

    def to_attr(self, value: str) -> Attribute:
        return StringAttr(self.of_onnx(value).value)

    def to_python(self, attr: Attribute) -> StrEnum:
        if not isinstance(attr, StringAttr) or attr.data not in list(self.words):
            raise self.fail(attr)
        return self.words(attr.data)

    def text(self, value: StrEnum) -> str:
        return value.value

    def parse(self, parser: Parser) -> StrEnum:
        words = [w.value for w in self.words]
        word = parser.expect(
            lambda: parser.parse_optional_keyword_in(words), f"{self.what} expected"
        )
        return self.words(word)

    def to_onnx(self, value: StrEnum) -> str:
        return value.value

    def of_onnx(self, value: str) -> StrEnum:
        if value not in list(self.words):
            raise VerifyException(f"must be {self.what}, got '{value}'")
        return self.words(value)


@dataclass(frozen=True)
class ElementType(Kind):
    """An element type; ONNX stores its number."""

    what = "an element type"

    def to_attr(self, value: DType) -> Attribute:
        return value.ir

    def to_python(self, attr: Attribute) -> DType:
        try:
            return dtypes.of_ir(attr)
        except KeyError:
            raise self.fail(attr) from None

    def text(self, value: DType) -> str:
        return str(value.ir)

    def parse(self, parser: Parser) -> DType:
        at = parser.pos
        try:
            return dtypes.of_ir(parser.parse_type())
        except KeyError as e:
            parser.raise_error(f"an element type expected, got {e.args[0]}", at)

    def to_onnx(self, value: DType) -> int:
        return value.onnx

    def of_onnx(self, value: int) -> DType:
        if value not in dtypes.BY_ONNX:
            raise VerifyException(
                f"must be an element type with a tensor here, got {_named(value)}"
            )
        return dtypes.BY_ONNX[value]


def _named(element: int) -> str:
    """ONNX's name of an element type, if that is one."""
    from onnx import TensorProto

    known = TensorProto.DataType.values()
    return TensorProto.DataType.Name(element) if element in known else str(element)


def attribute(kind: Kind) -> Any:
    """Declare an operator's attribute; one with a default may be absent from the operation."""
    return prop_def(kind) if kind.default is REQUIRED else opt_prop_def(kind)
