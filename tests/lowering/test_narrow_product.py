"""When a last product is multiplied in halves: if one factor is of halves, and nothing is lost."""

import pytest

from ge.dialects.dtypes import F16, F32
from ge.lowering.kernels.description import Step, Value
from ge.lowering.kernels.narrow_product import narrow_product

FULL, HALF = Value(("m", "n"), F32), Value(("m", "n"), F16)
RINT = ("rint",)
STEPS = (
    Step("vexp", "a", ("x",)),
    Step("vconv", "b", ("z",), words=RINT),
    Step("vmul", "p", ("a", "b")),
    Step("vconv", "y", ("p",), words=RINT),
)


def _values() -> dict[str, Value]:
    return {"a": FULL, "b": FULL, "p": FULL, "y": HALF}


def test_the_other_factor_is_rounded_instead_of_the_product() -> None:
    values = _values()
    assert narrow_product(STEPS, values, ()) == (
        STEPS[0],
        Step("vconv", "y", ("a",), words=RINT),
        Step("vmul", "y", ("y", "z")),
    )
    assert values == {"a": FULL, "y": HALF}


@pytest.mark.parametrize(
    ("steps", "more", "keep"),
    [
        pytest.param(STEPS, {"y": FULL}, (), id="the result is no half"),
        pytest.param(STEPS, {"a": Value(("n",), F32)}, (), id="the other factor is smaller"),
        pytest.param(STEPS, {}, ("p",), id="others read the product"),
        pytest.param(STEPS[:1] + STEPS[2:], {}, (), id="no factor was a half"),
        pytest.param(
            (*STEPS[:2], Step("vadd", "a", ("a", "b")), *STEPS[2:]), {}, (), id="b is read again"
        ),
        pytest.param(STEPS[:3], {}, (), id="the product is the result"),
    ],
)
def test_it_stays_where_that_is_not_so(
    steps: tuple[Step, ...], more: dict[str, Value], keep: tuple[str, ...]
) -> None:
    assert narrow_product(steps, _values() | more, keep) == steps
