"""The `npu` dialect: the machine, its instructions, and kernels before they are instructions.

Built when first asked for, because a class for each instruction takes time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect

    Npu: Dialect

__all__ = ["Npu"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'ge.dialects.npu' has no attribute {name!r}")
    from xdsl.ir import Dialect, Operation

    from ge.dialects.npu.ops import INST_OPS, PROGRAM_OPS, ArgsAttr
    from ge.dialects.npu.tree import TREE_ATTRS, TREE_OPS

    ops: list[type[Operation]] = [*TREE_OPS, *PROGRAM_OPS, *INST_OPS.values()]
    globals()["Npu"] = Dialect("npu", ops, [*TREE_ATTRS, ArgsAttr])
    return globals()["Npu"]
