"""`GraphEngine`: load a model, optimise it, save it, run it; in the vendor's spelling."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ge.dialects.diagnostics import GeError, InputError, UnsupportedError, did_you_mean
from ge.dialects.module_text import write_module
from ge.dialects.npu.target import DEFAULT
from ge.lowering.pipelines import Level, Options, load_pass
from ge.runtime.compiled import CompiledModel, finish
from ge.runtime.driver import Compilation, begin, checked, few_collections
from ge.runtime.program_cache import cache_in, source_key
from ge.runtime.source import TORCH, Source, need_torch

if TYPE_CHECKING:
    import onnx

    from ge.runtime.specialise import SpecialisedModel
    from ge.runtime.torch_loading import TorchLoaded

PROGRAMS = (".o", ".s")
"""Suffixes under which the program is saved; the others hold the model."""


@dataclass(frozen=True, kw_only=True)
class OptimizeConfig:
    """What an engine is asked for. Raises InputError for names and values that are not known."""

    fuse_ops: bool = True
    memory_reuse: bool = True
    pipeline_schedule: bool = True
    native: bool = True
    """One launch for the whole program, not one a kernel."""
    precision_mode: str = "origin"
    keep_fp32: tuple[str, ...] = ()
    """Operators (`Softmax`) and nodes of the model that are computed in f32 whatever the mode."""
    target: str = DEFAULT
    cores: int = 0
    """0 means all that the target has."""
    check_hazards: bool = False
    """Look for hazards in every run of a module of PyTorch."""
    cache_dir: str = ""
    """Where programs are kept for other processes; `$GE_CACHE_DIR` if empty, else nowhere."""

    if not TYPE_CHECKING:  # Type checkers and editors see the fields.

        def __init__(self, **given: Any) -> None:
            known = {field.name: field for field in fields(self)}
            given = {n: tuple(v) if isinstance(v, list) else v for n, v in given.items()}
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
            keep=self.keep_fp32,
            fuse=self.fuse_ops,
            memory_reuse=self.memory_reuse,
            pipeline=self.pipeline_schedule,
            native=self.native,
        )


OptimizeConfig.__signature__ = Signature(  # type: ignore[attr-defined]
    [
        Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type)
        for f in fields(OptimizeConfig)
    ]
)


class GraphEngine:
    """Optimises one model at a time; `config` says how."""

    def __init__(self, config: OptimizeConfig | None = None) -> None:
        self.config = config or OptimizeConfig()
        self._simplified: Compilation | None = None
        self._compiled: CompiledModel | None = None
        self._torch: TorchLoaded | None = None
        self._source: Source | None = None
        self._specialised: SpecialisedModel | None = None
        self._cache = cache_in(self.config.cache_dir)
        self._key: str | None = None

    def LoadModel(
        self,
        model: str | Path | onnx.ModelProto | Any,
        shapes: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """Take a model: a file (`.onnx`, `.mlir`, `.pt2`, `.pt`), or an object in memory.

        An object is an ONNX model, or of PyTorch: a module, a ScriptModule, an ExportedProgram. A
        module of PyTorch is compiled when it is called, for the shapes of that call; so is an ONNX
        model that leaves shapes open, or whose shapes its inputs decide.
        """
        self._simplified = self._compiled = self._torch = self._source = self._specialised = None
        if is_torch(model):
            need_torch(str(model) if isinstance(model, (str, Path)) else "")
            from ge.runtime.torch_loading import TorchLoaded

            self._torch = TorchLoaded(model, self.config)
            return
        self._source = Source(model, shapes)
        self._key = self._cache_key()
        if self._key is not None and self._cache is not None:
            found = self._cache.get(self._key)
            self._compiled = CompiledModel(found[0]) if found else None
        if self._compiled is None:
            self._begin_or_wait()

    def OptimizeGraph(self) -> Any:
        """The model, optimised: it takes what the model takes, by position or by name."""
        if self._torch is not None:
            return self._torch.callable
        return self._specialised or self._program()

    def SaveOptimizedModel(self, path: str | Path) -> Any:
        """Write the model as `.onnx`, `.pt` or `.mlir`, or its program (`.o`, `.s`).

        `.onnx` and `.pt` (TorchScript) hold standard operators and run elsewhere: simplified, in
        the types that are computed in, with batch norms folded. `.mlir` has the kernels that the
        fusions made. Gives back what `OptimizeGraph` does.
        """
        path = Path(path)
        if path.suffix in PROGRAMS:
            self._program().save(path)
        elif path.suffix == ".mlir":
            copy = self._copy()
            if copy.level is Level.GRAPH:
                copy.lower()
            write_module(copy.module, path)
        elif path.suffix == ".onnx":
            self._save_onnx(path)
        elif path.suffix == ".pt":
            self._save_torch(path)
        else:
            raise InputError("a model must be saved as .onnx, .pt, .mlir, .o or .s", str(path))
        return self.OptimizeGraph()

    def Optimize(self, model: Any) -> Any:
        """Load and optimise in one step.

        A module of PyTorch comes back as a module of the same class that shares its parameters.
        """
        self.LoadModel(model)
        return self.OptimizeGraph()

    def _program(self) -> CompiledModel:
        if self._torch is not None:
            return self._torch.saved().compiled
        if self._specialised is not None and self._specialised.parts:
            return self._specialised.only
        if self._compiled is None:
            with few_collections():
                self._compiled = finish(self._copy(), self._source)
            if self._key is not None and self._cache is not None:
                self._cache.put(self._key, self._compiled.program, {})
        return self._compiled

    def _cache_key(self) -> str | None:
        """What names the program of the loaded file in the cache."""
        source = self._source
        if self._cache is None or source is None or not isinstance(source.model, (str, Path)):
            return None
        return source_key(source, checked(self.config.options()))

    def _begin_or_wait(self) -> None:
        """Simplify the model now, or leave it to the first run where that says more."""
        try:
            self._begin()
        except GeError as e:
            from ge.runtime.specialise import SpecialisedModel, waits

            assert self._source is not None
            if not waits(e, self._source):
                raise
            self._specialised = SpecialisedModel(
                self._source.model,
                self.config.options(),
                self._cache,
                shapes=self._source.shapes,
            )

    def _begin(self) -> Compilation:
        if self._specialised is not None and self._specialised.parts:
            return self._specialised.simplified()
        if self._simplified is None:
            if self._source is None:
                raise InputError("LoadModel must come first, no model is loaded")
            with few_collections():
                self._simplified = begin(self._source, self.config.options())
        return self._simplified

    def _save_onnx(self, path: Path) -> None:
        from ge.frontend.onnx_export import save_onnx

        save_onnx(self._graph(path).module, path)

    def _save_torch(self, path: Path) -> None:
        need_torch(str(path))
        from ge.frontend.torch_export import save_script

        if self._torch is not None and (script := self._torch.script()) is not None:
            self._torch.save(script, path)
        else:
            save_script(self._graph(path).module, path)

    def _graph(self, path: Path) -> Compilation:
        """The optimised model where it still has a form that others understand."""
        copy = self._copy()
        if copy.level is not Level.GRAPH:
            what = f"only a model of level 'graph' has a form as {path.suffix}"
            raise UnsupportedError(what, str(path))
        copy.run([load_pass(name)() for name in self._graph_passes()])
        return copy

    def _graph_passes(self) -> tuple[str, ...]:
        """What fusion does to a graph before there are kernels."""
        return ("fold-batch-norm", "dce") if self.config.fuse_ops else ()

    def _copy(self) -> Compilation:
        """The loaded model, to be lowered; itself it stays as it is."""
        model = self._begin() if self._torch is None else self._torch.saved().simplified
        return model.fork(model.options)


def is_torch(model: Any) -> bool:
    """Whether a model is one of PyTorch; tells it without importing torch."""
    if isinstance(model, (str, Path)):
        return Path(model).suffix in TORCH
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, (torch.nn.Module, torch.export.ExportedProgram))
