"""`fuse-kernels`: kernels that hand a value to each other and to nobody else become one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.passes import ModulePass

from ge.dialects.diagnostics import InputError, did_you_mean
from ge.dialects.fused.base import FusedOp
from ge.dialects.graph.module import functions_of
from ge.lowering.fusions import FUSIONS, Fusion

HITS, MISSES = "fusion_hits", "fusion_misses"


@dataclass(frozen=True)
class FuseKernelsPass(ModulePass):
    """Apply the fusions in order; the module keeps their hits and the reasons of near misses."""

    name = "fuse-kernels"
    off: tuple[str, ...] = ()
    """Names of fusions that are not applied."""
    within: bool = False
    """Join only what one operator of the model was written as; that counts as no fusion."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known = [fusion.name for fusion in FUSIONS]
        for name in self.off:
            if name not in known:
                hint = did_you_mean(name, known)
                raise InputError(f"a fusion must be one of {', '.join(known)}, got '{name}'{hint}")
        hits: Counter[str] = Counter()
        misses: list[str] = []
        for fusion in FUSIONS:
            if fusion.name not in self.off:
                _apply(replace(fusion, within=self.within), op, hits, misses)
        if self.within:
            return
        counts = {name: IntegerAttr(hits[name], i64) for name in known}
        op.attributes[HITS] = DictionaryAttr(counts)
        op.attributes[MISSES] = ArrayAttr([StringAttr(m) for m in dict.fromkeys(misses)])


def _apply(fusion: Fusion, module: ModuleOp, hits: Counter[str], misses: list[str]) -> None:
    """One fusion over the model, front to back; what is fused may fuse again."""
    for op in [k for function in functions_of(module) for k in function.body.block.ops]:
        kernel: FusedOp | None = op if isinstance(op, FusedOp) and op.parent else None
        while kernel is not None:
            kernel = _joined(fusion, kernel, hits, misses)


def _joined(fusion: Fusion, then: FusedOp, hits: Counter[str], misses: list[str]) -> FusedOp | None:
    """The kernel with one that feeds it taken in, or None when none can be."""
    if not isinstance(then, fusion.then):
        return None
    for value in then.ins:
        first = value.owner
        if not isinstance(first, FusedOp) or not isinstance(first, fusion.first):
            continue
        reason = fusion.refuses(first, then)
        if reason is None:
            hits[fusion.name] += 1
            return fusion.fuse(first, then)
        if reason:
            misses.append(f"{fusion.name} at {_node(first)} and {_node(then)}: {reason}")
    return None


def _node(kernel: FusedOp) -> str:
    names = [s.data for s in kernel.sources]
    return f"'{names[0]}'" if names else kernel.kind.data
