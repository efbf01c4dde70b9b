"""The `graph` dialect: what a model says, operator by operator. Built when first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect

    from ge.dialects.graph.base import GraphOp

    Graph: Dialect
    OPS: dict[str, type[GraphOp]]

__all__ = ["OPS", "Graph"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'ge.dialects.graph' has no attribute {name!r}")
    from xdsl.ir import Dialect

    from ge.dialects.graph.base import ConstantOp
    from ge.dialects.graph.control import CONTROL_OPS
    from ge.dialects.graph.ops import OPS

    globals().update(OPS=OPS, Graph=Dialect("graph", [ConstantOp, *CONTROL_OPS, *OPS.values()]))
    return globals()[name]
