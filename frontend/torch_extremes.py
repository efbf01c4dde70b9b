"""The largest and the least of a row as torch finds them: what is no number is the best of all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import onnx_ir as ir
import torch
from onnxscript import opset23 as op

aten = torch.ops.aten


def extremes() -> dict[Any, Callable[..., Any]]:
    """Their translations; ONNX passes over what is no number when it looks for a place."""
    return {
        aten.argmax.default: partial(_place, 1),
        aten.argmin.default: partial(_place, -1),
        aten.max.dim: partial(_pair, 1),
        aten.min.dim: partial(_pair, -1),
    }


def _place(sign: int, self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Where the first of the best is, in a row or in all."""
    if dim is None:
        ones = [1] * len(self.shape) if keepdim else []
        flat = op.Reshape(self, op.Constant(value_ints=[-1]))
        return op.Reshape(_best(sign, flat, self.dtype, 0), op.Constant(value_ints=ones))
    if not self.shape:
        return op.Constant(value_int=0)
    return _best(sign, self, self.dtype, dim, keepdim)


def _pair(sign: int, self: Any, dim: int, keepdim: bool = False) -> Any:
    if not self.shape:
        return op.Identity(self), op.Constant(value_int=0)
    reduce = op.ReduceMax if sign > 0 else op.ReduceMin
    best = reduce(self, op.Constant(value_ints=[dim]), keepdims=int(keepdim))
    return best, _best(sign, self, self.dtype, dim, keepdim)


def _best(sign: int, x: Any, dtype: ir.DataType, dim: int, keepdim: bool = False) -> Any:
    if dtype.is_floating_point():
        # Infinite ones make way, so that nothing is as good as what is no number.
        most = _constant(sign * torch.finfo(getattr(torch, _NAMES[dtype])).max, dtype)
        finite = op.Min(x, most) if sign > 0 else op.Max(x, most)
        x = op.Where(op.IsNaN(x), _constant(sign * float("inf"), dtype), finite)
    find = op.ArgMax if sign > 0 else op.ArgMin
    return find(x, axis=dim, keepdims=int(keepdim))


_NAMES = {
    ir.DataType.FLOAT: "float32",
    ir.DataType.DOUBLE: "float64",
    ir.DataType.FLOAT16: "float16",
    ir.DataType.BFLOAT16: "bfloat16",
}


def _constant(value: float, dtype: ir.DataType) -> Any:
    return op.Constant(value=ir.serde.serialize_tensor(ir.tensor(value, dtype=dtype)))
