"""merge-duplicates: one operation where two do the same."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from ge.dialects.graph.base import ConstantOp, GraphOp
from ge.dialects.graph.module import functions_of


@dataclass(frozen=True)
class MergeDuplicatesPass(ModulePass):
    """Compute once what two operations compute alike."""

    name = "merge-duplicates"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            _merge(function.body.block)


def _merge(block: Block) -> None:
    # xDSL's own CSE compares `source` too, and so would keep what two nodes both compute.
    seen: dict[object, GraphOp | ConstantOp] = {}
    for inner in list(block.ops):
        if not isinstance(inner, (GraphOp, ConstantOp)):
            continue
        properties = frozenset(inner.properties.items())
        key = (type(inner), tuple(inner.operands), properties, tuple(inner.result_types))
        first = seen.setdefault(key, inner)
        if first is inner:
            continue
        for old, new in zip(inner.results, first.results, strict=True):
            old.replace_all_uses_with(new)
        block.erase_op(inner)
