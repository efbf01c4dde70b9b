"""Element types: one row each, every conversion is a look-up here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from xdsl.ir import Attribute


@dataclass(frozen=True)
class DType:
    """An element type: its name in assembly, its size, and what others call it."""

    name: str
    bits: int
    numpy_name: str
    onnx: int
    code: int
    """Number in instruction encodings."""

    def __hash__(self) -> int:
        return self.code

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory; a bool takes a whole one."""
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self.name[0] in "fb" and self.name != "b8"

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The numpy type; bfloat16 comes from ml_dtypes."""
        import numpy as np

        if self.numpy_name == "bfloat16":
            import ml_dtypes

            wide: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
            return wide
        return np.dtype(self.numpy_name)

    @cached_property
    def ir(self) -> Attribute:
        """The xDSL element type: unsigned integers are `ui8`, bool is `i1`."""
        from xdsl.dialects import builtin as b

        if self.name == "b8":
            return b.i1
        if self.is_float:
            floats: dict[str, Attribute] = {
                "f16": b.f16,
                "bf16": b.bf16,
                "f32": b.f32,
                "f64": b.f64,
            }
            return floats[self.name]
        signed = b.Signedness.UNSIGNED if self.name[0] == "u" else b.Signedness.SIGNLESS
        return b.IntegerType(self.bits, signed)

    def __str__(self) -> str:
        return self.name


# name, bits, numpy, onnx, code
F32 = DType("f32", 32, "float32", 1, 0)
F16 = DType("f16", 16, "float16", 10, 1)
BF16 = DType("bf16", 16, "bfloat16", 16, 2)
I8 = DType("i8", 8, "int8", 3, 3)
U8 = DType("u8", 8, "uint8", 2, 4)
I16 = DType("i16", 16, "int16", 5, 5)
U16 = DType("u16", 16, "uint16", 4, 6)
I32 = DType("i32", 32, "int32", 6, 7)
U32 = DType("u32", 32, "uint32", 12, 8)
I64 = DType("i64", 64, "int64", 7, 9)
U64 = DType("u64", 64, "uint64", 13, 10)
B8 = DType("b8", 8, "bool", 9, 11)
F64 = DType("f64", 64, "float64", 11, 12)

DTYPES = (F32, F16, BF16, I8, U8, I16, U16, I32, U32, I64, U64, B8, F64)
BY_NAME = {d.name: d for d in DTYPES}
BY_ONNX = {d.onnx: d for d in DTYPES}


BY_NUMPY = {d.numpy_name: d for d in DTYPES}


def of_numpy(dtype: np.dtype[Any]) -> DType:
    """The row of a numpy type; raises KeyError for one that no tensor of ours has."""
    return BY_NUMPY[dtype.name]


@cache
def of_ir(element: Attribute) -> DType:
    """The row of an xDSL element type; raises KeyError for one that no tensor of ours has."""
    for d in DTYPES:
        if d.ir == element:
            return d
    raise KeyError(str(element))
