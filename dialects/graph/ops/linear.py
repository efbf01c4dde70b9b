"""Products of matrices: MatMul, Gemm, Einsum."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, var_operand_def

from ge.dialects.graph.base import (
    TENSOR,
    Array,
    Shape,
    Tensor,
    TensorOp,
    broadcast,
    dims,
    need,
    same_element,
    tensor,
)
from ge.dialects.graph.kinds import Bool, Float, Str, attribute
from ge.dialects.graph.precision import in_single


@irdl_op_definition
class MatMulOp(TensorOp):
    """
    Matrix product over the last two dims; leading dims broadcast, a vector is a row or a column.

    ```mlir
    %r = graph.matmul %a, %b : (tensor<5x2x3xf32>, tensor<3x4xf32>) -> tensor<5x2x4xf32>
    ```
    """

    name = "graph.matmul"
    ONNX: ClassVar = "MatMul"
    a = operand_def(TENSOR)
    b = operand_def(TENSOR)

    @staticmethod
    def infer(a: Tensor, b: Tensor) -> Tensor:
        element = same_element(a, b)
        da, db = dims(a), dims(b)
        need(bool(da and db), f"operands must have a dim at least, got {a} and {b}")
        inner = db[-2] if len(db) > 1 else db[0]
        need(da[-1] == inner, f"inner dims must be equal, got {a} and {b}")
        batch = broadcast(tensor(da[:-2], element), tensor(db[:-2], element))
        rows = da[-2:-1] if len(da) > 1 else ()
        columns = db[-1:] if len(db) > 1 else ()
        return tensor(batch + rows + columns, element)

    @staticmethod
    @in_single
    def evaluate(a: Array, b: Array) -> Array:
        return np.matmul(a, b)


@irdl_op_definition
class GemmOp(TensorOp):
    """
    `alpha * A' * B' + beta * C`, where A and B are transposed on demand and C broadcasts.

    ```mlir
    %r = graph.gemm %a, %b, %c {transB = true}
      : (tensor<2x3xf32>, tensor<4x3xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "graph.gemm"
    ONNX: ClassVar = "Gemm"
    a = operand_def(TENSOR)
    b = operand_def(TENSOR)
    c = opt_operand_def(TENSOR)
    alpha = attribute(Float(1.0))
    beta = attribute(Float(1.0))
    transA = attribute(Bool(False))
    transB = attribute(Bool(False))

    @staticmethod
    def infer(
        a: Tensor,
        b: Tensor,
        c: Tensor | None = None,
        *,
        alpha: float,
        beta: float,
        transA: bool,
        transB: bool,
    ) -> Tensor:
        element = same_element(a, b, c)
        need(len(dims(a)) == 2 == len(dims(b)), f"A and B must be matrices, got {a} and {b}")
        m, k = dims(a)[::-1] if transA else dims(a)
        k2, n = dims(b)[::-1] if transB else dims(b)
        need(k == k2, f"inner dims must be equal, got {a} and {b}")
        out = tensor((m, n), element)
        fits = c is None or broadcast(out, c) == (m, n)
        need(fits, f"C must broadcast to {out}, got {c}")
        return out

    @staticmethod
    @in_single
    def evaluate(
        a: Array,
        b: Array,
        c: Array | None = None,
        *,
        alpha: float,
        beta: float,
        transA: bool,
        transB: bool,
    ) -> Array:
        product = np.matmul(a.T if transA else a, b.T if transB else b)
        scaled = product * a.dtype.type(alpha) if alpha != 1 else product
        return scaled if c is None else scaled + (c * a.dtype.type(beta) if beta != 1 else c)


@irdl_op_definition
class EinsumOp(TensorOp):
    """
    Sum of products by an equation, in Einstein's notation.

    ```mlir
    %r = graph.einsum %a, %b {equation = "bij,bkj->bik"}
      : (tensor<2x3x4xf32>, tensor<2x5x4xf32>) -> tensor<2x3x5xf32>
    ```
    """

    name = "graph.einsum"
    ONNX: ClassVar = "Einsum"
    inputs = var_operand_def(TENSOR)
    equation = attribute(Str())

    @staticmethod
    def infer(*inputs: Tensor, equation: str) -> Tensor:
        left, arrow, right = equation.replace(" ", "").partition("->")
        terms = left.split(",")
        need(
            len(terms) == len(inputs),
            f"'equation' must name {len(inputs)} operands, got '{equation}'",
        )
        sizes: dict[str, int] = {}
        rest: Shape = ()
        for term, type_ in zip(terms, inputs, strict=True):
            rest = _bind(term, type_, sizes, rest)
        letters = [c for c in left if c not in ",."]
        once = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
        right = right if arrow else ("..." if "..." in left else "") + once
        unknown = [c for c in right.replace("...", "") if c not in sizes]
        need(
            not unknown, f"'equation' must have its result's letters on the left, got '{equation}'"
        )
        head, dots, tail = right.partition("...")
        shape = (
            tuple(sizes[c] for c in head) + (rest if dots else ()) + tuple(sizes[c] for c in tail)
        )
        return tensor(shape, same_element(*inputs))

    @staticmethod
    @in_single
    def evaluate(*inputs: Array, equation: str) -> Array:
        return np.asarray(np.einsum(equation.replace(" ", ""), *inputs, optimize=True))


def _bind(term: str, type_: Tensor, sizes: dict[str, int], rest: Shape) -> Shape:
    """Note what size each letter of a term has; the shape of `...` so far is `rest`."""
    head, dots, tail = term.partition("...")
    shape = dims(type_)
    n = len(shape) - len(head) - len(tail)
    need(n == 0 or (bool(dots) and n > 0), f"'{term}' must have a letter a dim, got {type_}")
    middle = shape[len(head) : len(shape) - len(tail)] if dots else ()
    outer = shape[: len(head)] + shape[len(shape) - len(tail) :]
    for letter, d in zip(head + tail, outer, strict=True):
        known = sizes.setdefault(letter, d)
        need(1 in (known, d) or known == d, f"'{letter}' must have one size, got {known} and {d}")
        sizes[letter] = max(known, d)
    element = type_.element_type
    return broadcast(tensor(rest, element), tensor(middle, element)) if dots else rest
