"""The `npu` dialect: the machine, its instructions, and kernels before they are instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect


def dialect() -> Dialect:
    """The dialect; made at its first use because a class for each instruction takes time."""
    from xdsl.ir import Dialect

    from ge.dialects.npu.ops import INST_OPS, PROGRAM_OPS, ArgsAttr
    from ge.dialects.npu.tree import TREE_ATTRS, TREE_OPS

    ops = [*TREE_OPS, *PROGRAM_OPS, *INST_OPS.values()]
    return Dialect("npu", ops, [*TREE_ATTRS, ArgsAttr])
