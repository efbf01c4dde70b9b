import gc
import json
from operator import itemgetter
from typing import Any
from weakref import ref

import numpy as np
import pytest

from ge.codegen.manual import EXAMPLE
from ge.codegen.parse_asm import parse_asm
from ge.dialects.diagnostics import CheckFailed, DoesNotFit, InputError
from ge.dialects.npu.program import Program
from ge.runtime.report import report
from ge.runtime.simulator import Simulator, simulate
from tests.machine_programs import machine_program

DOUBLE = """
.target tiny, cores=2
.input in0, "x", f32, 4x64
.output out0, "y", f32, 4x64
.arena 1024
.kernel k0, "Add", "/double"
k0:
 core x1
 mul x2, x1, 512
 la x3, in0
 add x3, x3, x2
 ld.ub ub[0], gm[x3], size=[2,64], strides=[64,1], f32
 set_flag mte2v, v, 0
 wait_flag mte2v, v, 0
 vadd ub[0x400], ub[0], ub[0], size=[128], ds=[1], sa=[1], sb=[1], f32
 set_flag v, mte3, 0
 wait_flag v, mte3, 0
 la x4, out0
 add x4, x4, x2
 st.gm gm[x4], ub[0x400], size=[2,64], ds=[64,1], ss=[64,1], f32
 ret
.function main
main:
 call k0
 sync.arrive
 sync.wait
 call k0
 halt
"""
X = np.arange(256, dtype=np.float32).reshape(4, 64)


def double() -> Program:
    return parse_asm(DOUBLE)


def fault(body: str) -> str:
    with pytest.raises(CheckFailed) as e:
        simulate(machine_program(body), mode="functional")
    return str(e.value)


def test_numbers_and_cycles_come_from_one_walk() -> None:
    both = simulate(double(), {"x": X}, check_hazards=True)
    numbers = simulate(double(), {"x": X}, mode="functional")
    cycles = simulate(double(), mode="timing")
    np.testing.assert_array_equal(both.outputs["y"], 2 * X)
    np.testing.assert_array_equal(numbers.outputs["y"], 2 * X)
    assert cycles.outputs == {}
    assert both.stats.cycles == cycles.stats.cycles
    assert numbers.stats.cycles is None
    assert both.hazards == ()
    assert both.stats.instructions == numbers.stats.instructions == 2 * (2 * 14 + 5)


def test_statistics_have_the_documented_fields() -> None:
    stats = simulate(double(), {"x": X}, check_hazards=True).stats
    found = json.loads(json.dumps(stats.to_json()))
    assert list(found) == [
        *("target", "cores", "clock_mhz", "cycles", "us", "instructions", "units", "kernels"),
        *("hbm", "memory", "launches", "hazards", "l2_bytes", "roofline"),
    ]
    assert found["hbm"] == {"read_bytes": 2048, "write_bytes": 2048}
    assert found["memory"]["peak_bytes"] == 3072
    assert (found["launches"], found["hazards"]) == (1, 0)
    first, second = found["kernels"]
    assert list(first)[:5] == ["name", "source_ops", "cycles", "start", "unit_busy"]
    assert (first["hbm_bytes"], first["l2_bytes"]) == (2048, 2048)
    # Each core adds two repeats of 256 bytes, of two cycles each; the memory needs one cycle.
    assert first["roofline"] == {"bound": "v", "cycles": 4}
    assert (first["name"], first["source_ops"]) == ("Add", ["/double"])
    assert second["start"] > first["start"] + first["cycles"]
    # Two cores load 512 bytes each in both passes: 20 cycles are the least a load takes.
    assert first["unit_busy"]["mte2v"] == 2 * 20
    assert found["units"]["mte2v"]["busy_cycles"] == 4 * 20
    text = report(stats)
    assert "/double" in text
    assert "l2: 4,096 B" in text
    titles = next(line for line in text.splitlines() if line.startswith("kernel"))
    for title in ("cycles", "share", "bound by", "mte2v", "hbm bytes", "l2 bytes", "roofline"):
        assert title in titles


def test_shared_code_belongs_to_the_kernel_that_calls_it() -> None:
    text = DOUBLE.replace('.kernel k0, "Add", "/double"', ".function k0").replace(
        " call k0\n sync",
        '.kernel first, "Add", "/a"\nfirst:\n call k0\n ret\n.function none\nnone:\n ret\n',
        0,
    )
    text = text.replace(
        ".function main\nmain:\n call k0",
        '.kernel ka, "A", "/a"\nka:\n call k0\n ret\n'
        '.kernel kb, "B", "/b"\nkb:\n call k0\n ret\n.function main\nmain:\n call ka',
    ).replace("call k0\n halt", "call kb\n halt")
    kernels = simulate(parse_asm(text), mode="timing").stats.kernels
    assert [(k.name, k.source_ops) for k in kernels] == [("A", ("/a",)), ("B", ("/b",))]


