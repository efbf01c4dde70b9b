"""The only list of passes, and the pipelines made of them. Nothing is imported until it runs."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ge.dialects.diagnostics import InputError, did_you_mean

if TYPE_CHECKING:
    from xdsl.passes import ModulePass


@dataclass(frozen=True)
class Pass:
    """A pass: where its class is, and what it does in one sentence."""

    where: str
    does: str


PASSES = {
    "fold-constants": Pass(
        "ge.lowering.fold_constants:FoldConstantsPass",
        "Compute every operation whose operands are all constants.",
    ),
    "simplify": Pass(
        "ge.lowering.simplify:SimplifyPass",
        "Remove operations that change nothing, join those that undo each other.",
    ),
    "raise-layer-norm": Pass(
        "ge.lowering.raise_layer_norm:RaiseLayerNormPass",
        "Raise a layer norm that an exporter wrote out.",
    ),
    "raise-rms-norm": Pass(
        "ge.lowering.raise_rms_norm:RaiseRmsNormPass",
        "Raise an RMS norm that an exporter wrote out.",
    ),
    "raise-gelu": Pass(
        "ge.lowering.raise_gelu:RaiseGeluPass",
        "Raise a GELU that an exporter wrote out, by erf or by tanh.",
    ),
    "raise-silu": Pass(
        "ge.lowering.raise_silu:RaiseSiluPass",
        "Raise SiLU and hard swish that an exporter wrote out.",
    ),
    "merge-duplicates": Pass(
        "ge.lowering.merge_duplicates:MergeDuplicatesPass",
        "Compute once what two operations compute alike.",
    ),
    "dce": Pass(
        "xdsl.transforms.dead_code_elimination:DeadCodeElimination",
        "Remove operations that nothing reads.",
    ),
}

PIPELINES = {
    "simplify-graph": (
        "fold-constants",
        "merge-duplicates",
        "simplify",
        "raise-layer-norm",
        "raise-rms-norm",
        "raise-gelu",
        "raise-silu",
        "fold-constants",
        "dce",
    ),
}


def load_pass(name: str) -> type[ModulePass]:
    """The class of a pass; raises InputError for an unknown name."""
    if name not in PASSES:
        near = did_you_mean(name, [*PASSES, *PIPELINES])
        raise InputError(f"a pass must be one of `ge-opt --help`, got '{name}'{near}")
    module, _, cls = PASSES[name].where.partition(":")
    found: type[ModulePass] = getattr(importlib.import_module(module), cls)
    return found
