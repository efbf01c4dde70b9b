import random
from collections.abc import Sequence

import pytest

from ge.codegen.parse_asm import parse_asm
from ge.dialects.npu.program import Program
from ge.runtime.simulator import Simulator
from ge.timing.walk import Core
from tests.timing.random_programs import Writer
from tests.timing.test_skip import same

MEETINGS = ("sync.arrive\nsync.wait", "launch")
ADD = "vadd ub[0], ub[0], ub[0], size=[8,64], ds=[256,1], sa=[256,1], sb=[256,1], f16"


def program(kernels: Sequence[str], main: Sequence[str], target: str, cores: int) -> Program:
    """Kernels `k0`, `k1`, ... by their bodies, and what `main` does."""
    lines = [f".target {target}, cores={cores}", ".arena 65536"]
    for number, body in enumerate(kernels):
        lines += [f'.kernel k{number}, "Add", "/{number}"', f"k{number}:", body, "ret"]
    return parse_asm("\n".join([*lines, ".function main", "main:", *main, "halt", ""]))


def calls(number: int, meeting: str, times: int) -> list[str]:
    return [f"la x0, arena\nli x1, 0\ncall k{number}\n{meeting}"] * times


@pytest.mark.parametrize("seed", range(60))
def test_what_is_known_of_all_cores_changes_nothing(seed: int) -> None:
    writer = Writer(seed)
    rng = writer.rng
    kernels = ["\n".join(["core x2", *writer.kernel()]) for _ in range(3)]
    layer = [
        call
        for _ in range(rng.randint(1, 6))
        for call in calls(rng.randrange(3), rng.choice(MEETINGS), rng.randint(1, 3))
    ]
    # Now and then cores do something of their own between two meetings.
    own = ["core x2", "bz x2, .Lown", ADD, ".Lown:", MEETINGS[0]]
    main = [*layer * 3, *rng.choice(([], own)), *layer * 2]
    same(program(kernels, main, rng.choice(("tiny", "ascend910b1")), rng.choice((1, 2))))


@pytest.mark.parametrize("meeting", MEETINGS)
def test_equal_layers_are_run_once(meeting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = 0
    run = Core.run

    def counting(core: Core) -> None:
        nonlocal runs
        runs += 1
        run(core)

    monkeypatch.setattr(Core, "run", counting)
    body = "core x3\nadd x3, x3, 1\nloop x3, .L{0}\n" + f"{ADD}\n.L{{0}}:"
    layer = [*calls(0, meeting, 2), *calls(1, meeting, 1)]
    many = program([body.format(0), body.format(1)], layer * 100, "ascend910b1", 24)
    Simulator(many).run(mode="timing")
    assert runs < 24 * 20


def test_registers_are_right_behind_what_was_passed() -> None:
    kernel = f"core x2\nadd x5, x2, 1\nloop x5, .Lk\n{ADD}\n.Lk:"
    rng = random.Random(0)
    behind = f"loop x5, .Lb\n{ADD}\n.Lb: loop x1, .Lc\n{ADD}\n.Lc: sync.arrive\nsync.wait"
    main = [*calls(0, MEETINGS[0], 9), f"li x1, {rng.randint(2, 5)}\ncall k0\n{MEETINGS[1]}"]
    same(program([kernel], [*main, behind, *calls(0, MEETINGS[0], 3)], "ascend910b1", 4))
