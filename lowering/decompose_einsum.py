"""Einstein's sums: each pair of operands is a product of matrices, or of elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects.graph.base import shape_of
from ge.dialects.graph.ops.binary import MulOp, WhereOp
from ge.dialects.graph.ops.layout import ExpandOp, TransposeOp
from ge.dialects.graph.ops.linear import EinsumOp, MatMulOp
from ge.dialects.graph.ops.reduce import ReduceSumOp
from ge.lowering.decompose_indexing import dtype_of, number, reshape
from ge.lowering.rewriting import Here, Rules

DOTS = "..."


class _Term:
    """An operand and the letter of each of its dims."""

    def __init__(self, here: Here, value: SSAValue, letters: str) -> None:
        self.here = here
        self.value = value
        self.letters = letters

    def size(self, letter: str) -> int:
        return shape_of(self.value)[self.letters.index(letter)]

    def summed(self, keep: str) -> _Term:
        """Without the letters that nothing else has."""
        gone = tuple(i for i, c in enumerate(self.letters) if c not in keep)
        if not gone:
            return self
        value = self.here.make(ReduceSumOp, self.value, axes=gone, keepdims=False)
        return _Term(self.here, value, "".join(c for c in self.letters if c in keep))

    def single(self) -> _Term:
        """Of a letter that stands twice the diagonal."""
        here, value, letters = self.here, self.value, self.letters
        for letter in dict.fromkeys(letters):
            while letters.count(letter) > 1:
                a, b = letters.index(letter), letters.rindex(letter)
                shape = shape_of(value)
                mask = np.eye(shape[a], dtype=bool)
                wide = mask.reshape([n if i in (a, b) else 1 for i, n in enumerate(shape)])
                zero = number(here, 0, dtype_of(value))
                kept = here.make(WhereOp, here.constant(wide), value, zero)
                value = here.make(ReduceSumOp, kept, axes=(b,), keepdims=False)
                letters = letters[:b] + letters[b + 1 :]
        return _Term(here, value, letters)

    def ordered(self, letters: str) -> SSAValue:
        """The dims in the order of `letters`, 1 where it has none of that name."""
        own = [c for c in letters if c in self.letters]
        perm = tuple(self.letters.index(c) for c in own)
        value = self.value
        if perm != tuple(range(len(perm))):
            value = self.here.make(TransposeOp, value, perm=perm)
        sizes = tuple(self.size(c) if c in self.letters else 1 for c in letters)
        return reshape(self.here, value, sizes)


def _together(here: Here, a: _Term, b: _Term, keep: str) -> _Term:
    """The product of two terms, summed over what only they have."""
    a, b = a.summed(keep + b.letters), b.summed(keep + a.letters)
    both = [c for c in a.letters if c in b.letters]
    inner = "".join(c for c in both if c not in keep)
    outer = "".join(c for c in both if c in keep)
    rows = "".join(c for c in a.letters if c not in both)
    columns = "".join(c for c in b.letters if c not in both)
    letters = outer + rows + columns
    if not inner:
        return _Term(here, here.make(MulOp, a.ordered(letters), b.ordered(letters)), letters)
    sizes = {c: max(a.size(c), b.size(c)) for c in both}
    m, n, k = (
        prod(map(a.size, rows)),
        prod(map(b.size, columns)),
        prod(sizes[c] for c in inner),
    )
    left, right = _whole(here, a, inner, sizes), _whole(here, b, inner, sizes)
    left_outer, right_outer = (tuple(map(t.size, outer)) for t in (left, right))
    x = reshape(here, left.ordered(outer + rows + inner), (*left_outer, m, k))
    y = reshape(here, right.ordered(outer + inner + columns), (*right_outer, k, n))
    made = here.make(MatMulOp, x, y)
    shape = (*(sizes[c] for c in outer), *map(a.size, rows), *map(b.size, columns))
    return _Term(here, reshape(here, made, shape), letters)


def _whole(here: Here, term: _Term, inner: str, sizes: dict[str, int]) -> _Term:
    """A term whose dims that are summed have their full size."""
    shape = [sizes[c] if c in inner else term.size(c) for c in term.letters]
    if tuple(shape) == shape_of(term.value):
        return term
    return _Term(here, here.make(ExpandOp, term.value, shape=tuple(shape)), term.letters)


def _einsum(here: Here, op: EinsumOp) -> SSAValue:
    """Einstein's sum -> products of two operands after each other"""
    lefts, right = _letters(op.attrs["equation"], [shape_of(v) for v in op.operands])
    terms = [_Term(here, v, t).single() for v, t in zip(op.operands, lefts, strict=True)]
    total = terms.pop(0)
    while terms:
        following = terms.pop(0)
        keep = right + "".join(t.letters for t in terms)
        total = _together(here, total, following, keep)
    return total.summed(right).ordered(right)


def _letters(equation: str, shapes: Sequence[Sequence[int]]) -> tuple[list[str], str]:
    """A letter for every dim of every operand and of the result; dots become upper letters."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    words = left.split(",")
    spare = "".join(c for c in map(chr, range(0x3B1, 0x3B1 + 32)) if c not in equation)
    most = 0
    terms = []
    for word, shape in zip(words, shapes, strict=True):
        count = len(shape) - len(word.replace(DOTS, "")) if DOTS in word else 0
        most = max(most, count)
        # Dims that dots stand for are aligned at their ends.
        terms.append((word, count))
    names = [w.replace(DOTS, spare[most - count : most]) for w, count in terms]
    if not arrow:
        flat = left.replace(DOTS, "").replace(",", "")
        once = "".join(sorted(c for c in set(flat) if flat.count(c) == 1))
        right = (DOTS if DOTS in left else "") + once
    return names, right.replace(DOTS, spare[:most])


EINSUM: Rules = {EinsumOp: [_einsum]}
