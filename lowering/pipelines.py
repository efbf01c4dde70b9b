"""The only list of passes, and the pipelines made of them. Nothing is imported until it runs."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

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
    "narrow-integers": Pass(
        "ge.lowering.narrow_integers:NarrowIntegersPass",
        "Compute 64-bit integers in 32 bits, the signature left as it is.",
    ),
    "set-precision": Pass(
        "ge.lowering.set_precision:SetPrecisionPass",
        "Compute every float tensor in f32, f16 or bf16, or in f16 with exceptions (`mixed`).",
    ),
    "decompose-operators": Pass(
        "ge.lowering.decompose_operators:DecomposeOperatorsPass",
        "Write operators that have no kernel as several that have one.",
    ),
    "split-rows": Pass(
        "ge.lowering.split_rows:SplitRowsPass",
        "Reduce rows that are longer than the vector memory in pieces.",
    ),
    "fold-batch-norm": Pass(
        "ge.lowering.fold_batch_norm:FoldBatchNormPass",
        "Fold batch norms into the convolutions before them.",
    ),
    "turn-halves": Pass(
        "ge.lowering.turn_halves:TurnHalvesPass",
        "Turn the halves of rows by angles where they lie, as rotary positions do.",
    ),
    "merge-products": Pass(
        "ge.lowering.merge_products:MergeProductsPass",
        "Multiply a tensor by all weights that it meets at once.",
    ),
    "graph-to-fused": Pass(
        "ge.lowering.graph_to_fused:GraphToFusedPass",
        "Make a kernel of every operator; what only rearranges strides becomes a view.",
    ),
    "fuse-kernels": Pass(
        "ge.lowering.fuse_kernels:FuseKernelsPass",
        "Apply the fusions in order; the module keeps their hits and the reasons of near misses.",
    ),
    "choose-layouts": Pass(
        "ge.lowering.choose_layouts:ChooseLayoutsPass",
        "Store images that only kernels read with their channels last, where convolutions gain.",
    ),
    "split-sums": Pass(
        "ge.lowering.split_sums:SplitSumsPass",
        "Sum thin products in slices on all cores, and add the slices in a kernel of its own.",
    ),
    "split-keys": Pass(
        "ge.lowering.split_keys:SplitKeysPass",
        "Go through the keys of few queries in slices on all cores, and join the slices.",
    ),
    "fused-to-npu": Pass(
        "ge.lowering.fused_to_npu:FusedToNpuPass",
        "Describe kernels, choose their tiles, build their loops; equal ones are built once.",
    ),
    "choose-copies": Pass(
        "ge.lowering.choose_copies:ChooseCopiesPass",
        "Give each buffer the copies that let its units overlap, as far as memory goes.",
    ),
    "allocate-buffers": Pass(
        "ge.lowering.allocate_buffers:AllocateBuffersPass",
        "Place each buffer and its copies in the memory it belongs to.",
    ),
    "insert-sync": Pass(
        "ge.lowering.insert_sync:InsertSyncPass",
        "Order the units of each kernel by flags found by dependence analysis.",
    ),
    "plan-arena": Pass(
        "ge.lowering.plan_arena:PlanArenaPass",
        "Give each intermediate a place in one area, sharing bytes between those that never meet.",
    ),
    "hint-cache": Pass(
        "ge.lowering.hint_cache:HintCachePass",
        "Say of each load and store how much of it reaches device memory.",
    ),
    "emit-instructions": Pass(
        "ge.lowering.emit_instructions:EmitInstructionsPass",
        "Write each kernel's loops as scalar code, and the calls as the function `main`.",
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
    "kernels": ("graph-to-fused", "choose-layouts"),
    "fuse": ("graph-to-fused", "fuse-kernels", "choose-layouts"),
    "schedule": (
        "choose-copies",
        "allocate-buffers",
        "insert-sync",
        "plan-arena",
        "hint-cache",
        "emit-instructions",
    ),
}


PRECISIONS = ("origin", "fp32", "fp16", "bf16", "mixed")
"""`origin` keeps the model's own types; the others are modes of set-precision."""


