"""The `fused` dialect: one operation is one kernel. Built when first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect

    Fused: Dialect

__all__ = ["Fused"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'ge.dialects.fused' has no attribute {name!r}")
    from xdsl.ir import Dialect

    from ge.dialects.fused.base import ViewOp, YieldOp
    from ge.dialects.fused.ops import KERNEL_OPS, HostOp

    globals()["Fused"] = Dialect("fused", [*KERNEL_OPS, HostOp, ViewOp, YieldOp], [])
    return globals()["Fused"]
