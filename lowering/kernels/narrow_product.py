"""A product that is rounded to f16 and has a factor of f16: multiplied in f16, at half the cost."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from ge.dialects.dtypes import F16, F32
from ge.lowering.kernels.description import Step, Value


def narrow_product(
    steps: Sequence[Step], values: dict[str, Value], keep: Container[str]
) -> tuple[Step, ...]:
    """`y = half(a * wide(b))` as the last step becomes `y = half(a); y = y * b`.

    That is what a framework's f16 operators round, too. `b` is of f16 already, and nobody but the
    product reads it widened; `a` is a tile like `y`. What is not used any more leaves `values`.
    """
    found = tuple(steps)
    if len(found) < 2 or not _halves(found[-1], values):
        return found
    product, last = found[-2:]
    if product.instr != "vmul" or last.ins != (product.out,) or product.over or product.out in keep:
        return found
    for factor, other in (product.ins, product.ins[::-1]):
        widened = _widened(found, factor, values)
        if widened is not None and _like(values.get(other), values[last.out]):
            del values[factor], values[product.out]
            before = [step for step in found[:-2] if step is not widened]
            half = replace(last, ins=(other,))
            return (*before, half, Step("vmul", last.out, (last.out, *widened.ins)))
    return found


def _halves(step: Step, values: Mapping[str, Value]) -> bool:
    out = values.get(step.out)
    return step.instr == "vconv" and out is not None and out.dtype is F16 and step.when is None


def _widened(steps: Sequence[Step], name: str, values: Mapping[str, Value]) -> Step | None:
    """The step that makes a factor out of one of f16, if only the product reads it."""
    uses = [step for step in steps if name in (step.out, *step.ins)]
    made, *readers = uses
    if (made.instr, made.words, made.out) != ("vconv", ("rint",), name) or len(readers) != 1:
        return None
    return made if name in values and values[name].dtype is F32 else None


def _like(value: Value | None, other: Value) -> bool:
    return value is not None and value.dtype is F32 and value.dims == other.dims
