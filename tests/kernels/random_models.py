"""Seeded random models, one family a kind of kernel; sizes are small, odd, and often 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx

from tests.models import Net

Shape = tuple[int, ...]
SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 24, 31, 33, 47, 65)
LONGEST_ROW = 300
"""Rows are whole, and several of them have to fit the smallest vector memory."""
ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Elu", "Softplus")


class RandomNet(Net):
    """Collects nodes, with inputs made when they are first wanted and all of one float type."""

    def __init__(self, seed: int, element: int) -> None:
        super().__init__(seed)
        self.element = element
        self.inputs: dict[str, Shape] = {}
        self.elements: dict[str, int] = {}

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def size(self, most: int = 65) -> int:
        return int(self.pick([s for s in SIZES if s <= most]))

    def shape(self, rank: int, most: int = 13) -> Shape:
        return tuple(self.size(most) for _ in range(rank))

    def input(self, *shape: int, element: int = 0) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = shape
        self.elements[name] = element or self.element
        return name

    def normal(self, *shape: int, scale: float = 1.0) -> Any:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(self.element)
        return super().normal(*shape, scale=scale).astype(dtype)

    def number(self, value: float) -> Any:
        return np.asarray(value, onnx.helper.tensor_dtype_to_np_dtype(self.element))

    def operand(self, *shape: int, scale: float = 1.0) -> Any:
        """An input, or weights."""
        return self.input(*shape) if self.chance() else self.normal(*shape, scale=scale)

    def narrowed(self, shape: Shape) -> Shape:
        """A shape that broadcasts to `shape`."""
        kept = shape[int(self.rng.integers(len(shape) + 1)) :] if self.chance(0.3) else shape
        return tuple(1 if self.chance(0.3) else n for n in kept)

    def epilogue(self, value: str, shape: Shape) -> str:
        """A few elementwise operators behind `value`, some with operands of their own."""
        for _ in range(int(self.rng.integers(3))):
            if self.chance():
                value = self(self.pick(ACTIVATIONS), value)
            elif self.chance(0.7):
                other = self.operand(*self.narrowed(shape))
                pair = [value, other] if self.chance() else [other, value]
                value = self(self.pick(("Add", "Sub", "Mul")), *pair)
            else:
                value = self("Mul", value, self.number(0.5))
        return value

    def finished(self, *outputs: str, opset: int = 17) -> onnx.ModelProto:
        return self.model(dict(self.inputs), outputs, opset, self.elements)


FAMILIES: dict[str, Callable[[RandomNet], onnx.ModelProto]] = {}


def family(make: Callable[[RandomNet], onnx.ModelProto]) -> Callable[[RandomNet], onnx.ModelProto]:
    FAMILIES[make.__name__] = make
    return make


@family
def matmul(net: RandomNet) -> onnx.ModelProto:
    """Batches that broadcast, vectors, transposed operands, an epilogue."""
    m, k, n = net.size(), net.size(), net.size()
    batch = net.shape(int(net.rng.integers(3)), 3)
    left = _side(net, (*net.narrowed(batch), m, k))
    right = _side(net, (*net.narrowed(batch), k, n))
    value = net("MatMul", left, right)
    if not net.chance(0.15):
        return net.finished(net.epilogue(value, (m, n)))
    vector = net("MatMul", net.operand(n), net("Transpose", right, perm=_swapped(net, right)))
    return net.finished(value, vector)


def _side(net: RandomNet, shape: Shape) -> str:
    """An operand of a product as it is, or stored the other way round."""
    if net.chance():
        return net.input(*shape)
    *batch, a, b = shape
    turned = net.input(*batch, b, a)
    return str(net("Transpose", turned, perm=_swapped(net, turned)))


def _swapped(net: RandomNet, name: str) -> list[int]:
    """The last two axes of an input, or of the transpose of one, the other way round."""
    source = name if name in net.inputs else next(n for n in net.nodes if name in n.output).input[0]
    *outer, a, b = range(len(net.inputs[source]))
    return [*outer, b, a]


@family
def gemm(net: RandomNet) -> onnx.ModelProto:
    """Every form: either side transposed, factors, a summand of any shape or none."""
    m, k, n = net.size(), net.size(), net.size()
    how: dict[str, Any] = {}
    a, b = (m, k), (k, n)
    if net.chance():
        how["transA"], a = 1, a[::-1]
    if net.chance():
        how["transB"], b = 1, b[::-1]
    if net.chance():
        how["alpha"] = 0.5
    if net.chance():
        how["beta"] = net.pick((0.25, 0.0))
    summand = net.pick((None, (), (1,), (n,), (1, n), (m, 1), (m, n)))
    extra = [] if summand is None else [net.operand(*summand)]
    value = net("Gemm", net.input(*a), net.operand(*b), *extra, **how)
    return net.finished(net.epilogue(value, (m, n)))


@family
def softmax(net: RandomNet) -> onnx.ModelProto:
    """Over any axis, with scale and mask before it and dropout behind."""
    shape = net.shape(int(net.rng.integers(1, 5)), 17)
    x = net.input(*shape)
    if net.chance():
        x = net("Mul", x, net.number(0.25))
    if net.chance():
        x = net("Add", x, net.operand(*net.narrowed(shape)))
    if prod(shape) == 0 or net.chance(0.2):
        return net.finished(net("LogSoftmax", x, axis=int(net.rng.integers(len(shape)))))
    value = net("Softmax", x, axis=int(net.rng.integers(-len(shape), len(shape))))
    return net.finished(net("Dropout", value) if net.chance() else value)


@family
def layer_norm(net: RandomNet) -> onnx.ModelProto:
    """Over the last axes, with an addition before or behind it."""
    shape = net.shape(int(net.rng.integers(1, 4)), 33)
    axis = int(net.rng.integers(-len(shape), 0))
    while prod(shape[axis:]) > LONGEST_ROW:
        axis += 1
    inner = shape[axis:]
    x = net.input(*shape)
    add = net.pick(("before", "behind", ""))
    if add == "before":
        x = net("Add", x, net.operand(*shape))
    bias = [net.normal(*inner)] if net.chance(0.7) else []
    y = net("LayerNormalization", x, net.normal(*inner), *bias, axis=axis, epsilon=1e-3)
    return net.finished(net("Add", net.input(*shape), y) if add == "behind" else y)


REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")


@family
def reduction(net: RandomNet) -> onnx.ModelProto:
    """Over any axes, those of size 1 among them, which stay or go."""
    shape = net.shape(int(net.rng.integers(1, 5)), 13)
    kind = net.pick(REDUCTIONS)
    n = int(net.rng.integers(1, len(shape) + 1))
    axes = sorted(int(a) for a in net.rng.choice(len(shape), n, replace=False))
    x = net.input(*shape)
    x = net("Abs", x) if kind in ("LogSum", "Prod") else x
    if kind == "LogSum":
        x = net("Add", x, net.number(0.5))
    given = np.asarray(axes, np.int64)
    reduced = net(f"Reduce{kind}", x, given, keepdims=int(net.chance()))
    return net.finished(
        net("Mul", reduced, net.number(2.0)) if net.chance(0.3) else reduced, opset=18
    )


@family
def elementwise(net: RandomNet) -> onnx.ModelProto:
    """Chains of two operands each, broadcast every way; values are used twice now and then."""
    shape = net.shape(int(net.rng.integers(1, 6)), 9)
    value = net.input(*net.narrowed(shape))
    before = value
    for _ in range(int(net.rng.integers(1, 5))):
        other = before if net.chance(0.2) else net.operand(*net.narrowed(shape))
        kind = net.pick(("Add", "Sub", "Mul", "Max", "Min"))
        pair = [value, other] if net.chance() else [other, value]
        before, value = value, net(kind, *pair)
    return net.finished(value, before) if net.chance() and before != "x0" else net.finished(value)


def _attention_mask(net: RandomNet, shape: Shape) -> Any:
    mask = net.rng.random(shape) < 0.3
    mask[..., 0] = False
    return np.where(mask, net.number(-1e4), net.number(0))


@family
def attention(net: RandomNet) -> onnx.ModelProto:
    """softmax(q k^T * scale + mask) v, with other lengths and widths on both sides."""
    outer = net.pick(((), (2,), (1, 3), (2, 3)))
    q, kv = int(net.pick((1, 5, 16, 33, 50))), int(net.pick((1, 7, 16, 40, 70)))
    depth, wide = int(net.pick((1, 8, 16, 24, 33))), int(net.pick((1, 8, 16, 40)))
    rank = len(outer) + 2
    back = [*range(len(outer)), rank - 1, rank - 2]
    keys = net("Transpose", net.input(*outer, kv, depth), perm=back)
    scores = net("MatMul", net.input(*outer, q, depth), keys)
    if net.chance(0.8):
        scores = net(net.pick(("Mul", "Div")), scores, net.number(net.pick((0.25, 2.0))))
    if net.chance(0.6):
        shape = (*(1 if net.chance() else n for n in (*outer, q)), kv)
        scores = net("Add", scores, _attention_mask(net, shape))
    chance = net("Softmax", scores, axis=-1)
    value = net("MatMul", chance, net.input(*outer, kv, wide))
    if not net.chance():
        return net.finished(value)
    order = [*range(len(outer) - 1), rank - 2, len(outer) - 1, rank - 1] if outer else [1, 0]
    return net.finished(net("Transpose", value, perm=order))


def _transposed(net: RandomNet, x: str, shape: Shape) -> tuple[str, Shape]:
    perm = [int(p) for p in net.rng.permutation(len(shape))]
    return net("Transpose", x, perm=perm), tuple(shape[p] for p in perm)


def _sliced(net: RandomNet, x: str, shape: Shape) -> tuple[str, Shape]:
    axis = int(net.rng.integers(len(shape)))
    n = shape[axis]
    start = int(net.rng.integers(n))
    step = int(net.pick((1, 1, 2, 3)))
    rest = -(-(n - start) // step)
    numbers = [np.asarray([v], np.int64) for v in (start, n, axis, step)]
    return net("Slice", x, *numbers), (*shape[:axis], rest, *shape[axis + 1 :])


def _split(net: RandomNet, x: str, shape: Shape) -> tuple[str, Shape]:
    axis = int(net.rng.integers(len(shape)))
    if shape[axis] < 2:
        return _transposed(net, x, shape)
    first = int(net.rng.integers(1, shape[axis]))
    sizes = np.asarray([first, shape[axis] - first], np.int64)
    parts = net("Split", x, sizes, outputs=2, axis=axis)
    return parts[1], (*shape[:axis], shape[axis] - first, *shape[axis + 1 :])


def _concatenated(net: RandomNet, x: str, shape: Shape) -> tuple[str, Shape]:
    axis = int(net.rng.integers(len(shape)))
    n = net.size(5)
    other = net.operand(*shape[:axis], n, *shape[axis + 1 :])
    pair = [x, other] if net.chance() else [other, x]
    total = (*shape[:axis], shape[axis] + n, *shape[axis + 1 :])
    return net("Concat", *pair, axis=axis), total


def _padded(net: RandomNet, x: str, shape: Shape) -> tuple[str, Shape]:
    pads = [int(p) for p in net.rng.integers(0, 3, 2 * len(shape))]
    ends = zip(shape, pads, pads[len(shape) :], strict=False)
    number = [net.number(1.5)] if net.chance() else []
    return net("Pad", x, np.asarray(pads, np.int64), *number), tuple(n + a + b for n, a, b in ends)


def _expanded(net: RandomNet, x: str, shape: Shape) -> tuple[str, Shape]:
    wide = (net.size(3), *(net.size(5) if n == 1 else n for n in shape))
    return net("Expand", x, np.asarray(wide, np.int64)), wide


def _reshaped(net: RandomNet, x: str, shape: Shape) -> tuple[str, Shape]:
    if len(shape) < 2:
        return net("Unsqueeze", x, np.asarray([0], np.int64)), (1, *shape)
    joined = (shape[0] * shape[1], *shape[2:])
    return net("Reshape", x, np.asarray(joined, np.int64)), joined


def _computed(net: RandomNet, x: str, shape: Shape) -> tuple[str, Shape]:
    return net.epilogue(net("Mul", x, net.number(2.0)), shape), shape


@family
def views(net: RandomNet) -> onnx.ModelProto:
    """Moves and views in any order, in front of and behind what computes."""
    steps = (_transposed, _sliced, _split, _concatenated, _padded, _expanded, _reshaped, _computed)
    shape = net.shape(int(net.rng.integers(1, 4)), 9)
    value = net.input(*shape)
    for _ in range(int(net.rng.integers(2, 7))):
        value, shape = net.pick(steps)(net, value, shape)
        if len(shape) > 4 or prod(shape) > 20000:
            break
    return net.finished(value)


@family
def product_views(net: RandomNet) -> onnx.ModelProto:
    """A product of views whose result is split into heads, or put behind something."""
    heads, width, rows = int(net.pick((1, 2, 3))), net.size(17), net.size(17)
    total = heads * width
    batch = net.size(3)
    x, xs = _sliced(net, net.input(batch, rows, 24), (batch, rows, 24))
    value = net("MatMul", x, net.normal(xs[-1], total, scale=0.3))
    split = net("Reshape", value, np.asarray([0, 0, heads, width], np.int64))
    turned = net("Transpose", split, perm=net.pick(([0, 2, 1, 3], [0, 2, 3, 1])))
    return net.finished(net("Relu", turned) if net.chance() else turned)
