"""Neighbouring dimensions that every tensor walks as one become one: fewer, longer loops."""

from __future__ import annotations

from dataclasses import replace

from ge.dialects.npu.axes import Axis, dims_of
from ge.lowering.kernels.description import (
    Description,
    DimKind,
    Matrix,
    Operand,
    Statement,
    Value,
    Vector,
)

_PLAIN = (DimKind.PARALLEL, DimKind.REDUCE, DimKind.WHOLE)


def collapse(description: Description) -> Description:
    """The same kernel over as few dimensions as its tensors allow."""
    at = 0
    while at + 1 < len(description.dims):
        merged = _merge(description, at)
        if merged is None:
            at += 1
        else:
            description = merged
    return description


def _merge(d: Description, at: int) -> Description | None:
    """The description with dimensions `at` and `at + 1` as one, or None."""
    outer, inner = d.dims[at], d.dims[at + 1]
    pair = (outer.name, inner.name)
    fixed = [d.until, *(s.when for v in _vectors(d) for s in v.steps)]
    if set(dims_of(tuple(axis for axis in fixed if axis))) & set(pair):
        return None
    same_kind = outer.kind is inner.kind and outer.kind in _PLAIN
    if not same_kind or any(set(s.over) & set(pair) for v in _vectors(d) for s in v.steps):
        return None
    operands = [_operand(o, pair, inner.extent) for o in d.operands]
    results = [_operand(o, pair, inner.extent) for o in d.results]
    values = [(n, _value(v, pair)) for n, v in d.values]
    body = [_statement(s, pair) for s in d.body]
    if None in (*operands, *results, *(v for _, v in values), *body):
        return None
    joined = replace(outer, extent=outer.extent * inner.extent)
    return replace(
        d,
        dims=(*d.dims[:at], joined, *d.dims[at + 2 :]),
        operands=tuple(o for o in operands if o),
        results=tuple(o for o in results if o),
        values=tuple((n, v) for n, v in values if v),
        body=tuple(s for s in body if s),
    )


def _vectors(d: Description) -> list[Vector]:
    return [s for s in d.statements if isinstance(s, Vector)]


def _neighbours(dims: tuple[str, ...], pair: tuple[str, str]) -> bool:
    """Whether a list has the two side by side, or neither of them."""
    if not set(dims) & set(pair):
        return True
    return any(dims[i : i + 2] == pair for i in range(len(dims) - 1))


def _without(dims: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    return tuple(d for d in dims if d != pair[1])


def _value(value: Value, pair: tuple[str, str]) -> Value | None:
    if not _neighbours(value.dims, pair):
        return None
    return replace(value, dims=_without(value.dims, pair))


def _statement(statement: Statement, pair: tuple[str, str]) -> Statement | None:
    if not isinstance(statement, Matrix):
        return statement
    if not _neighbours(statement.over, pair):
        return None
    return replace(statement, over=_without(statement.over, pair))


def _operand(operand: Operand, pair: tuple[str, str], extent: int) -> Operand | None:
    """The operand with its two axes as one, if the memory runs through them without a gap."""
    if not set(operand.depends) & set(pair):
        return operand
    plain = [Axis(((d, 1),)) for d in pair]
    for i in range(len(operand.axes) - 1):
        axes = list(operand.axes[i : i + 2])
        strides = operand.strides[i : i + 2]
        # A tensor that is padded along the inner one ends before the dimension does.
        whole = operand.shape[i + 1] == extent
        others = dict.fromkeys(
            d for j, a in enumerate(operand.axes) if j not in (i, i + 1) for d, _ in a.terms
        )
        dense = whole and strides[0] == strides[1] * extent
        if axes == plain and dense and not others.keys() & set(pair):
            return replace(
                operand,
                axes=(*operand.axes[:i], plain[0], *operand.axes[i + 2 :]),
                shape=(
                    *operand.shape[:i],
                    operand.shape[i] * operand.shape[i + 1],
                    *operand.shape[i + 2 :],
                ),
                strides=(*operand.strides[:i], strides[1], *operand.strides[i + 2 :]),
            )
    return None
