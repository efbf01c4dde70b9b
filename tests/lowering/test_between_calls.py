"""Where cores meet between two calls, and where the units of one core are enough."""

from __future__ import annotations

import pytest

from examples.models import Net
from ge.lowering.pipelines import Options
from tests.compiled import check


def _branches(net: Net) -> str:
    """Two products that do not depend on each other, then their sum."""
    left, right = (net("MatMul", "x", net.normal(24, 24)) for _ in range(2))
    return str(net("Softmax", net("Add", net("Softmax", left, axis=-1), right), axis=-1))


@pytest.mark.parametrize(
    ("options", "meetings"),
    [
        (Options(target="tiny", memory_reuse=False, fuse=False), 3),
        (Options(target="tiny", memory_reuse=False, fuse=False, pipeline=False), 4),
    ],
)
def test_cores_meet_where_a_call_needs_what_others_made(options: Options, meetings: int) -> None:
    net = Net(2)
    model = net.model({"x": (40, 24)}, [_branches(net)], 17)
    program = check(model, options)
    mnemonics = [inst.instr.mnemonic for inst in program.code]
    assert len(program.calls) == 5
    assert mnemonics.count("sync.wait") == meetings
