import pytest

from ge.dialects.npu.program import Program
from ge.runtime.simulator import Simulator
from ge.runtime.stats import Stats
from tests.timing.random_programs import Writer


def both(program: Program) -> tuple[Stats, Stats]:
    def run(skip: bool) -> Stats:
        return Simulator(program).run(mode="timing", skip=skip).stats

    return run(skip=True), run(skip=False)


@pytest.mark.parametrize("seed", range(200))
def test_skipping_changes_nothing(seed: int) -> None:
    skipped, walked = both(Writer(seed).program())
    assert skipped == walked
