"""Einstein's sums of all shapes against onnxruntime."""

from __future__ import annotations

import pytest

from ge.lowering.pipelines import Options
from tests.compiled import check
from tests.models import Net

EQUATIONS = {
    "ij,jk->ik": ((3, 4), (4, 5)),
    "bij,bkj->bik": ((2, 3, 4), (2, 5, 4)),
    "bhid,bhjd->bhij": ((2, 3, 4, 5), (2, 3, 6, 5)),
    "...ij,...jk->...ik": ((2, 3, 4, 5), (2, 3, 5, 2)),
    "ij->ji": ((3, 4),),
    "ij->": ((3, 4),),
    "ij->i": ((3, 4),),
    "i,i": ((7,), (7,)),
    "i,j->ij": ((3,), (4,)),
    "ii->i": ((5, 5),),
    "ii": ((5, 5),),
    "bii->b": ((2, 4, 4),),
    "ij,ij->ij": ((3, 4), (3, 4)),
    "ij,jk,kl->il": ((2, 3), (3, 4), (4, 5)),
    "bij,jk->bik": ((2, 3, 4), (4, 5)),
    "nc,nchw->nhw": ((2, 3), (2, 3, 4, 5)),
    "i...,ij->j...": ((3, 2, 4), (3, 5)),
    "abc,cd,ae->bde": ((2, 3, 4), (4, 5), (2, 6)),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_sums_are_those_of_onnxruntime(equation: str) -> None:
    shapes = EQUATIONS[equation]
    names = [f"x{i}" for i in range(len(shapes))]
    net = Net(0)
    made = net("Einsum", *names, equation=equation)
    model = net.model(dict(zip(names, shapes, strict=True)), [made], 17)
    check(model, Options(target="tiny"))
