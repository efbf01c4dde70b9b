"""The tables are whole: each kind of kernel has a description, each fusion an example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ge.dialects.fused.ops import KERNEL_OPS
from ge.lowering.fusions import FUSIONS, Fusion
from ge.lowering.kernels.table import KERNELS

EXAMPLES = Path(__file__).parents[1] / "filecheck" / "lowering" / "fuse-kernels.mlir"


def test_every_kind_of_kernel_is_described() -> None:
    assert set(KERNELS) == set(KERNEL_OPS)


@pytest.mark.parametrize("fusion", FUSIONS, ids=[f.name for f in FUSIONS])
def test_every_fusion_has_an_example(fusion: Fusion) -> None:
    assert re.search(rf"// CHECK.*\b{fusion.name} = [1-9]", EXAMPLES.read_text())