def test_a_call_says_which_nodes_it_stands_for() -> None:
    text = DOUBLE.replace(" call k0\n halt", ' .source "/again", "/more"\n call k0\n halt')
    result = simulate(parse_asm(text), {"x": X}, trace=True)
    kernels = [k.source_ops for k in result.stats.kernels]
    assert kernels == [("/double",), ("/again", "/more")]
    assert result.trace is not None
    loads = [e for e in result.trace["traceEvents"] if e["name"] == "ld.ub" and e["pid"] == 0]
    assert [e["args"]["source_ops"] for e in loads] == [["/double"], ["/again", "/more"]]


def test_a_trace_has_units_and_kernels() -> None:
    trace = simulate(double(), {"x": X}, trace=True).trace
    assert trace is not None
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert names == {"kernels", "core 0", "core 1", "mte2v", "v", "mte3"}
    loads = [e for e in trace["traceEvents"] if e["name"] == "ld.ub"]
    assert len(loads) == 4
    assert loads[0]["args"]["source_ops"] == ["/double"]
    tracks: dict[tuple[int, int], float] = {}
    for event in sorted((e for e in trace["traceEvents"] if e["ph"] == "X"), key=itemgetter("ts")):
        track = event["pid"], event["tid"]
        assert event["ts"] >= tracks.get(track, 0) - 1e-9, "slices of a track must not overlap"
        tracks[track] = event["ts"] + event["dur"]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'x' must be given"),
        ({"x": X, "z": X}, "unknown input 'z'; the program's inputs: 'x'"),
        ({"x": X.astype(np.float16)}, "input 'x' must be float32 of shape (4, 64), got float16"),
        ({"x": X.T}, "input 'x' must be float32 of shape (4, 64), got float32 of shape (64, 4)"),
    ],
)
def test_wrong_inputs_are_named(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as e:
        simulate(double(), inputs)
    assert message in str(e.value)


def test_weights_are_read_where_they_lie_and_may_be_left_out() -> None:
    load = "la x2, weights+0x200\n ld.ub ub[0], gm[x2], size=[4], strides=[1], f32\n"
    store = "la x3, out0\n st.gm gm[x3], ub[0], size=[4], ds=[1], ss=[1], f32\n"
    flags = "set_flag mte2v, mte3, 0\n wait_flag mte2v, mte3, 0\n"
    values = np.arange(4, dtype=np.float32)
    data = f'.section .rodata\nweights:\n.hex "616263"\n.hex "{values.tobytes().hex()}"\n'
    body = f"{load}{flags}{store} halt\n{data}"
    program = machine_program(body, header='.output out0, "y", f32, 4')
    np.testing.assert_array_equal(simulate(program).outputs["y"], values)
    program.weights[1] = program.weights[1]._replace(data=None)
    with pytest.raises(InputError, match="holds no weight values"):
        simulate(program)
    assert simulate(program, mode="timing").stats.cycles


def test_scalar_loads_see_given_inputs_without_numbers() -> None:
    add = "add x3, x3, 1\n"
    body = f"la x1, in0\n lds x2, gm[x1], i32\n loop x2, .Le\n {add * 2} .Le: halt"
    program = machine_program(body, header='.input in0, "n", i32, 1')
    given = simulate(program, {"n": np.array([5], np.int32)}, mode="timing")
    assert given.stats.instructions == 3 + 5 * 2 + 1
    assert simulate(program, mode="timing").stats.instructions == 3 + 1


def test_faults_name_instruction_address_and_range() -> None:
    assert fault("vfill ub[0x3fe0], 1.0, size=[16], ds=[1], f32") == (
        "core 0: 'vfill ub[0x3fe0], 1.0, size=[16], ds=[1], f32' (main+0): error: the instruction "
        "cannot be executed: ub[0x3fe0..0x4020) must lie in ub[0..0x4000)"
    )
    assert "must be a multiple of 4" in fault("vfill ub[2], 1.0, size=[16], ds=[1], f32")
    load = "ld.ub ub[0], gm[x1], size=[4], strides=[1], f32"
    assert "nothing lies there" in fault(load)
    assert "'arena' ends at" in fault(f"la x1, arena+0xfff8\n {load}")
    assert "sizes of a tile must be 0 or more" in fault(
        f"li x1, -3\n {load.replace('[4]', '[x1]')}"
    )


def test_empty_tiles_touch_nothing() -> None:
    simulate(machine_program("st.gm gm[x1], ub[0], size=[4,x2], ds=[1,1], ss=[1,1], f32"))


def test_inputs_and_weights_must_only_be_read() -> None:
    body = "la x1, in0\n st.gm gm[x1], ub[0], size=[1], ds=[1], ss=[1], i32"
    program = machine_program(body, header='.input in0, "n", i32, 1')
    with pytest.raises(CheckFailed, match="of 'in0' must only be read"):
        simulate(program, {"n": np.zeros(1, np.int32)})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ret", "a return must follow a call"),
        (".Lx: call .Lx", "at most 256 calls may be open"),
        ("sync.wait", "a core must arrive before"),
        ("vfill ub[0], 0.0, size=[65536,65536], ds=[0,0], f32", "at most 268435456 elements"),
        ("share n=2", "the sharing cores must be 1 to 1, got 2"),
        ("set_flag m, v, 8", "a flag must be 0 to 7, got 8"),
        ("vnot ub[0], ub[0], size=[4], ds=[1], sa=[1], f32", "cannot be executed"),
        ("bz x1, .Le\n halt\n .Le: li x1, 2", "must not be run past its end"),
    ],
)
def test_other_faults(body: str, message: str) -> None:
    assert message in fault(body)


