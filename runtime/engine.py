"""`GraphEngine`: load a model, optimise it, save it, run it; in the vendor's spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ge.dialects.diagnostics import InputError, UnsupportedError, did_you_mean
from ge.dialects.module_text import write_module
from ge.dialects.npu.target import DEFAULT
from ge.lowering.pipelines import Level, Options, load_pass
from ge.runtime.compiled import CompiledModel, finish
from ge.runtime.driver import Compilation, begin, checked, few_collections
from ge.runtime.source import Source

if TYPE_CHECKING:
    import onnx

PROGRAMS = (".o", ".s")
"""Suffixes under which the program is saved; the others hold the model."""


@dataclass(frozen=True, init=False)
class OptimizeConfig:
    """What an engine is asked for. Raises InputError for names and values that are not known."""

    fuse_ops: bool = True
    memory_reuse: bool = True
    pipeline_schedule: bool = True
    native: bool = True
    """One launch for the whole program, not one a kernel."""
    precision_mode: str = "origin"
    target: str = DEFAULT
    cores: int = 0
    """0 means all that the target has."""

    def __init__(self, **given: Any) -> None:
        known = {field.name: field for field in fields(self)}
        for name, value in given.items():
            if name not in known:
                hint = did_you_mean(name, known) or f", known: {', '.join(known)}"
                raise InputError(f"unknown option '{name}' of OptimizeConfig{hint}")
            kind = type(known[name].default)
            if type(value) is not kind:
                raise InputError(f"'{name}' must be of type {kind.__name__}, got {value!r}")
        for name, field in known.items():
            object.__setattr__(self, name, given.get(name, field.default))
        checked(self.options())

    def options(self) -> Options:
        """The options of the compile."""
        return Options(
            target=self.target,
            cores=self.cores,
            precision=self.precision_mode,
            fuse=self.fuse_ops,
            memory_reuse=self.memory_reuse,
            pipeline=self.pipeline_schedule,
            native=self.native,
        )


class GraphEngine:
    """Optimises one model at a time; `config` says how."""

    def __init__(self, config: OptimizeConfig | None = None) -> None:
        self.config = config or OptimizeConfig()
        self._simplified: Compilation | None = None
        self._compiled: CompiledModel | None = None

    def LoadModel(
        self,
        model: str | Path | onnx.ModelProto,
        shapes: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """Take a model: an `.onnx` or `.mlir` file, or an ONNX model in memory."""
        self._simplified = self._compiled = None
        with few_collections():
            self._simplified = begin(Source(model, shapes), self.config.options())

    def OptimizeGraph(self) -> CompiledModel:
        """Compile the model that was loaded; what comes back can be called with arrays."""
        if self._compiled is None:
            with few_collections():
                self._compiled = finish(self._copy())
        return self._compiled

    def SaveOptimizedModel(self, path: str | Path) -> None:
        """Write the model as `.onnx` (standard operators) or `.mlir`, or its program (`.o`, `.s`).

        The `.onnx` file is simplified, in the types it is computed in, with batch norms folded; the
        `.mlir` file has the kernels that the fusions made.
        """
        path = Path(path)
        if path.suffix in PROGRAMS:
            self.OptimizeGraph().save(path)
        elif path.suffix == ".mlir":
            copy = self._copy()
            if copy.level is Level.GRAPH:
                copy.lower()
            write_module(copy.module, path)
        elif path.suffix == ".onnx":
            self._save_onnx(path)
        else:
            raise InputError("a model must be saved as .onnx, .mlir, .o or .s", str(path))

    def Optimize(self, model: Any) -> CompiledModel:
        """Load and compile in one step; modules of PyTorch are not supported yet."""
        self.LoadModel(model)
        return self.OptimizeGraph()

    def _save_onnx(self, path: Path) -> None:
        from ge.frontend.onnx_export import save_onnx

        copy = self._copy()
        if copy.level is not Level.GRAPH:
            raise UnsupportedError("only a model of level 'graph' has an ONNX form", str(path))
        copy.run([load_pass(name)() for name in self._graph_passes()])
        save_onnx(copy.module, path)

    def _graph_passes(self) -> tuple[str, ...]:
        """What fusion does to a graph before there are kernels."""
        return ("fold-batch-norm", "dce") if self.config.fuse_ops else ()

    def _copy(self) -> Compilation:
        """The loaded model, to be lowered; itself it stays as it is."""
        if self._simplified is None:
            raise InputError("LoadModel must come first, no model is loaded")
        return self._simplified.fork(self._simplified.options)
