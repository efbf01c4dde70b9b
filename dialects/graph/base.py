"""What every `graph` operation is: its types from `infer`, its meaning from `evaluate`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import DenseArrayBase, TensorType, f64, i1, i32
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.irdl import (
    AttrConstraint,
    AttrSizedOperandSegments,
    IRDLOperation,
    OptOperandDef,
    VarOperandDef,
    VerificationContext,
    base,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from ge.dialects import dtypes
from ge.dialects.diagnostics import did_you_mean
from ge.dialects.graph.kinds import REQUIRED, Kind
from ge.dialects.graph.precision import Array as Array
from ge.dialects.graph.text import parse_operation, print_operation
from ge.dialects.weights import WeightsAttr, to_array

Tensor = TensorType[Attribute]
Shape = tuple[int, ...]

SEGMENTS = (AttrSizedOperandSegments(as_property=True),)
"""`irdl_options` of an operation with two or more optional operands."""


@cache
def tensor(shape: Shape, element: Attribute) -> Tensor:
    """The tensor type of a shape and an element type."""
    need(min(shape, default=0) >= 0, f"dims must be 0 or more, got {list(shape)}")
    return TensorType(element, shape)


@cache
def dims(type_: Tensor) -> Shape:
    """The shape of a tensor type."""
    return tuple(type_.get_shape())


def type_of(value: SSAValue) -> Tensor:
    """The tensor type of a value."""
    assert isinstance(value.type, TensorType)
    return value.type


def shape_of(value: SSAValue) -> Shape:
    """The shape of a value."""
    return dims(type_of(value))


def of_array(array: Array) -> Tensor:
    """The tensor type of an array; raises KeyError for elements that no tensor of ours has."""
    return tensor(array.shape, dtypes.of_numpy(array.dtype).ir)


def need(holds: bool, message: str) -> None:
    """Refuse the operation with `message` unless the condition holds."""
    if not holds:
        raise VerifyException(message)


def same_element(*types: Tensor | None) -> Attribute:
    """The element type that all present operands share."""
    present = [t.element_type for t in types if t is not None]
    for other in present[1:]:
        need(
            other == present[0],
            f"operands must have one element type, got {present[0]} and {other}",
        )
    return present[0]


def broadcast(*types: Tensor) -> Shape:
    """The shape that all operands broadcast to."""
    rank = max(len(dims(t)) for t in types)
    out = [1] * rank
    for t in types:
        for i, d in enumerate(dims(t), rank - len(dims(t))):
            fits = d == out[i] or 1 in (d, out[i])
            need(fits, f"operands must broadcast, got {' and '.join(map(str, types))}")
            out[i] = d if out[i] == 1 else out[i]
    return tuple(out)


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front; raises for one outside the rank."""
    need(-rank <= axis < rank, f"'axis' must be in [{-rank}, {rank - 1}], got {axis}")
    return axis % rank


@cache
def _check_tensor(type_: Attribute) -> None:
    need(isinstance(type_, TensorType), f"must be a tensor, got {type_}")
    assert isinstance(type_, TensorType)
    need(all(d >= 0 for d in type_.get_shape()), f"must have a static shape, got {type_}")
    try:
        dtypes.of_ir(type_.element_type)
    except KeyError:
        raise VerifyException(f"must have an element type we know, got {type_}") from None


class _StaticTensor(AttrConstraint[Tensor]):
    """A tensor with a static shape and an element type of `dtypes`."""

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        _check_tensor(attr)

    def mapping_type_vars(self, type_var_mapping: Any) -> _StaticTensor:
        return self


TENSOR: AttrConstraint[Tensor] = _StaticTensor()


@cache
def _segments(sizes: tuple[int, ...]) -> Attribute:
    return DenseArrayBase.from_list(i32, sizes)


