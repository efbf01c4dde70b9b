import random

import numpy as np
import pytest

from ge.dialects.diagnostics import CheckFailed
from ge.runtime.hazards import Hazard
from ge.runtime.overlap import Pattern, touch
from ge.runtime.simulator import simulate
from tests.machine_programs import machine_program

LOAD = "la x2, arena\n ld.ub ub[0], gm[x2], size=[64], strides=[1], f32\n"
USE = "vadd ub[0x400], ub[0], ub[0], size=[64], ds=[1], sa=[1], sb=[1], f32\n"
STORE = "st.gm gm[x2], ub[0x400], size=[64], ds=[1], ss=[1], f32\n"


def hazards(body: str, cores: int = 1) -> tuple[Hazard, ...]:
    program = machine_program(body, "ascend910b1" if cores > 2 else "tiny", cores)
    return simulate(program, mode="functional", check_hazards=True).hazards


def flag(source: str, target: str, number: int = 0) -> str:
    return f"set_flag {source}, {target}, {number}\n wait_flag {source}, {target}, {number}\n"


def test_a_missing_flag_is_found() -> None:
    (found,) = hazards(LOAD + USE)
    assert "core 0 mte2v 'ld.ub ub[0x0], gm[x2]" in found.first
    assert "(main+1)" in found.first
    assert "core 0 v 'vadd " in found.second
    assert "(main+2)" in found.second
    assert found.why == "bytes in ub[0x0..0x100)"


def test_a_pair_of_instructions_is_reported_once() -> None:
    loop = f"loop 5, .Le\n {LOAD}{USE} .Le: halt"
    # The addition reads what the load writes, and the next load overwrites it.
    assert len(hazards(loop)) == 1


@pytest.mark.parametrize("order", [flag("mte2v", "v"), "barrier\n", "sync.arrive\n sync.wait\n"])
def test_what_is_ordered_is_not_reported(order: str) -> None:
    assert hazards(LOAD + order + USE) == ()


def test_order_passes_through_other_units() -> None:
    there = flag("mte2v", "v") + flag("v", "mte3")
    overwrite = "st.l1 l1[0], ub[0], size=[64], ds=[1], ss=[1], f32\n"
    assert hazards(LOAD + there + overwrite) == ()
    assert len(hazards(LOAD + flag("v", "mte3") + overwrite)) == 1


def test_a_wait_before_its_set_orders_too() -> None:
    body = f"wait_flag mte2v, v, 0\n {USE} {LOAD} set_flag mte2v, v, 0\n"
    assert hazards(body) == ()


def test_reading_twice_is_no_hazard_but_overwriting_is() -> None:
    other = "st.l1 l1[0], ub[0x400], size=[64], ds=[1], ss=[1], f32\n"
    reader = "vadd ub[0x800], ub[0x400], ub[0x400], size=[64], ds=[1], sa=[1], sb=[1], f32\n"
    assert hazards(other + reader) == ()
    assert len(hazards(other + USE)) == 1


def test_a_scalar_load_must_wait_for_the_store() -> None:
    load = "lds x3, gm[x2], i32\n"
    assert len(hazards("la x2, arena\n" + STORE + load)) == 1
    assert hazards("la x2, arena\n" + STORE + "barrier\n" + load) == ()
    assert hazards("la x2, arena\n" + STORE + flag("mte3", "s") + load) == ()
    assert hazards("la x2, arena\n" + load + STORE) == ()


COLUMNS = """
 core x1
 mul x3, x1, {step}
 la x2, arena
 add x2, x2, x3
 st.gm gm[x2], ub[0], size=[16,8], ds=[64,1], ss=[8,1], f32
"""


def test_columns_of_two_cores_do_not_meet() -> None:
    assert hazards(COLUMNS.format(step=32), cores=2) == ()
    found = hazards(COLUMNS.format(step=16), cores=2)
    assert len(found) == 1
    assert found[0].first.startswith("core 0 mte3")
    assert found[0].second.startswith("core 1 mte3")


def test_cores_are_ordered_by_meetings_only() -> None:
    write = "core x1\n mul x3, x1, 256\n la x2, arena\n add x4, x2, x3\n" + STORE.replace(
        "x2", "x4"
    )
    read = "sub x5, x2, x3\n add x5, x5, 256\n" + LOAD.replace("la x2, arena", "").replace(
        "x2", "x5"
    )
    meeting = "sync.arrive\n sync.wait\n"
    assert hazards(write + meeting + read, cores=2) == ()
    assert len(hazards(write + "barrier\n" + read, cores=2)) == 1
    assert hazards(write + "launch\n" + read, cores=2) == ()