@dataclass(frozen=True)
class Options:
    """What a compile is asked for; every switch is one stage of the ablation."""

    target: str = "ascend910b1"
    cores: int = 0
    """0 means all that the target has."""
    precision: str = "origin"
    fuse: bool = True
    memory_reuse: bool = True
    pipeline: bool = True
    native: bool = True
    keep: tuple[str, ...] = ()
    """Operators and nodes that every precision but `origin` computes in f32."""
    narrow: bool = False
    """64-bit integers in 32 bits."""
    whole: bool = False
    """Without fusion: one kernel for what an operator of the model is written as, where it can."""
    tune: bool = False
    """Time all tilings of all kernels, and say which were the quickest."""
    tilings: tuple[str, ...] = ()
    """Kept tilings, `KEY: TILING`, that kernels take instead of choosing."""

    def eager(self) -> Options:
        """All four switches off: one launch an operator, as a framework runs it."""
        return replace(self, fuse=False, memory_reuse=False, pipeline=False, native=False)


class Level(Enum):
    """What a module holds; each level is compiled into the next."""

    GRAPH = "graph"
    FUSED = "fused"
    NPU = "npu"


def passes(level: Level, options: Options) -> list[ModulePass]:
    """The passes that a module of `level` goes through before it enters the next one.

    A module of graph operators is simplified first, so that what a compile prints as `graph` is
    what enters `fused`; see `simplification`.
    """
    if level is Level.GRAPH:
        rows = make_pass("split-rows", target=options.target)
        parts = [make_pass(name) for name in ("decompose-operators", "fold-constants")]
        if not options.fuse:
            first = [*parts, rows, make_pass("graph-to-fused")]
            joined = [make_pass("fuse-kernels", within=True)] if options.whole else []
            return [*first, *joined, make_pass("choose-layouts")]
        first = [make_pass("fold-batch-norm"), *parts]
        rest = [make_pass(name) for name in ("turn-halves", "merge-products", *PIPELINES["fuse"])]
        return [*first, rows, *rest]
    if level is Level.FUSED:
        machine = {"target": options.target, "cores": options.cores, "native": options.native}
        # A launch costs more than the cores that it would busy.
        names = ("split-sums", "split-keys") if options.native else ()
        split = [make_pass(name, target=options.target) for name in names]
        chosen = {"tune": options.tune, "tilings": options.tilings}
        tree = make_pass("fused-to-npu", **machine, overlap=options.pipeline, **chosen)
        return [*split, tree, *scheduling(options)]
    return []


def scheduling(options: Options) -> list[ModulePass]:
    """What makes instructions of kernels that are loops."""
    return [
        make_pass("choose-copies"),
        make_pass("allocate-buffers"),
        make_pass("insert-sync", overlap=options.pipeline),
        make_pass("plan-arena", reuse=options.memory_reuse),
        make_pass("hint-cache"),
        make_pass("emit-instructions", overlap=options.pipeline),
    ]


def simplification(options: Options) -> list[ModulePass]:
    """What every model goes through first: raised, folded, and in the types it is computed in."""
    narrow = ("narrow-integers", "dce") if options.narrow else ()
    first = [make_pass(name) for name in (*narrow, *PIPELINES["simplify-graph"])]
    if options.precision == "origin":
        return first
    return [*first, make_pass("set-precision", mode=options.precision, keep=",".join(options.keep))]


def load_pass(name: str) -> type[ModulePass]:
    """The class of a pass; raises InputError for an unknown name."""
    if name not in PASSES:
        near = did_you_mean(name, [*PASSES, *PIPELINES])
        raise InputError(f"a pass must be one of `ge-opt --help`, got '{name}'{near}")
    module, _, cls = PASSES[name].where.partition(":")
    found: type[ModulePass] = getattr(importlib.import_module(module), cls)
    return found


def make_pass(name: str, **options: Any) -> ModulePass:
    """A pass with options by name."""
    cls: Any = load_pass(name)
    made: ModulePass = cls(**options)
    return made
