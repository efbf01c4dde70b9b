"""The engine as a backend of ONNX: `onnx.backend.test.BackendTest` runs it on the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from ge.dialects.npu.target import DEFAULT
from ge.lowering.pipelines import Options
from ge.runtime.compiled import CompiledModel
from ge.runtime.specialise import SpecialisedModel


class GeRep(BackendRep):
    """A model that is compiled for the inputs it is run with; hazards are looked for."""

    def __init__(self, model: onnx.ModelProto, options: Options) -> None:
        known = {i.name for i in model.graph.initializer}
        self.inputs = [i.name for i in model.graph.input if i.name not in known]
        self.outputs = [o.name for o in model.graph.output]
        self.model = SpecialisedModel(model, options)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs in order, of inputs in order or by name; raises GeError."""
        return self.follow(inputs)[0]

    def follow(self, inputs: Any) -> tuple[tuple[Any, ...], list[CompiledModel]]:
        """The outputs in order, and the programs that computed them."""
        outputs, programs = self.model.follow(self.named(inputs), check_hazards=True)
        return tuple(outputs[name] for name in self.outputs), programs

    def named(self, inputs: Any) -> dict[str, Any]:
        """The inputs by name."""
        if not isinstance(inputs, Mapping):
            inputs = dict(zip(self.inputs, _listed(inputs), strict=False))
        return {name: np.asarray(array) for name, array in inputs.items()}


class GeBackend(Backend):
    """Compiles for one machine, given as `target=`, and runs on its simulator."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Every model may be tried: what is not supported is said when it is run."""
        return True

    @classmethod
    def prepare(
        cls, model: onnx.ModelProto, device: str = "CPU", *, target: str = DEFAULT, **kwargs: Any
    ) -> GeRep:
        """The model, to be run."""
        return GeRep(model, Options(target=target))

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Prepare and run."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one operator of the newest opset."""
        arrays = [np.asarray(a) for a in _listed(inputs)]
        names = [name for name in node.input if name]
        typed = zip(names, arrays, strict=True)
        infos = [_info(name, array.dtype, array.shape) for name, array in typed]
        outs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        if outputs_info is not None:
            outs = [_info(o.name, *i) for o, i in zip(outs, outputs_info, strict=True)]
        graph = onnx.helper.make_graph([node], "node", infos, outs)
        return cls.run_model(onnx.helper.make_model(graph), arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """The simulator runs on the processor, which is what ONNX asks for."""
        return device == "CPU"


def _listed(inputs: Any) -> list[Any]:
    return list(inputs) if isinstance(inputs, list | tuple) else [inputs]


def _info(name: str, dtype: np.dtype[Any], shape: Sequence[int]) -> onnx.ValueInfoProto:
    element = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    return onnx.helper.make_tensor_value_info(name, element, shape)


prepare = GeBackend.prepare
run_model = GeBackend.run_model
run_node = GeBackend.run_node
supports_device = GeBackend.supports_device