def test_a_run_away_program_is_stopped() -> None:
    with pytest.raises(CheckFailed, match="must end within 1000 instructions"):
        simulate(machine_program(".Lx: jump .Lx\n halt"), budget=1000)


def test_cores_that_never_meet_are_named() -> None:
    body = "core x1\n bz x1, .Le\n sync.arrive\n sync.wait\n .Le: halt"
    with pytest.raises(CheckFailed) as e:
        simulate(machine_program(body, cores=2))
    assert "core 1 waits at 'sync.wait' (main+3)" in str(e.value)
    assert "core 0 has ended after 0 arrivals" in str(e.value)


def test_loops_nest_end_together_and_can_be_left() -> None:
    body = """
    loop 3, .Le
    loop 4, .Le
    add x1, x1, 1
    .Le:
    loop 0, .Lz
    add x1, x1, 100
    .Lz:
    loop 10, .Lq
    add x2, x2, 1
    seq x3, x2, 5
    bnz x3, .Lout
    add x4, x4, 1
    .Lq:
    li x5, 1
    .Lout:
    la x9, arena
    st.gm gm[x9], ub[0], size=[x1], ds=[1], ss=[1], i8
    st.gm gm[x9], ub[0], size=[x4], ds=[1], ss=[1], i8
    halt"""
    stats = simulate(machine_program(body), mode="timing").stats
    assert stats.hbm_write == 12 + 4


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DoesNotFit, match="device memory"):
        simulate(machine_program("halt", header=".arena 1073741824"), mode="timing")
    program = machine_program("halt")
    program.cores = 3
    with pytest.raises(InputError, match="1 to 2 cores of 'tiny'"):
        simulate(program)


def test_unwritten_memory_is_no_plausible_number() -> None:
    program = machine_program(
        "la x1, out0\n st.gm gm[x1], ub[0], size=[4], ds=[1], ss=[1], f16",
        header='.output out0, "y", f16, 4',
    )
    assert np.isnan(simulate(program).outputs["y"]).all()


def test_a_simulator_runs_again_with_the_same_result() -> None:
    simulator = Simulator(double())
    first, second = simulator.run({"x": X}), simulator.run({"x": -X})
    assert first.stats.to_json() == second.stats.to_json()
    np.testing.assert_array_equal(second.outputs["y"], -2 * X)


@pytest.mark.parametrize(
    "how",
    [
        {"mode": "functional"},
        {"mode": "timing"},
        {"mode": "both", "check_hazards": True},
        {"mode": "both", "trace": True},
    ],
)
def test_inputs_are_not_kept(how: dict[str, Any]) -> None:
    simulator = Simulator(double())
    gc.disable()
    try:
        # The second run of mode functional is recorded, the third is what was recorded.
        for _ in range(3):
            given = X.copy()
            held = ref(given)
            simulator.run({"x": given}, **how)
            del given
            assert held() is None
    finally:
        gc.enable()


def test_the_program_of_the_manual_runs() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((2, 64)).astype(np.float32)
    result = simulate(parse_asm(EXAMPLE), {"a": a, "b": b}, check_hazards=True)
    assert not result.hazards
    np.testing.assert_allclose(result.outputs["y"], np.hypot(a, b), rtol=1e-6)


def test_the_report_accounts_for_all_cycles() -> None:
    stats = simulate(parse_asm(DOUBLE), mode="timing").stats
    assert stats.cycles == stats.outside_kernels + sum(kernel.cycles for kernel in stats.kernels)
    assert ", 1 launch\n" in report(stats)
    assert "(launch, between)" in report(stats)
