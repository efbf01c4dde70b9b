"""A product and the sum it goes into as one instruction that scales a tile in place and adds."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from ge.dialects.dtypes import DType
from ge.lowering.kernels.description import Step, Value

SCALED = {"vmul": 2, "vmuls": 1}
"""Products, and the tiles that each takes."""
ADDED = {"vadd": 2, "vadds": 1}
COSTLY = frozenset({"vmul", "vadd"})
"""Of a product and a sum with numbers alone nothing is gained."""


def join_products(
    steps: Sequence[Step], values: dict[str, Value], keep: Container[str]
) -> tuple[Step, ...]:
    """`steps` with `vfma` where a product has one reader, which adds to it.

    The factor that is overwritten must be a tile of `values` that nobody reads afterwards; names
    in `keep` are read by others. Values that are not used any more leave `values`.
    """
    found = list(steps)
    at = 0
    while at < len(found):
        product = _product(found, at, keep)
        joined = product is not None and _joined(found, product, at, values, keep)
        at = at if joined else at + 1
    return tuple(found)


def _uses(steps: Sequence[Step], name: str) -> list[int]:
    return [i for i, s in enumerate(steps) if name in (s.out, *s.ins)]


def _product(steps: list[Step], at: int, keep: Container[str]) -> int | None:
    """The place of a product that the sum at `at` is the only reader of."""
    step = steps[at]
    if step.instr not in ADDED or step.over:
        return None
    for name in step.ins:
        uses = _uses(steps, name)
        made = steps[uses[0]]
        once = len(uses) == 2 and uses[1] == at and step.ins.count(name) == 1
        joins = made.instr in SCALED and made.out == name and not made.over
        if once and joins and name not in keep and {made.instr, step.instr} & COSTLY:
            return uses[0]
    return None


def _joined(
    steps: list[Step], first: int, second: int, values: dict[str, Value], keep: Container[str]
) -> bool:
    """Replace the two steps by one, if one of the factors may be overwritten; whether it was."""
    product, total = steps[first], steps[second]
    result = values.get(total.out)
    if result is None or not result.dtype.is_float:
        return False
    for factor in dict.fromkeys(product.ins):
        if product.ins.count(factor) == 1 and _free(steps, factor, first, result, values, keep):
            break
    else:
        return False
    others = [name for name in product.ins if name != factor]
    terms = [name for name in total.ins if name != product.out]
    before: list[Step] = []
    for names, numbers in ((others, product.numbers), (terms, total.numbers)):
        if not names:
            names.append(_number(numbers[0], result.dtype, values, before))
    step = Step("vfma", factor, (*others, *terms))
    steps[second : second + 1] = [*before, step]
    del steps[first], values[product.out]
    for i, s in enumerate(steps):
        ins = tuple(total.out if name == factor else name for name in s.ins)
        steps[i] = replace(s, out=total.out if s.out == factor else s.out, ins=ins)
    del values[factor]
    return True


def _free(
    steps: list[Step],
    factor: str,
    at: int,
    result: Value,
    values: dict[str, Value],
    keep: Container[str],
) -> bool:
    """Whether a factor is a tile like the result that is read for the last time at `at`."""
    uses = _uses(steps, factor)
    own = values.get(factor) == result and factor not in keep
    return own and uses[-1] == at and not any(steps[i].over for i in uses)


def _number(number: float, dtype: DType, values: dict[str, Value], steps: list[Step]) -> str:
    """A tile of one element that holds a number."""
    name = f"n{len(values)}"
    while name in values:
        name += "_"
    values[name] = Value((), dtype)
    steps.append(Step("vfill", name, (), (number,)))
    return name
