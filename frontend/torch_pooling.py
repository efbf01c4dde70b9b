"""Max pooling and gradients of pooling without a search for places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import inf
from typing import Any, NamedTuple

import torch
from torch.nn.functional import pad


def of_each_dim(n: int, *given: Sequence[int]) -> list[list[int]]:
    """Each of what is given as n numbers: one number is that of all dims."""
    return [[*v] * (n // len(v)) for v in given]


class _Pool(NamedTuple):
    """The windows of a pooling over the last two dims."""

    size: tuple[int, int]
    kernel: Sequence[int]
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    outs: tuple[int, int]

    @classmethod
    def of(
        cls,
        x: Any,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        outs: Sequence[int],
    ) -> _Pool:
        k, s, p, d = of_each_dim(2, kernel, stride or kernel, padding, dilation)
        return cls((x.shape[-2], x.shape[-1]), k, s, p, d, (outs[-2], outs[-1]))

    def places(self) -> Iterator[tuple[int, int, Any]]:
        """Each place in a window: its row, its column, and where its elements lie in the image."""
        for i, j in product(range(self.kernel[0]), range(self.kernel[1])):
            row, column = (
                torch.arange(n) * s + k * d - p
                for n, s, k, d, p in zip(
                    self.outs, self.stride, (i, j), self.dilation, self.padding, strict=True
                )
            )
            yield i * self.dilation[0], j * self.dilation[1], row[:, None] * self.size[1] + column

    @property
    def padded(self) -> list[int]:
        """Rows and columns that the windows reach, those around the image included."""
        reach = [
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip(self.outs, self.stride, self.kernel, self.dilation, strict=True)
        ]
        return [max(r, n + p) for r, n, p in zip(reach, self.size, self.padding, strict=True)]

    @property
    def margins(self) -> list[int]:
        """What is around the image, as torch pads."""
        before = self.padding
        after = [w - n - p for w, n, p in zip(self.padded, self.size, before, strict=True)]
        return [before[1], after[1], before[0], after[0]]


def max_pool(
    x: Any,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    """The largest element of each window, the first of equals, and its place in the image."""
    with torch._C._DisableTorchDispatch():
        meta = torch.empty(x.shape, device="meta")
        outs = torch.ops.aten.max_pool2d_with_indices.default(
            meta, kernel, stride, padding, dilation, ceil_mode
        )[0].shape
    pool = _Pool.of(x, kernel, stride, padding, dilation, outs)
    image = pad(x, pool.margins, value=-inf)
    best = at = None
    for i, j, place in pool.places():
        rows = slice(i, i + (pool.outs[0] - 1) * pool.stride[0] + 1, pool.stride[0])
        columns = slice(j, j + (pool.outs[1] - 1) * pool.stride[1] + 1, pool.stride[1])
        window = image[..., rows, columns]
        if best is None:
            best, at = window, place.expand(window.shape)
            continue
        better = window > best
        best, at = torch.where(better, window, best), torch.where(better, place, at)
    return best, at


def max_pool_backward(
    grad: Any,
    x: Any,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Any,
) -> Any:
    """Each gradient where the largest element was: for each place in a window an image of those."""
    pool = _Pool.of(x, kernel, stride, padding, dilation, grad.shape)
    height, width = pool.padded
    total = None
    for i, j, place in pool.places():
        part = torch.where(indices == place, grad, torch.zeros_like(grad))
        spread = _spread(part, pool.stride)
        rows, columns = spread.shape[-2:]
        image = pad(spread, [j, width - columns - j, i, height - rows - i])
        total = image if total is None else total + image
    assert total is not None
    top, left = pool.padding
    return total[..., top : top + pool.size[0], left : left + pool.size[1]]


def average_pool_backward(
    grad: Any,
    x: Any,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
    *,
    n: int = 2,
) -> Any:
    """Each gradient shared among the elements of its window, which has n dims."""
    windows = zip(
        x.shape[-n:],
        grad.shape[-n:],
        *of_each_dim(n, kernel, stride or kernel, padding),
        strict=True,
    )
    covers, count = [], None
    for size, outs, k, s, p in windows:
        first = torch.arange(outs)[:, None] * s - p
        at = torch.arange(size)
        cover = ((first <= at) & (at < first + k)).to(grad.dtype)
        whole = ((first + k).clamp(max=size + p) - first).to(grad.dtype)[:, 0]
        each = whole if count_include_pad else cover.sum(1)
        count = each if count is None else count.unsqueeze(-1) * each
        covers.append(cover)
    return shared_out(grad / (divisor_override or count), covers)


def shared_out(x: Any, covers: Sequence[Any]) -> Any:
    """The last dims of x, each times a matrix: of what comes to which place how much."""
    first = x.dim() - len(covers)
    for dim, cover in enumerate(covers, first):
        rest = x.shape[dim + 1 :]
        flat = torch.matmul(cover.t(), x.flatten(dim + 1)) if rest else torch.matmul(x, cover)
        x = flat.unflatten(-1, rest) if len(rest) > 1 else flat
    return x


def _spread(x: Any, stride: Sequence[int]) -> Any:
    """The elements `stride` apart, zeros between them."""
    rows, columns = x.shape[-2:]
    apart = pad(x[..., :, None, :, None], [0, stride[1] - 1, 0, 0, 0, stride[0] - 1])
    whole = apart.reshape(*x.shape[:-2], rows * stride[0], columns * stride[1])
    return whole[..., : (rows - 1) * stride[0] + 1, : (columns - 1) * stride[1] + 1]
