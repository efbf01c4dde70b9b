"""Operators of torch that its ONNX exporter gets wrong or takes apart, in a form that is right."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from onnx import numpy_helper
from onnxscript import opset23 as op
from onnxscript.function_libs.torch_lib.ops.core import aten_index, aten_index_put
from torch._decomp import get_decompositions

from ge.frontend.torch_adaptive import adaptive
from ge.frontend.torch_attention import attention
from ge.frontend.torch_chances import chosen
from ge.frontend.torch_composed import composed
from ge.frontend.torch_extremes import extremes
from ge.frontend.torch_losses import losses

aten = torch.ops.aten

WRONG = (
    # Their translation runs them as in inference.
    aten.native_batch_norm,
    aten._native_batch_norm_legit,
    aten._native_batch_norm_legit_functional,
    aten.native_batch_norm_backward,
    aten._batch_norm_with_update_functional,
    aten.batch_norm_backward,
    # Its second result, the sum of the weights, is made up; gradients are divided by it.
    aten.nll_loss_forward,
    aten.nll_loss_backward,
)


MISTAKEN = (
    # Takes chances for classes.
    aten.cross_entropy_loss.default,
)
"""Operators without a translation here, so that they are taken apart as torch does it."""


def decompositions() -> dict[Any, Callable[..., Any]]:
    """What must be taken apart before torch.onnx sees it."""
    return _wrong() | composed() | chosen() | adaptive() | losses()


@cache
def _wrong() -> dict[Any, Callable[..., Any]]:
    return dict(get_decompositions(WRONG))


def translations() -> dict[Any, Callable[..., Any]]:
    """Translations that take the place of those of torch.onnx."""
    return {
        **extremes(),
        aten.as_strided_scatter.default: _as_strided_scatter,
        torch.ops.prims.as_strided_scatter.default: _as_strided_scatter,
        aten.index_copy.default: _index_copy,
        aten.index_put.default: _index_put,
        aten.sort.default: _sort,
        aten.sort.stable: lambda self, stable=None, dim=-1, descending=False: _sort(
            self, dim, descending
        ),
        aten.scaled_dot_product_attention.default: attention,
        aten.index.Tensor: _index,
        aten.split.Tensor: _split,
        aten.split_with_sizes.default: _split_with_sizes,
        aten.unbind.int: _unbind,
    }


def _ints(*values: int) -> Any:
    return op.Constant(value_ints=list(values))


def _split_with_sizes(self: Any, split_sizes: Any, dim: int = 0) -> Any:
    """Parts as outputs of their own: no sequence of tensors has a place in a program."""
    ends = list(accumulate(int(n) for n in split_sizes))
    parts = zip([0, *ends], ends, strict=False)
    return [op.Slice(self, _ints(start), _ints(end), _ints(dim)) for start, end in parts]


def _split(self: Any, split_size: int, dim: int = 0) -> Any:
    whole = self.shape[dim]
    starts = range(0, whole, split_size)
    return _split_with_sizes(self, [min(split_size, whole - s) for s in starts], dim)


def _unbind(self: Any, dim: int = 0) -> Any:
    return [op.Gather(self, op.Constant(value_int=i), axis=dim) for i in range(self.shape[dim])]


def _as_strided_scatter(
    self: Any, src: Any, size: Any, stride: Any, storage_offset: int = 0
) -> Any:
    """A tensor that lies in one piece, with elements put in at places that are known."""
    grid = np.indices(size).reshape(len(size), -1)
    places = storage_offset + np.array(stride) @ grid
    at = op.Constant(value=numpy_helper.from_array(places.reshape(-1, 1)))
    whole = op.ScatterND(op.Reshape(self, _ints(-1)), at, op.Reshape(src, _ints(-1)))
    return op.Reshape(whole, _ints(*self.shape))


def _index(self: Any, indices: Any) -> Any:
    """Elements at places; those along one dim alone are slices of it."""
    named = [d for d, i in enumerate(indices) if i is not None]
    if len(named) == 1 and indices[named[0]].dtype.is_integer():
        return op.Gather(self, indices[named[0]], axis=named[0])
    return aten_index(self, indices)


def _index_put(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Elements put in at places; where a mask chooses, what is put in may lie beside all others."""
    named = [(d, i) for d, i in enumerate(indices) if i is not None]
    at, mask = named[0]
    rest = len(self.shape) - at - len(mask.shape)
    own = len(values.shape) > rest
    if len(named) > 1 or mask.dtype.is_integer() or (own and values.shape[-rest - 1] != 1):
        return aten_index_put(self, indices, values, accumulate)
    if own and len(mask.shape) > 1:
        more = [-rest - i for i in range(1, len(mask.shape))]
        values = op.Unsqueeze(values, _ints(*more))
    shown = op.Reshape(mask, op.Concat(op.Shape(mask), _ints(*[1] * rest), axis=0))
    return op.Where(shown, op.Add(self, values) if accumulate else values, self)


def _sort(self: Any, dim: int = -1, descending: bool = False) -> Any:
    """All of a row in order: of equal ones the first come first."""
    if not self.shape:
        return op.Identity(self), op.Constant(value_int=0)
    size = op.Reshape(
        op.Shape(self, start=dim % len(self.shape), end=dim % len(self.shape) + 1), _ints(1)
    )
    return op.TopK(self, size, axis=dim, largest=int(descending), sorted=1)


def _index_copy(self: Any, dim: int, index: Any, source: Any) -> Any:
    """Slices put in at places along a dim, without turning the tensor round twice."""
    rank = len(self.shape)
    dim %= rank
    column = op.Reshape(index, _ints(-1, *[1] * (rank - 1 - dim)))
    return op.ScatterElements(self, op.Expand(column, op.Shape(source)), source, axis=dim)
