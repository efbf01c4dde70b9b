from math import ceil

import pytest

from ge.dialects.diagnostics import CheckFailed, UnsupportedError
from ge.dialects.npu import target as targets
from ge.runtime.simulator import Simulator, simulate
from ge.runtime.stats import Stats
from ge.timing.engine import Span
from tests.machine_programs import machine_program

TINY = targets.load("tiny")
START = round(TINY.launch_us * TINY.clock_mhz)
"""Where the clock stands before the first instruction."""
LATENCY = TINY.rates["gm_ub"].latency_miss or 0
LOAD = "ld.ub ub[x1+{at:#x}], gm[x2], size=[{rows},256], strides=[256,1], f32"
ADD = (
    "vadd ub[x1+{at:#x}], ub[x1+{at:#x}], ub[x1+{at:#x}], size=[1024], ds=[1], sa=[1], sb=[1], f32"
)


def timed(body: str, target: str = "tiny", cores: int = 1) -> Stats:
    return simulate(machine_program(body, target, cores), mode="timing").stats


def spans(body: str, target: str = "tiny") -> dict[str, list[Span]]:
    program = machine_program(body, target)
    result = simulate(program, mode="timing", trace=True)
    assert result.trace is not None
    found: dict[str, list[Span]] = {}
    for event in result.trace["traceEvents"]:
        if event["ph"] == "X":
            mhz = result.stats.target.clock_mhz
            start, length = round(event["ts"] * mhz), round(event["dur"] * mhz)
            index = int(event["args"]["at"].rpartition("+")[2])
            span = Span(event["tid"], index, -1, start, start + length)
            found.setdefault(event["name"], []).append(span)
    return found


