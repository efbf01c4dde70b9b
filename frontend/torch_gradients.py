"""What training is made of: operators of backward passes that no exporter knows, as others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions

from ge.frontend.torch_operators import decompositions
from ge.frontend.torch_pooling import average_pool_backward, max_pool, max_pool_backward

aten = torch.ops.aten


def training_decompositions() -> dict[Any, Callable[..., Any]]:
    """What forward and backward passes are made of, for operators without a translation."""
    return _core() | decompositions() | _own() | _of_transformers()


@cache
def _core() -> dict[Any, Callable[..., Any]]:
    more = get_decompositions([aten.embedding_dense_backward])
    return {**core_aten_decompositions(), **more}


def _own() -> dict[Any, Callable[..., Any]]:
    return {
        aten.empty_permuted.default: _empty_permuted,
        aten.convolution_backward.default: _convolution_backward,
        aten.max_pool2d_with_indices.default: max_pool,
        aten.max_pool2d_with_indices_backward.default: max_pool_backward,
        aten.avg_pool2d_backward.default: average_pool_backward,
        aten._weight_norm_interface_backward.default: _weight_norm_backward,
    }


def _of_transformers() -> dict[Any, Callable[..., Any]]:
    """Its own operators, if it has been imported by now."""
    known = torch.ops.transformers
    if not hasattr(known, "grouped_mm_fallback"):
        return {}
    return {
        known.grouped_mm_fallback.default: _products_of_groups,
        known.grouped_mm_fallback_backward.default: _products_of_groups_backward,
    }


def _empty_permuted(size: Sequence[int], _: Sequence[int], **how: Any) -> Any:
    """Memory whose order does not matter here."""
    return torch.zeros(size, dtype=how.get("dtype"))


def _each(values: Sequence[int], n: int) -> Sequence[int]:
    """One number for each of n dims, where one may stand for all."""
    return [*values] * n if len(values) == 1 else values


def _convolution_backward(
    grad: Any,
    x: Any,
    w: Any,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    mask: Sequence[bool],
) -> Any:
    """Gradients of a convolution as convolutions; those of a transposed one are its mirror."""
    n = x.dim() - 2
    stride, padding, dilation = (_each(v, n) for v in (stride, padding, dilation))
    to_x = to_w = to_b = None
    if mask[0] and transposed:
        to_x = aten.convolution(grad, w, None, stride, padding, dilation, False, [0] * n, groups)
    elif mask[0]:
        reached = [
            (grad.shape[2 + i] - 1) * stride[i]
            - 2 * padding[i]
            + dilation[i] * (w.shape[2 + i] - 1)
            + 1
            for i in range(n)
        ]
        rest = [x.shape[2 + i] - r for i, r in enumerate(reached)]
        to_x = aten.convolution(grad, w, None, stride, padding, dilation, True, rest, groups)
    if mask[1]:
        image, made = (grad, x) if transposed else (x, grad)
        images, kernels = _as_weights(image, groups, 0), _as_weights(made, groups, 1)
        to_w = aten.convolution(
            images, kernels, None, dilation, padding, stride, False, [0] * n, groups
        ).transpose(0, 1)
        for i in range(n):
            to_w = to_w.narrow(2 + i, 0, w.shape[2 + i])
    if mask[2]:
        to_b = grad.sum([0, *range(2, 2 + n)])
    return to_x, to_w, to_b


def _as_weights(x: Any, groups: int, side: int) -> Any:
    """Channels in the place of the batch, the batch in that of channels, group by group."""
    batch, channels = x.shape[:2]
    apart = x.reshape(batch, groups, channels // groups, *x.shape[2:])
    rest = range(3, x.dim() + 1)
    if side == 0:
        turned = apart.permute(2, 1, 0, *rest)
        return turned.reshape(channels // groups, groups * batch, *x.shape[2:])
    return apart.permute(1, 2, 0, *rest).reshape(channels, batch, *x.shape[2:])


def _weight_norm_backward(
    grad: Any, direction: Any, size: Any, norms: Any, dim: int
) -> tuple[Any, Any]:
    """Gradients of `direction * size / norms`; norms are those of the directions along `dim`."""
    others = [d for d in range(direction.dim()) if d != dim % direction.dim()]
    along = (grad * direction).sum(others, keepdim=True) / norms
    return size / norms * (grad - direction * along / norms), along


def _products_of_groups(x: Any, weight: Any, ends: Any) -> Any:
    """Rows in order of their experts, each times the matrix of its own; `ends` of each expert."""
    return torch.bmm(x[:, None], weight[_experts(x, ends)])[:, 0]


def _products_of_groups_backward(x: Any, weight: Any, ends: Any, grad: Any) -> tuple[Any, Any]:
    experts = _experts(x, ends)
    to_x = torch.bmm(grad[:, None], weight[experts].transpose(1, 2))[:, 0]
    own = torch.arange(weight.shape[0]) == experts[:, None]
    rows = x * own.t()[..., None].to(x.dtype)
    return to_x, torch.matmul(rows.transpose(1, 2), grad)


def _experts(x: Any, ends: Any) -> Any:
    """The expert of each row."""
    found = (ends <= torch.arange(x.shape[0])[:, None]).sum(1)
    return found.clamp(max=ends.shape[0] - 1)
