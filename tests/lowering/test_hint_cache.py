"""How much of a load or store is said to reach device memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr

from ge.dialects.fused.base import FusedOp
from ge.dialects.npu.isa.move import MISS_ALL
from ge.dialects.npu.tree import BufferOp, MoveOp
from ge.lowering.hint_cache import HintCachePass
from ge.lowering.pipelines import Level, Options, passes
from ge.runtime.driver import begin
from ge.runtime.source import Source
from tests.models import Net


def misses(model: Any, tiling: str = "", **how: Any) -> dict[str, set[int]]:
    """By operand: the 256ths that its moves from and to device memory are hinted with."""
    compilation = begin(Source(model), Options())
    compilation.lower_to(Level.FUSED)
    for op in compilation.module.walk():
        if tiling and isinstance(op, FusedOp):
            op.properties["tiling"] = StringAttr(tiling)
    found: dict[str, set[int]] = {}
    for stage in passes(Level.FUSED, compilation.options):
        compilation.run([HintCachePass(**how) if stage.name == "hint-cache" else stage])
        if stage.name == "hint-cache":
            break
    for op in compilation.module.walk():
        if isinstance(op, MoveOp):
            for value in (op.source, op.target):
                if not isinstance(value.owner, BufferOp):
                    miss = MISS_ALL if op.miss is None else op.miss.value.data
                    found.setdefault(value.name_hint or "", set()).add(miss)
    return found


def added(n: int) -> Any:
    net = Net()
    return net.model({"a": (n, 4096), "b": (n, 4096)}, [net("Add", "a", "b")], 17)


def test_what_a_program_leaves_reaches_device_memory() -> None:
    assert misses(added(1024)) == {"x0": {MISS_ALL}, "x1": {MISS_ALL}, "y": {MISS_ALL}}


@pytest.mark.parametrize(
    ("rows", "stream", "stays"),
    [(1024, (), True), (8192, (), False), (8192, ("a", "b"), True), (8192, ("a",), False)],
)
def test_it_may_stay_in_the_cache_where_all_that_goes_through_fits(
    rows: int, stream: tuple[str, ...], stays: bool
) -> None:
    found = misses(added(rows), stay=True, stream=stream)
    assert found["y"] == {0 if stays else MISS_ALL}
    assert found["x0"] == {MISS_ALL}


def product(m: int, k: int, n: int) -> Any:
    net = Net()
    return net.model({"a": (m, k), "b": (k, n)}, [net("MatMul", "a", "b")], 17)


def test_what_comes_back_while_the_cache_holds_it_is_a_hit() -> None:
    tiling = "block m=128 n=256; nest acc k=64; load a acc_k64; load b acc_k64"
    found = misses(product(2048, 1024, 2048), tiling)
    # Eight columns of blocks read a's rows, sixteen rows of blocks read b's columns.
    assert found["a"] == {MISS_ALL // 8}
    assert found["b"] == {MISS_ALL // 16}


def test_what_comes_back_too_late_is_a_miss() -> None:
    tiling = "block m=128 n=256; nest acc k=64; load a acc_k64; load b acc_k64"
    found = misses(product(512, 8192, 16384), tiling)
    # One row of blocks reads half a gigabyte of b before the next begins again.
    assert found["b"] == {MISS_ALL}
    assert found["a"] == {MISS_ALL // 64}


def test_a_short_loop_over_a_repeated_operand_costs_one_pass() -> None:
    net = Net()
    shape = np.array([4, 16384, 8192])
    scaled = net("Mul", net("Expand", "x", shape), net.normal(4, 1, 1))
    model = net.model({"x": (16384, 8192)}, [scaled], 17)
    apart = misses(model, "block d0=1 d1=16384")
    assert apart["x0"] == {MISS_ALL}
    close = misses(model, "block d0=4 d1=16384; inner d0=1; pin x0 inner_d0")
    assert close["x0"] == {MISS_ALL // 4}
