"""`merge-products`: products of one tensor with several weights become one, and its parts views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.graph.base import Array, ConstantOp, GraphOp, constant_of, shape_of, type_of
from ge.dialects.graph.module import functions_of
from ge.dialects.graph.ops.binary import AddOp
from ge.dialects.graph.ops.layout import ReshapeOp, SplitOp, TransposeOp
from ge.dialects.graph.ops.linear import MatMulOp
from ge.lowering.rewriting import drop_unread

MOST_BYTES = 1 << 28
"""Weights that are written anew at most: larger ones stay mapped from their file."""
READERS = (ReshapeOp, TransposeOp, MatMulOp)
"""What reads a part as well as a whole; other work would have joined a product of its own."""


@dataclass(frozen=True)
class _Linear:
    """A product with constant weights, and the bias behind it if there is one."""

    product: MatMulOp
    weights: Array
    add: AddOp | None
    bias: Array | None

    @property
    def result(self) -> SSAValue:
        last: GraphOp = self.add or self.product
        return last.results[0]


@dataclass(frozen=True)
class MergeProductsPass(ModulePass):
    """Multiply a tensor by all weights that it meets at once.

    matmul(x, v) + b, matmul(x, w) + c -> split(matmul(x, [v w]) + [b c]), where views read them
    """

    name = "merge-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        operators = (p for function in functions_of(op) for p in function.body.block.ops)
        products = [p for p in operators if isinstance(p, MatMulOp)]
        by_operand: dict[tuple[SSAValue, bool], list[_Linear]] = {}
        for linear in filter(None, map(_linear, products)):
            key = (linear.product.operands[0], linear.bias is None)
            by_operand.setdefault(key, []).append(linear)
        for group in by_operand.values():
            size = sum(linear.weights.nbytes for linear in group)
            if len(group) > 1 and size <= MOST_BYTES:
                _merge(group)


def _linear(product: MatMulOp) -> _Linear | None:
    """The product with its bias, if nothing else keeps it from being a part of another."""
    weights = constant_of(product.operands[1])
    if weights is None or weights.ndim != 2 or len(shape_of(product.operands[0])) < 2:
        return None
    add, bias = None, None
    users = _users(product.results[0])
    if len(users) == 1 and isinstance(users[0], AddOp):
        add = users[0]
        other = add.lhs if add.rhs is product.results[0] else add.rhs
        bias = constant_of(other)
        if bias is None or bias.shape != weights.shape[1:]:
            return None
        users = _users(add.results[0])
    if not users or not all(isinstance(user, READERS) for user in users):
        return None
    return _Linear(product, weights, add, bias)


def _users(value: SSAValue) -> list[Operation]:
    return [use.operation for use in value.uses]


def _merge(group: Sequence[_Linear]) -> None:
    first = group[0].product
    block = first.parent
    assert block is not None
    x = first.operands[0]
    weights = ConstantOp.of(np.concatenate([g.weights for g in group], axis=1))
    product = MatMulOp.make(x, weights.out)
    made: list[ConstantOp | GraphOp] = [weights, product]
    biases = [g.bias for g in group if g.bias is not None]
    if biases:
        bias = ConstantOp.of(np.concatenate(biases))
        made += [bias, AddOp.make(product.results[0], bias.out)]
    widths = tuple(g.weights.shape[1] for g in group)
    axis = len(shape_of(x)) - 1
    split = SplitOp.make(made[-1].results[0], split=widths, axis=axis)
    made.append(split)
    names = ",".join(dict.fromkeys(_sources(group)))
    for op in made:
        if names and not isinstance(op, ConstantOp):
            op.attributes["source"] = StringAttr(names)
    block.insert_ops_before(made, first)
    for linear, part in zip(group, split.results, strict=True):
        assert type_of(part) == type_of(linear.result)
        last = linear.add or linear.product
        linear.result.replace_all_uses_with(part)
        drop_unread(last)


def _sources(group: Sequence[_Linear]) -> Iterator[str]:
    for linear in group:
        for op in (linear.product, linear.add):
            if op is not None and op.source:
                yield from op.source.split(",")
