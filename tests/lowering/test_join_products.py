"""When a product and a sum become one instruction: only if nobody misses what it overwrites."""

import pytest

from ge.dialects.dtypes import F32, I32
from ge.lowering.kernels.description import Step, Value
from ge.lowering.kernels.join_products import join_products

FULL, ROW = Value(("m", "n"), F32), Value(("m",), F32)
MADE = (Step("vexp", "a", ("x",)), Step("vmul", "p", ("a", "y")), Step("vadd", "z", ("p", "c")))


def test_a_factor_that_nobody_reads_again_is_overwritten() -> None:
    values = {"a": FULL, "p": FULL, "z": FULL}
    assert join_products(MADE, values, ()) == (
        Step("vexp", "z", ("x",)),
        Step("vfma", "z", ("y", "c")),
    )
    assert values == {"z": FULL}


def test_numbers_become_tiles() -> None:
    values = {"a": FULL, "p": FULL, "z": FULL}
    steps = (MADE[0], Step("vmuls", "p", ("a",), (2.0,)), MADE[2])
    *before, joined = join_products(steps, values, ())
    number = before[-1]
    assert (number.instr, number.numbers, values[number.out]) == ("vfill", (2.0,), Value((), F32))
    assert joined == Step("vfma", "z", (number.out, "c"))


@pytest.mark.parametrize(
    ("steps", "values", "keep"),
    [
        pytest.param(MADE[1:], {"p": FULL, "z": FULL}, (), id="the factor is an operand"),
        pytest.param(MADE, {"a": ROW, "p": FULL, "z": FULL}, (), id="the factor is smaller"),
        pytest.param(MADE, {"a": FULL, "p": FULL, "z": FULL}, ("a",), id="others read the factor"),
        pytest.param(MADE, {"a": FULL, "p": FULL, "z": FULL}, ("p",), id="others read the product"),
        pytest.param(
            (*MADE, Step("vabs", "w", ("p",))),
            {"a": FULL, "p": FULL, "z": FULL, "w": FULL},
            (),
            id="the product is read again",
        ),
        pytest.param(
            (*MADE, Step("vabs", "w", ("a",))),
            {"a": FULL, "p": FULL, "z": FULL, "w": FULL},
            (),
            id="the factor is read again",
        ),
        pytest.param(
            (MADE[0], Step("vmul", "p", ("a", "a")), MADE[2]),
            {"a": FULL, "p": FULL, "z": FULL},
            (),
            id="a square",
        ),
        pytest.param(
            MADE, dict.fromkeys("apz", Value(("m", "n"), I32)), (), id="integers have no such sum"
        ),
        pytest.param(
            (
                MADE[0],
                Step("vmuls", "p", ("a",), (2.0,)),
                Step("vadds", "z", ("p",), (1.0,)),
            ),
            {"a": FULL, "p": FULL, "z": FULL},
            (),
            id="numbers alone are no dearer as two",
        ),
        pytest.param(
            (MADE[0], Step("vmul", "p", ("a", "y"), over=("k",)), MADE[2]),
            {"a": FULL, "p": FULL, "z": FULL},
            (),
            id="the product is repeated",
        ),
    ],
)
def test_otherwise_they_stay_two(
    steps: tuple[Step, ...], values: dict[str, Value], keep: tuple[str, ...]
) -> None:
    before = dict(values)
    assert join_products(steps, values, keep) == tuple(steps)
    assert values == before