def test_between_arrive_and_wait_both_sides_count() -> None:
    own = "core x1\n mul x3, x1, 256\n la x2, arena\n add x4, x2, x3\n"
    store = STORE.replace("x2", "x4")
    load = "sub x5, x2, x3\n add x5, x5, 256\n" + LOAD.replace("la x2, arena", "").replace(
        "x2", "x5"
    )
    # The load may run before the other core has stored, and the store after the other's load.
    assert hazards(own + store + "sync.arrive\n" + load + "sync.wait\n", cores=2)
    assert hazards(own + "sync.arrive\n" + store + "sync.wait\n" + load, cores=2)


def test_an_arrival_covers_what_still_waits_for_a_flag() -> None:
    own = "core x1\n mul x3, x1, 256\n la x2, arena\n add x4, x2, x3\n sub x5, x2, x3\n"
    store = "wait_flag m, mte3, 0\n " + STORE.replace("x2", "x4")
    late = "sync.arrive\n set_flag m, mte3, 0\n sync.wait\n add x5, x5, 256\n"
    load = LOAD.replace("la x2, arena", "").replace("x2", "x5")
    assert hazards(own + store + late + load, cores=2) == ()


def test_flags_left_set_are_reported() -> None:
    (found,) = hazards("set_flag mte2, m, 5")
    assert found.why == "flag mte2 -> m 5 is set and nobody waits for it"


def test_setting_a_flag_needs_an_order_behind_its_last_wait() -> None:
    pair = flag("mte2", "m")
    (found,) = hazards(pair + pair)
    assert found.why == "the flag may still be set when it is set again"
    back = flag("m", "mte2")
    assert hazards(pair + back + pair) == ()


def test_setting_a_set_flag_is_a_fault() -> None:
    with pytest.raises(
        CheckFailed, match=r"core 0: 'set_flag mte2, m, 0' \(main\+1\): error: flag"
    ):
        hazards("set_flag mte2, m, 0\n set_flag mte2, m, 0\n")


PIPELINE = f"""
 set_flag v, mte2v, 0
 set_flag mte3, v, 0
 loop 4, .Le
 wait_flag v, mte2v, 0
 {LOAD}
 set_flag mte2v, v, 0
 wait_flag mte2v, v, 0
 wait_flag mte3, v, 0
 {USE}
 set_flag v, mte2v, 0
 set_flag v, mte3, 0
 wait_flag v, mte3, 0
 st.gm gm[x2+0x4000], ub[0x400], size=[64], ds=[1], ss=[1], f32
 set_flag mte3, v, 0
.Le:
 wait_flag v, mte2v, 0
 wait_flag mte3, v, 0
 halt
"""


@pytest.mark.parametrize("pair", ["v, mte2v", "mte2v, v", "mte3, v", "v, mte3"])
def test_each_flag_pair_of_a_pipeline_matters(pair: str) -> None:
    lines = [line for line in PIPELINE.split("\n") if f"_flag {pair}," not in line]
    assert hazards(PIPELINE) == ()
    assert hazards("\n".join(lines))


def some_pattern(rng: random.Random) -> tuple[Pattern, set[int]]:
    rank = rng.randint(1, 3)
    size = tuple(rng.randint(1, 4) for _ in range(rank))
    strides = tuple(rng.choice([0, 1, 2, 3, 4, 5, 8, 12, 16, 40]) for _ in range(rank))
    run = rng.choice([1, 2, 4])
    offsets = np.zeros(1, np.int64)
    for n, step in zip(size, strides, strict=True):
        offsets = np.add.outer(offsets, np.arange(n) * step).reshape(-1)
    bytes_of = {int(o) + i for o in offsets for i in range(run)}
    return Pattern.of(run, size, strides), bytes_of


def test_overlap_is_exact() -> None:
    rng = random.Random(7)
    seen = {True: 0, False: 0}
    for _ in range(4000):
        (a, bytes_a), (b, bytes_b) = some_pattern(rng), some_pattern(rng)
        gap = rng.randint(-60, 60)
        meets = any(x + gap in bytes_a for x in bytes_b)
        assert touch(gap, a, b) == meets
        seen[meets] += 1
    assert min(seen.values()) > 500
