"""fold-constants: what is known when compiling is computed when compiling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ge.dialects.graph.base import ConstantOp, GraphOp, constant_of, worth_folding
from ge.dialects.graph.module import functions_of
from ge.lowering.rewriting import drop_unread


@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """Compute every operation whose operands are all constants."""

    name = "fold-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            block = function.body.block
            for inner in list(block.ops):
                if isinstance(inner, GraphOp) and inner.parent is block:
                    _fold(inner)


def _fold(op: GraphOp) -> None:
    present = [v for v in op.arguments if v is not None]
    known = {v: constant_of(v) for v in present}
    if not present or any(a is None for a in known.values()):
        return
    results: list[Any] = list(op.result_types)
    operands: list[Any] = [v.type for v in present]
    if not worth_folding(results, operands):
        return
    arrays = [None if v is None else known[v] for v in op.arguments]
    block = op.parent
    assert block is not None
    for result, array in zip(op.results, op.evaluate_all(arrays, op.attrs), strict=True):
        constant = ConstantOp.of(array)
        if "source" in op.attributes:
            constant.attributes["source"] = op.attributes["source"]
        constant.out.name_hint = result.name_hint
        block.insert_op_before(constant, op)
        result.replace_all_uses_with(constant.out)
    drop_unread(op)
