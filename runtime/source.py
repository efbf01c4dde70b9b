"""What a compile begins with: a model in a file or in memory, read as a module of some level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

from ge.dialects.diagnostics import InputError, UnsupportedError
from ge.dialects.fused.base import FusedOp, ViewOp
from ge.dialects.fused.ops import HostOp
from ge.dialects.graph.base import ConstantOp, GraphOp
from ge.dialects.graph.control import ControlOp
from ge.dialects.graph.module import functions_of, main_of, set_in_place
from ge.dialects.module_text import read_module
from ge.lowering.pipelines import Level
from ge.lowering.programs import programs_of

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

    from ge.frontend.onnx_stages import Stage

TORCH = (".pt", ".pt2")
"""What files of PyTorch are called."""

MEMBERS: dict[Level, tuple[type[Operation], ...]] = {
    Level.GRAPH: (GraphOp, ControlOp, ConstantOp, ReturnOp),
    Level.FUSED: (FusedOp, HostOp, ViewOp, ControlOp, ConstantOp, ReturnOp),
}
"""The operations that the model of a level is made of."""


@dataclass(frozen=True)
class Source:
    """What is compiled: a file of any kind that we read, or an ONNX model in memory."""

    model: str | Path | onnx.ModelProto | ir.Model
    shapes: Mapping[str, Sequence[int]] | None = None
    """Shapes of inputs whose dimensions the model leaves open."""
    values: Mapping[str, Any] | None = None
    """Values of inputs that the program is specialised on; they are no inputs of it."""
    stage: Stage | None = None
    """The part of the model that is compiled, where the data decide shapes inside it."""
    in_place: Mapping[str, str] | None = None
    """Inputs whose arrays an output may be written over, each with that output."""

    @property
    def is_torch(self) -> bool:
        """Whether it is a file of PyTorch."""
        return isinstance(self.model, (str, Path)) and Path(self.model).suffix in TORCH

    def read(self, ctx: Context) -> tuple[ModuleOp, Level]:
        """The model as a module, and its level; raises GeError for what is none."""
        module, level = self._read(ctx)
        if self.in_place:
            if level is Level.NPU:
                raise InputError("instructions must say themselves what is written over what")
            set_in_place(main_of(module), self.in_place)
        return module, level

    def _read(self, ctx: Context) -> tuple[ModuleOp, Level]:
        if not isinstance(self.model, (str, Path)):
            return self._import(self.model), Level.GRAPH
        path = Path(self.model)
        if self.is_torch:
            need_torch(str(path))
            from ge.frontend.torch_files import read_torch

            return self._import(read_torch(path, self.shapes or {})), Level.GRAPH
        if path.suffix in (".s", ".o"):
            what = (
                "a model or a module must be given; assembly is for ge-as, objects are for ge-run"
            )
            raise InputError(what, str(path))
        if path.suffix != ".mlir":
            return self._import(self.model), Level.GRAPH
        for what, given in (("shape", self.shapes), ("value", self.values)):
            if given:
                raise InputError(f"a {what} must be for an ONNX model, got one", str(path))
        module = read_module(path, ctx)
        return module, _checked_level(module, str(path))

    def _import(self, model: Any) -> ModuleOp:
        import onnx
        import onnx_ir as ir

        from ge.frontend.onnx_import import import_onnx

        if not isinstance(model, (str, Path, onnx.ModelProto, ir.Model)):
            raise UnsupportedError(
                f"models must be files or ONNX models, got {type(model).__name__}; modules of "
                "PyTorch are for GraphEngine, which learns their shapes from a call"
            )
        return import_onnx(model, self.shapes, self.values, self.stage)


def need_torch(where: str) -> None:
    """Refuse what takes PyTorch where it is not installed."""
    for name in ("torch", "onnxscript"):
        if find_spec(name) is None:
            raise UnsupportedError(
                f"'{name}' must be installed for models of PyTorch: pip install 'ge-npu[torch]'",
                where,
            )


def _checked_level(module: ModuleOp, where: str) -> Level:
    """The level of a text. All of it must be of that level, and the signature of tensors."""
    if any(programs_of(module)):
        return Level.NPU
    try:
        main = main_of(module)
    except InputError as e:
        raise InputError(e.message, where) from None
    members = [op for function in functions_of(module) for op in function.body.block.ops]
    fused = any(isinstance(op, FusedOp | HostOp | ViewOp) for op in members)
    level = Level.FUSED if fused else Level.GRAPH
    for op in members:
        if not isinstance(op, MEMBERS[level]):
            raise InputError(
                f"a model of level '{level.value}' must not hold '{op.name}'", _place(op, where)
            )
    for type_ in _signature(main):
        if not isinstance(type_, TensorType) or any(d < 0 for d in type_.get_shape()):
            what = f"inputs and outputs must be tensors of concrete shapes, got {type_}"
            raise InputError(what, _place(main, where))
    return level


def _signature(main: FuncOp) -> Iterator[Any]:
    yield from main.function_type.inputs
    yield from main.function_type.outputs


def _place(op: Operation, where: str) -> str:
    at = op.location
    return f"{where}:{at.line.data}:{at.column.data}" if isinstance(at, FileLineColLoc) else where