def test_one_load_costs_the_formula() -> None:
    # Rows cost nothing here, and issue is less than bytes / rate = 8192 / 126.
    stats = timed("la x2, arena\n ld.ub ub[0], gm[x2], size=[8,256], strides=[256,1], f32")
    busy = -(-8192 // 126)
    assert stats.unit_busy is not None
    assert stats.unit_busy["mte2v"] == busy
    assert stats.cycles == START + 2 + 2 + busy + LATENCY


def test_a_hit_is_sooner_than_a_miss() -> None:
    load = "la x2, arena\n ld.l1 l1[0], gm[x2], size=[128,16], strides=[128,1], f32, miss={}"
    hit, miss = timed(load.format(0)), timed(load.format(256))
    assert hit.cycles is not None
    assert miss.cycles is not None
    rate = TINY.rates["gm_l1"]
    assert rate.row_miss is not None
    assert rate.latency_miss is not None
    assert hit.cycles == START + 4 + ceil(20 + 128 * rate.row) + rate.latency
    assert miss.cycles == START + 4 + ceil(20 + 128 * rate.row_miss) + rate.latency_miss
    assert (hit.hbm_read, miss.hbm_read) == (0, 8192)


def test_one_matrix_product_costs_the_formula() -> None:
    stats = timed("mmad l0c[0], l0a[0], l0b[0], m=32, n=17, k=40, init=1, f16")
    rate = TINY.rates["mmad"]
    cubes = 2 * 2 * 3
    assert stats.cycles == START + 2 + rate.start + cubes + rate.idle + rate.latency


def test_one_vector_instruction_costs_the_formula() -> None:
    one = "vadd ub[0], ub[0], ub[0], size=[1000], ds=[1], sa=[1], sb=[1], f16"
    repeats, idle, latency = -(-2000 // 256), 12, 14
    assert timed(one).cycles == START + 2 + repeats * 2 + idle + latency
    # Two vector units take half the repeats each.
    wide = timed(one, "ascend910b1")
    start = round(wide.target.launch_us * 1850)
    assert wide.cycles == start + 2 + repeats // 2 * 2 + idle + latency


def test_back_to_back_work_does_not_find_the_unit_idle() -> None:
    one = "vfill ub[0], 0.0, size=[64000], ds=[0], f32\n"
    first, second = spans(one * 2)["vfill"]
    assert second.start == first.end
    assert first.end - first.start == second.end - second.start + 12


def test_a_second_buffer_hides_the_loads() -> None:
    def loop(buffers: int) -> str:
        return f"""
        la x2, arena
        loop {buffers}, .Lset
        set_flag v, mte2v, x3
        add x3, x3, 1
        .Lset: li x3, 0
        loop 32, .Lend
        mul x1, x3, 4096
        wait_flag v, mte2v, x3
        {LOAD.format(at=0, rows=4)}
        set_flag mte2v, v, x3
        wait_flag mte2v, v, x3
        {ADD.format(at=0)}
        {ADD.format(at=0)}
        set_flag v, mte2v, x3
        add x3, x3, 1
        mod x3, x3, {buffers}
        .Lend: halt"""

    one, two, four = (timed(loop(n)).cycles for n in (1, 2, 4))
    assert one is not None
    assert two is not None
    assert four is not None
    # A load is 33 cycles and its latency, two additions 76, the flags 24.
    assert one - START > 32 * (33 + LATENCY + 76)
    assert two - START < 0.6 * (one - START)
    assert four < two


def test_a_wait_may_come_before_its_set() -> None:
    early = spans(
        "wait_flag mte2v, v, 0\n vfill ub[0], 0.0, size=[64], ds=[1], f32\n la x2, arena\n"
        "ld.ub ub[0x400], gm[x2], size=[64], strides=[1], f32\n set_flag mte2v, v, 0"
    )
    # Load: issue 20, its latency, then the flag's 12 cycles.
    assert early["vfill"][0].start == early["ld.ub"][0].start + 20 + LATENCY + 12


def test_a_deadlock_names_both_ends() -> None:
    with pytest.raises(CheckFailed) as e:
        timed("wait_flag mte2, m, 3\n wait_flag m, mte2, 1\n set_flag m, mte2, 1\n barrier")
    assert "m waits at 'wait_flag mte2, m, 3' (main+0)" in str(e.value)
    assert "mte2 waits at 'wait_flag m, mte2, 1' (main+1)" in str(e.value)
    assert "mte2 itself waits at 'wait_flag m, mte2, 1' (main+1)" in str(e.value)


def test_a_full_queue_whose_head_waits_is_a_deadlock() -> None:
    fill = "vfill ub[0], 0.0, size=[64], ds=[1], f32\n"
    ends = "set_flag mte2, v, 0"
    assert timed(f"wait_flag mte2, v, 0\n{fill * 31}{ends}").cycles
    with pytest.raises(CheckFailed, match="queue full"):
        timed(f"wait_flag mte2, v, 0\n{fill * 32}{ends}")


def test_the_scalar_unit_waits_for_room_in_a_queue() -> None:
    body = (
        "vfill ub[0], 0.0, size=[64000], ds=[0], f32\n" * 40
        + "mmad l0c[0], l0a[0], l0b[0], 16, 16, 16, 1, f16"
    )
    body = body.replace("16, 16, 16, 1,", "m=16, n=16, k=16, init=1,")
    found = spans(body)
    # The 40th fill needs a slot, and the eighth leaves its own when it starts.
    assert found["mmad"][0].start == found["vfill"][7].start + 2


@pytest.mark.parametrize("cores", [1, 2])
def test_memory_is_shared_by_the_cores(cores: int) -> None:
    target = targets.load("tiny")
    loads = 400
    body = f"la x2, arena\n loop {loads}, .Lend\n {LOAD.format(at=0, rows=4)}\n .Lend: halt"
    slow = simulate(machine_program(body, "ascend910b1", 24), mode="timing").stats
    assert slow.cycles is not None
    rate = slow.target.bytes_per_cycle("hbm")
    credit = slow.target.limits["hbm"].credit_cycles
    assert slow.hbm_read == 24 * loads * 4096
    assert slow.cycles >= slow.hbm_read / rate - credit
    alone = simulate(machine_program(f"share n=1\n{body}", "ascend910b1", 24), mode="timing").stats
    assert alone.cycles is not None
    assert alone.cycles < 0.6 * slow.cycles
    small = timed(body, cores=cores)
    assert small.cycles is not None
    assert small.cycles >= small.hbm_read / target.bytes_per_cycle("hbm") - credit


def test_posted_writes_count_before_the_program_ends() -> None:
    store = "st.gm gm[x2], ub[0], size=[1024], ds=[1], ss=[1], f32"
    body = f"la x2, arena\n loop 2000, .Lend\n {store}\n .Lend: halt"
    stats = simulate(machine_program(body, "ascend910b1", 24), mode="timing").stats
    assert stats.cycles is not None
    least = stats.hbm_write / stats.target.bytes_per_cycle("hbm")
    assert stats.cycles >= least - stats.target.limits["hbm"].credit_cycles


@pytest.mark.parametrize(
    "move",
    [
        "ld.ub ub[0], gm[x2], size=[4096], strides=[1], f32",
        "st.gm gm[x2], ub[0], size=[4096], ds=[1], ss=[1], f32",
    ],
)
@pytest.mark.parametrize("count", [1, 20, 300])
def test_no_burst_is_faster_than_the_peak(move: str, count: int) -> None:
    body = f"la x2, arena\n loop {count}, .Lend\n {move}\n .Lend: halt"
    stats = simulate(machine_program(body, "ascend910b1", 24), mode="timing").stats
    target = stats.target
    assert stats.cycles is not None
    peak = target.per_cycle(target.limits["hbm"].peak_bytes_per_second)
    moved = stats.hbm_read + stats.hbm_write
    assert moved == 24 * count * 16384
    assert stats.cycles - target.launch_us * target.clock_mhz >= moved / peak


def test_a_library_call_costs_the_scalar_unit_its_cycles() -> None:
    program = machine_program("vfill ub[0], 0.0, size=[64], ds=[0], f32\n" * 100, "tiny", 1)
    called = Simulator(program, targets.varied("tiny", {"sync": {"call": 50}}))
    plain, slow = Simulator(program).run(mode="timing").stats, called.run(mode="timing").stats
    assert plain.unit_busy is not None
    assert slow.unit_busy is not None
    assert slow.unit_busy["s"] == plain.unit_busy["s"] + 100 * 50
    assert slow == called.run(mode="timing", skip=False).stats


def test_a_row_of_the_tile_is_a_row_of_fractals_wherever_it_lies() -> None:
    load = "la x2, arena\n ld.l1 l1[0], gm[x2], size=[{}], strides=[{}], f32, miss=0"
    rows, dense = (timed(load.format(*x)).cycles for x in (("128,16", "16,1"), ("2048", "1")))
    assert rows is not None
    assert dense is not None
    assert rows > dense + 300


def test_coupled_cores_have_one_queue_for_loads() -> None:
    body = (
        "la x2, arena\n ld.l1 l1[0], gm[x2], size=[64,128], strides=[128,1], f32\n"
        "ld.ub ub[0], gm[x2], size=[4,128], strides=[128,1], f32"
    )
    split, coupled = spans(body, "ascend910b1"), spans(body, "ascend910a")
    assert split["ld.ub"][0].start < split["ld.l1"][0].end
    assert coupled["ld.ub"][0].start == coupled["ld.l1"][0].end
    stats = timed(body, "ascend910a")
    assert stats.unit_busy is not None
    assert "mte2v" not in stats.unit_busy


def test_what_a_target_lacks_is_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="'ascend910a' has no 'mmad' for f32"):
        timed("mmad l0c[0], l0a[0], l0b[0], m=16, n=16, k=16, init=1, f32", "ascend910a")


def test_cores_meet_at_the_last_arrival() -> None:
    fill = "vfill ub[0], 0.0, size=[64000], ds=[0], f32"
    stats = timed(f"core x1\n loop x1, .Le\n {fill}\n .Le: sync.arrive\n sync.wait", cores=2)
    # Core 1: three scalar instructions, then the fill and its result; then the way to core 0.
    busy = 12 + 64000 * 4 // 256
    assert stats.cycles == START + 3 * 2 + busy + 14 + 250 + 2


def test_launches_are_as_slow_as_the_host() -> None:
    kernel = "vfill ub[0], 0.0, size=[64], ds=[1], f32\n"
    host, launch, fill = round(TINY.host_dispatch_us * TINY.clock_mhz), START, 13 + 14
    one = timed(kernel)
    three = timed(f"launch\n{kernel}" * 3)
    long = timed(f"launch\nvfill ub[0], 0.0, size=[4000000], ds=[1], f32\nlaunch\n{kernel}")
    assert (one.launches, three.launches) == (1, 3)
    assert one.cycles == launch + 2 + fill
    # Short kernels: the host dispatches the third after three times its own time.
    assert three.cycles == 3 * host + 2 + fill
    # A long one: the next starts a launch after its end.
    end = host + 2 + 12 + 4000000 // 64 + 14
    assert long.cycles == end + launch + 2 + fill


def test_scalar_loads_wait_for_their_data() -> None:
    body = "la x2, arena\n lds x3, gm[x2], i32\n vfill ub[0], 0.0, size=[64], ds=[1], f32"
    assert spans(body)["vfill"][0].start > START + 4 + 500


def test_two_runs_take_the_same_cycles() -> None:
    flags = "set_flag mte2v, v, 0\n wait_flag mte2v, v, 0"
    body = f"la x2, arena\n loop 9, .Le\n {LOAD.format(at=0, rows=3)}\n {flags}\n .Le: halt"
    assert timed(body, cores=2).to_json() == timed(body, cores=2).to_json()
