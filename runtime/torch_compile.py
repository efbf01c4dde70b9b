"""`torch.compile(model, backend="ge")`: graphs of dynamo on the device, forward and backward."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch.nn.attention import SDPBackend, sdpa_kernel

from ge.frontend.torch_arrays import shape_of_array, to_argument, to_tensor
from ge.frontend.torch_capture import Captured, capture_program, without_mkldnn
from ge.frontend.torch_gradients import training_decompositions
from ge.frontend.torch_graph import outputs_apart, program_of_graph
from ge.frontend.torch_operators import decompositions
from ge.lowering.pipelines import Options
from ge.runtime.driver import checked
from ge.runtime.engine import OptimizeConfig
from ge.runtime.torch_model import Specialised, TorchModel


def backend(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    options: Mapping[str, Any] | None = None,
    **_: Any,
) -> Callable[..., Any]:
    """The entry point of torch.compile; `options` are those of OptimizeConfig."""
    config = OptimizeConfig(**(options or {}))
    made = replace(checked(config.options()), narrow=True)
    trains = torch.is_grad_enabled() and any(
        isinstance(v, torch.Tensor) and v.requires_grad for v in inputs
    )

    def compiler(part: torch.fx.GraphModule, examples: Any) -> Callable[..., Any]:
        run: Callable[..., Any] = make_boxed_func(Graph(part, made, check=config.check_hazards))
        return run

    wrapped = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=training_decompositions() if trains else decompositions(),
    )
    # Other attention, and layers of mkldnn, have backward passes that no exporter knows.
    with sdpa_kernel(SDPBackend.MATH), without_mkldnn():
        compiled: Callable[..., Any] = wrapped(graph, inputs)
    return compiled


class Graph:
    """One graph of flat inputs and outputs: parameters are among its inputs."""

    def __init__(self, graph: torch.fx.GraphModule, options: Options, *, check: bool) -> None:
        self._options = options
        self._check = check
        with torch._guards.tracing(None):
            own = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
            self._outputs = outputs_apart(own)
            self._captured: Captured = capture_program(program_of_graph(own))
        self._known: dict[Any, Specialised] = {}

    def __call__(self, *given: Any) -> list[Any]:
        """The outputs for tensors, and sizes where the graph takes them."""
        names = self._captured.inputs
        tensors = {n: v for n, v in zip(names, given, strict=True) if isinstance(v, torch.Tensor)}
        sizes = {n: v for n, v in zip(names, given, strict=True) if n not in tensors}
        key = (
            tuple((n, v.dtype, tuple(v.shape)) for n, v in tensors.items()),
            tuple(sizes.items()),
        )
        drawn = self._captured.drawn(given)
        found = self._known.get(key)
        if found is None:
            shapes = {n: shape_of_array(v) for n, v in (tensors | drawn).items()}
            found = Specialised.of(self._captured, self._options, shapes, sizes)
            self._known[key] = found
        program = found.compiled
        known = {tensor.name for tensor in program.program.inputs}
        everything = (tensors | drawn).items()
        arrays = {n: to_argument(n, v) for n, v in everything if n in known}
        results = program.run(arrays, check_hazards=self._check)
        rest = iter([to_tensor(results[n]) for n in self._captured.outputs])
        return [output(rest) for output in self._outputs]


class Learning:
    """Runs a module that is being trained through torch.compile, and otherwise as `runner` does."""

    def __init__(self, module: nn.Module, runner: TorchModel) -> None:
        self._module = module
        self._runner = runner
        self._learner = torch.compile(module, backend=backend)

    @property
    def compiles(self) -> int:
        """How many programs there are for calls without gradients."""
        return self._runner.compiles

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives, with gradients where it is trained."""
        module = self._module
        learns = module.training and torch.is_grad_enabled()
        if learns and any(p.requires_grad for p in module.parameters()):
            return self._learner(*args, **kwargs)
        return self._runner(*args, **kwargs)
