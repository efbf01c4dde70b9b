import random

import pytest

from ge.dialects.diagnostics import CheckFailed
from ge.dialects.npu.instr import Instr
from ge.dialects.npu.isa import scalar
from ge.dialects.npu.operands import Reg
from ge.dialects.npu.program import Program
from ge.runtime.simulator import Simulator
from ge.runtime.stats import Stats
from ge.timing.effects import NEVER, Effect
from ge.timing.engine import Clock
from ge.timing.formulas import FORMULAS, INTEGERS, LARGE, arrays, instruction
from ge.timing.skip import agreeing, repeated
from tests.machine_programs import machine_program
from tests.timing.random_programs import Writer

LOAD = "ld.ub ub[x1], gm[x2], size=[x5,64], strides=[256,1], f16"
FILL = "vfill ub[0], 0.0, size=[{}], ds=[1], f32"


class Walked:
    """Counts the instructions that are run one by one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        issue = Clock.issue

        def counting(clock: Clock, *args: object) -> object:
            self.count += 1
            return issue(clock, *args)  # type: ignore[arg-type]

        monkeypatch.setattr(Clock, "issue", counting)


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> Walked:
    return Walked(monkeypatch)


def same(program: Program) -> Stats:
    """The figures of a run that skips, after comparing them with those of one that does not."""
    plain = Simulator(program).run(mode="timing", skip=False).stats
    simulator = Simulator(program)
    skipped = simulator.run(mode="timing").stats
    again = simulator.run(mode="timing").stats
    assert skipped == plain
    assert again == plain
    return skipped


@pytest.mark.parametrize("seed", range(200))
def test_skipping_changes_nothing_in_random_programs(seed: int) -> None:
    same(Writer(seed).program())


def loop(trips: int, body: str, before: str = "") -> Program:
    return machine_program(
        f"la x2, arena\nli x5, 4\n{before}\nloop {trips}, .Le\n{body}\n.Le: halt"
    )


def skips(program: Program, walked: Walked, most: int) -> None:
    """Whether few instructions are run, and the result is that of running all."""
    Simulator(program).run(mode="timing")
    assert walked.count <= most
    same(program)


def test_a_long_loop_is_not_run(walked: Walked) -> None:
    skips(loop(20_000, f"{LOAD}\n{FILL.format(640)}\nadd x3, x3, 1"), walked, 600)


def test_buffers_that_take_turns_repeat_after_two_trips(walked: Walked) -> None:
    body = "mod x4, x3, 2\nmul x6, x4, 32\nadd x6, x6, 64\n" + FILL.format("x6") + "\nadd x3, x3, 1"
    skips(loop(20_000, body), walked, 300)


def test_sizes_that_differ_at_the_end_are_met_there(walked: Walked) -> None:
    body = f"mul x5, x3, 4\nsub x5, 79999, x5\nmin x5, x5, 4\n{LOAD}\nadd x3, x3, 1"
    skips(loop(20_000, body), walked, 600)


def test_counters_that_inner_loops_move_are_known(walked: Walked) -> None:
    inner = f"loop 3, .Li\nmod x4, x3, 2\nadd x5, x4, 1\n{LOAD}\nadd x3, x3, 1\n.Li: add x7, x7, 1"
    skips(loop(5_000, inner), walked, 600)


def test_guards_are_known(walked: Walked) -> None:
    body = f"slt x4, x3, 4000\nbz x4, .Ls\n{LOAD}\n.Ls: {FILL.format(64)}\nadd x3, x3, 1"
    skips(loop(5_000, body), walked, 800)


@pytest.mark.parametrize("held", [0, 1])
def test_guards_that_never_change_are_known(held: int, walked: Walked) -> None:
    guarded = (
        f"bz x8, .Ls\nmod x4, x3, 3\nadd x5, x4, 1\n{LOAD}\nloop 2, .Li\n{LOAD}\n.Li: li x9, 1"
    )
    body = f"{guarded}\n.Ls: min x6, x3, 9\nadd x6, x6, 1\n{FILL.format('x6')}\nadd x3, x3, 1"
    skips(loop(5_000, body, f"li x8, {held}"), walked, 800)


def test_code_that_two_functions_share_is_known() -> None:
    functions = f"f: li x5, 2\n{LOAD}\ng: loop 3, .Lg\n{LOAD}\nadd x5, x5, 1\n.Lg: ret"
    same(
        machine_program(
            f"la x2, arena\nli x5, 4\nloop 60, .Le\ncall f\ncall g\n.Le: halt\n{functions}"
        )
    )


def test_what_calls_have_in_common_is_run_once(walked: Walked) -> None:
    function = f"f: loop 3, .Lf\n{LOAD}\n.Lf: ret"
    program = machine_program(
        f"la x2, arena\nli x5, 4\nloop 500, .Le\ncall f\nbarrier\n.Le: halt\n{function}"
    )
    skips(program, walked, 20)


def test_cores_that_do_the_same_are_run_once(walked: Walked) -> None:
    function = f"f: core x3\nmul x3, x3, 64\nadd x2, x2, x3\nloop 3, .Lf\n{LOAD}\n.Lf: ret"
    program = machine_program(
        f"la x2, arena\nli x5, 4\ncall f\nhalt\n{function}", "ascend910b1", 24
    )
    skips(program, walked, 3)


@pytest.mark.parametrize(
    "body",
    [
        # What is loaded decides, a core has to wait for others, code jumps back.
        f"lds x5, gm[x2], i32\nmax x5, x5, 1\n{LOAD}",
        f"sync.arrive\n{LOAD}\nsync.wait",
        f"li x6, 3\n.Lb: {LOAD}\nsub x6, x6, 1\nbnz x6, .Lb",
    ],
)
def test_what_cannot_be_known_is_run(body: str) -> None:
    same(loop(50, body))


def test_registers_are_right_behind_a_loop() -> None:
    body = "add x3, x3, 2\nmul x4, x3, 3\nmin x5, x4, 90"
    after = f"loop 7, .La\n{LOAD}\n.La: add x5, x3, x4\nmin x5, x5, 64\n{LOAD}"
    same(machine_program(f"la x2, arena\nloop 200, .Le\n{body}\n.Le: li x6, 1\n{after}"))


def test_registers_wrap_as_they_do_in_a_run() -> None:
    body = f"mul x3, x3, x3\nadd x3, x3, 3\nand x5, x3, 7\nadd x5, x5, 1\n{LOAD}"
    same(loop(200, body))


def test_a_very_long_loop_is_taken_in_pieces() -> None:
    body = "mod x4, x3, 2\nadd x5, x4, 1\n" + LOAD + "\nadd x3, x3, 1"
    short, long = (
        Simulator(loop(trips, body)).run(mode="timing").stats for trips in (10_000, 1_000_000)
    )
    assert short.cycles is not None
    assert long.cycles is not None
    assert long.instructions - short.instructions == 990_000 * 4
    assert long.hbm_read == 100 * short.hbm_read
    assert long.cycles > 90 * short.cycles


def test_a_budget_holds_for_what_is_skipped() -> None:
    with pytest.raises(CheckFailed, match="must end within 1000 instructions"):
        Simulator(loop(20_000, LOAD)).run(mode="timing", budget=1000)


def test_numbers_that_may_wrap_are_not_taken_modulo() -> None:
    before = f"li x3, {(1 << 63) - 40}"
    same(loop(90, f"mod x5, x3, 3\nadd x5, x5, 1\n{LOAD}\nadd x3, x3, 1", before))


def test_a_trace_shows_every_trip() -> None:
    result = Simulator(loop(300, LOAD)).run(mode="timing", trace=True)
    assert result.trace is not None
    assert sum(event["ph"] == "X" for event in result.trace["traceEvents"]) == 300


def test_faults_are_found_all_the_same() -> None:
    product = "mmad l0c[0], l0a[0], l0b[0], m=x5, n=16, k=16, init=1, f16"
    program = loop(50, f"mul x5, x3, 16\nsub x5, 640, x5\n{product}\nadd x3, x3, 1")
    errors = []
    for skip in (True, False):
        with pytest.raises(Exception, match="operands must describe a tile") as e:
            Simulator(program).run(mode="timing", skip=skip)
        errors.append(str(e.value))
    assert errors[0] == errors[1]


rows = pytest.mark.parametrize("row", scalar.ARITHMETIC, ids=lambda row: row.mnemonic)
EDGES = (0, 1, -1, 2, 63, 64, -7, 1 << 40, (1 << 63) - 1, -(1 << 63))


class Register:
    """Takes the result of one instruction."""

    value = 0

    def set(self, register: Reg, value: int) -> None:
        self.value = (value + (1 << 63)) % (1 << 64) - (1 << 63)


@rows
def test_formulas_are_those_of_the_instructions(row: Instr) -> None:
    import numpy as np

    text = FORMULAS[row.mnemonic].format("a", "b")
    text = f"wrap({text})" if row.mnemonic in LARGE else text
    rng = random.Random(row.opcode)
    values = [*EDGES, *(rng.randrange(-(1 << 20), 1 << 20) for _ in range(20))]
    pairs = [(a, b) for a in values for b in values]
    with np.errstate(all="ignore"):
        columns = dict(zip("ab", np.array(pairs, np.int64).T, strict=True))
        at_once = eval(text, {**arrays(), **columns})
    for (a, b), found in zip(pairs, at_once, strict=True):
        register = Register()
        row.execute(register, Reg(0), a, b)
        held = [0, a, b]
        instruction(row.mnemonic, True, True)(0, 1, 2)(None, held)
        assert (eval(text, {**INTEGERS, "a": a, "b": b}), found, held[0]) == (register.value,) * 3


def test_repeated_effects_are_added_up() -> None:
    first = Effect(10, 2, (4,), (8, 0), 3, 25)
    second = Effect(5, 1, (2,), (0, 4), NEVER, -NEVER)
    assert repeated([first, second], 3) == Effect(45, 9, (18,), (24, 12), 3, 55)
    assert repeated([second], 2) == Effect(10, 2, (4,), (0, 8), NEVER, -NEVER)


def test_patterns_are_followed_to_their_end() -> None:
    assert agreeing([1, 2, 1, 2, 1, 2, 3], 2, 2) == 4
    assert agreeing([1, 1, 2], 2, 1) == 0
    assert agreeing([5] * 100, 1, 1) == 99