class GraphOp(IRDLOperation, ABC):
    """An operator of the model. `infer` and `evaluate` take its operands, then its attributes."""

    traits = traits_def(Pure())
    ONNX: ClassVar[str] = ""
    """The operator's name in ONNX."""
    ONNX_INPUTS: ClassVar[tuple[str | None, ...]] = ()
    """Operands and attributes in the order of ONNX inputs, where some of those are attributes here;
    None for an input that we never have."""
    HOST: ClassVar[bool] = False
    """Whether only the AI CPU computes it: nothing in it is regular."""
    BOUNDED: ClassVar[bool] = False
    """Whether its results are as long as the data say, up to what their types hold."""
    MOVES: ClassVar[bool] = False
    """Whether it only moves elements, of whatever type."""

    @staticmethod
    @abstractmethod
    def infer(*types: Any, **attrs: Any) -> Tensor | Sequence[Tensor]:
        """The result types; raises VerifyException when the operands do not fit together."""

    @staticmethod
    @abstractmethod
    def evaluate(*arrays: Any, **attrs: Any) -> Any:
        """The result in numpy (or a tuple of them), as onnxruntime computes it."""

    @classmethod
    @cache
    def kinds(cls) -> Mapping[str, Kind]:
        """The operator's attributes by name."""
        rows = cls.get_irdl_definition().properties.items()
        return {name: row.constr for name, row in rows if isinstance(row.constr, Kind)}

    @classmethod
    @cache
    def slots(cls) -> tuple[str, ...]:
        """The names of the operands, the variadic one included."""
        return tuple(name for name, _ in cls.get_irdl_definition().operands)

    @classmethod
    @cache
    def variadic(cls) -> str | None:
        """The name of the operand that takes any number of tensors."""
        rows = cls.get_irdl_definition().operands
        many = (
            n for n, d in rows if isinstance(d, VarOperandDef) and not isinstance(d, OptOperandDef)
        )
        return next(many, None)

    @classmethod
    @cache
    def optional(cls) -> frozenset[str]:
        """The names of the operands that may be absent."""
        rows = cls.get_irdl_definition().operands
        return frozenset(n for n, d in rows if isinstance(d, OptOperandDef))

    @classmethod
    def onnx_inputs(cls) -> tuple[str | None, ...]:
        """Operands and attributes in the order of ONNX inputs."""
        return cls.ONNX_INPUTS or cls.slots()

    @classmethod
    def with_defaults(cls, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """All attributes: those given, and the defaults of the others."""
        kinds = cls.kinds()
        for name in attrs:
            if name not in kinds:
                near = did_you_mean(name, kinds)
                raise VerifyException(f"{cls.name}: has no attribute '{name}'{near}")
        full = {name: attrs.get(name, kind.default) for name, kind in kinds.items()}
        missing = [name for name, value in full.items() if value is REQUIRED]
        need(not missing, f"{cls.name}: needs the attribute '{', '.join(missing)}'")
        return full

    @classmethod
    def infer_types(cls, types: Sequence[Tensor | None], attrs: Mapping[str, Any]) -> list[Tensor]:
        """The result types, always a list; errors carry the operation's name."""
        return list(_infer(cls, tuple(types), tuple(attrs.items())))

    @classmethod
    def evaluate_all(cls, arrays: Sequence[Array | None], attrs: Mapping[str, Any]) -> list[Array]:
        """The results, always a list, each of the type that `infer` says."""
        types = cls.infer_types([None if a is None else of_array(a) for a in arrays], attrs)
        out = cls.evaluate(*arrays, **attrs)
        outs = out if isinstance(out, tuple) else (out,)
        pairs = zip(outs, types, strict=True)
        # A numpy scalar is not an array, and a view may have a wider type than the operator.
        return [_as(a, t) for a, t in pairs]

    @classmethod
    def make(cls, *operands: SSAValue | None, **attrs: Any) -> Self:
        """Build the operation from values and Python attributes; absent operands are None."""
        full = cls.with_defaults(attrs)
        kinds = cls.kinds()
        properties = {
            name: attr
            for name, value in full.items()
            if value is not None
            and (attr := kinds[name].to_attr(value)) != kinds[name].default_attr
        }
        types: list[Any] = [None if v is None else v.type for v in operands]
        results = cls.infer_types(types, full)
        return cls.assemble(operands, properties, results)

    @classmethod
    def assemble(
        cls,
        operands: Sequence[SSAValue | None],
        properties: dict[str, Attribute],
        results: Sequence[Attribute],
    ) -> Self:
        """Build the operation from IR attributes and result types, unverified."""
        slots = cls.slots()
        if cls.variadic() is None and len(operands) > len(slots):
            raise VerifyException(f"{cls.name}: takes {len(slots)} operands, got {len(operands)}")
        if cls.get_irdl_definition().options:
            given = [*operands, *[None] * (len(slots) - len(operands))]
            properties = {
                **properties,
                "operandSegmentSizes": _segments(tuple(int(v is not None) for v in given)),
            }
        present = [v for v in operands if v is not None]
        return cls.create(operands=present, properties=properties, result_types=list(results))

    @property
    def attrs(self) -> dict[str, Any]:
        """All attributes as Python values, defaults included."""
        have = self.properties
        return {
            name: kind.to_python(have[name]) if name in have else kind.default
            for name, kind in self.kinds().items()
        }

    @property
    def arguments(self) -> tuple[SSAValue | None, ...]:
        """Operands as `infer` and `evaluate` take them: None stands for an absent one."""
        if self.variadic() is not None or len(self._operands) == len(self.slots()):
            return tuple(self.operands)
        if "operandSegmentSizes" not in self.properties:
            return (*self.operands, *[None] * (len(self.slots()) - len(self._operands)))
        return tuple(getattr(self, name) for name in self.slots())

    @property
    def on_host(self) -> bool:
        """Whether the AI CPU computes it: for what it is, or because no unit has doubles."""
        if self.HOST or self.MOVES:
            return self.HOST
        types = (*self.operand_types, *self.result_types)
        return any(isinstance(t, TensorType) and t.element_type == f64 for t in types)

    @property
    def source(self) -> str:
        """The model nodes this operation stands for, main one first, joined by ','."""
        attr = self.attributes.get("source")
        return getattr(attr, "data", "")

    def verify_(self) -> None:
        attrs = self.attrs
        types: list[Any] = [None if v is None else v.type for v in self.arguments]
        want = self.infer_types(types, attrs)
        if list(self.result_types) != want:
            have = ", ".join(map(str, self.result_types))
            should = ", ".join(map(str, want))
            raise VerifyException(f"{self.name}: result must be {should}, got {have}")

    def print(self, printer: Printer) -> None:
        print_operation(self, printer)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return parse_operation(cls, parser)


def _as(array: Any, type_: Tensor) -> Array:
    import numpy as np

    return np.asarray(array, dtypes.of_ir(type_.element_type).numpy).reshape(dims(type_))


# Models repeat their layers, and a verifier asks again what the builder asked.
@lru_cache(maxsize=1 << 14)
def _infer(
    cls: type[GraphOp], types: tuple[Tensor | None, ...], attrs: tuple[tuple[str, Any], ...]
) -> tuple[Tensor, ...]:
    try:
        out = cls.infer(*types, **dict(attrs))
    except VerifyException as e:
        raise VerifyException(f"{cls.name}: {e}") from None
    return (out,) if isinstance(out, TensorType) else tuple(out)


class MovingOp(GraphOp, ABC):
    """An operator that only moves elements, of whatever type."""

    MOVES: ClassVar[bool] = True


class TensorOp(GraphOp):
    """An operator with one result."""

    out: OpResult[Tensor] = result_def(TENSOR)


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """
    A tensor that is known.

    ```mlir
    %r = graph.constant <"0x0000803F0000003F"> : tensor<2xf32>
    ```
    """

    name = "graph.constant"
    value = prop_def(base(WeightsAttr))
    out: OpResult[Tensor] = result_def(TENSOR)
    traits = traits_def(Pure(), ConstantLike())
    assembly_format = "$value attr-dict `:` type($out)"

    @classmethod
    def of(cls, array: Array) -> Self:
        """The constant that holds an array."""
        value: Attribute = WeightsAttr.of(array)
        return cls.create(properties={"value": value}, result_types=[of_array(array)])

    @property
    def array(self) -> Array:
        """The values, not copied."""
        return to_array(self.value, self.out.type)

    def verify_(self) -> None:
        want = nbytes(self.out.type)
        if self.value.data.nbytes != want:
            raise VerifyException(
                f"{self.name}: {self.out.type} must have {want} bytes, got {self.value.data.nbytes}"
            )


FOLD_BYTES = 1 << 20
"""A known result larger than this and than its operands stays an operation."""
MASK_BYTES = 1 << 24
"""The same for truth values: what a mask hides need not be computed, if the mask is known."""


def worth_folding(results: Sequence[Tensor], operands: Sequence[Tensor]) -> bool:
    """Whether to compute what is known now, by what it does to the size of the weights."""
    made = sum(nbytes(t) for t in results)
    truth = all(t.element_type == i1 for t in results)
    return made <= max(MASK_BYTES if truth else FOLD_BYTES, sum(nbytes(t) for t in operands))


def nbytes(type_: Tensor) -> int:
    """Bytes of a tensor in memory."""
    return prod(dims(type_)) * dtypes.of_ir(type_.element_type).bytes


def constant_of(value: SSAValue | None) -> Array | None:
    """The array of a value that a constant gives, else None."""
    owner = None if value is None else value.owner
    return owner.array if isinstance(owner, ConstantOp) and owner.value.data.is_here else None
