import subprocess
import sys

from ge.codegen.parse_asm import parse_asm
from ge.runtime.simulator import simulate
from ge.timing.estimate import estimate
from tests.runtime.test_simulator import DOUBLE


def test_an_estimate_is_the_simulated_time() -> None:
    program = parse_asm(DOUBLE)
    assert estimate(program).cycles == simulate(program, mode="timing").stats.cycles


def test_one_core_can_stand_for_all() -> None:
    program = parse_asm(DOUBLE)
    one = estimate(program, cores=[0])
    assert one.cycles == estimate(program).cycles
    assert len(one.clocks) == 1


def test_the_clock_needs_no_numpy() -> None:
    code = "import sys, ge.timing.estimate; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
