"""Scripts that decide by values: what is between two decisions is one program on the device.

The interpreter of TorchScript keeps its branches and loops. It is given tensors that only note what
is done to them; when it asks for a number, what was noted is compiled, run, and the number looked
up.
"""

from __future__ import annotations

import operator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any
from weakref import WeakSet

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from ge.dialects.diagnostics import UnsupportedError
from ge.frontend.torch_capture import flatten_arguments, quiet
from ge.frontend.torch_refusals import DecidesByValue
from ge.lowering.pipelines import Options
from ge.runtime.torch_compile import Graph
from ge.runtime.torch_model import TorchModel

aten = torch.ops.aten


class Noted(torch.Tensor):
    """A tensor whose numbers are not computed yet, or a computed one that is followed."""

    session: Any
    fake: Any
    computed: torch.Tensor | None
    shared: list[int]
    """How many tensors look at the same numbers, those of views included."""

    @staticmethod
    def __new__(cls, session: Session, fake: Any, real: Any = None) -> Any:
        made = torch.Tensor._make_wrapper_subclass(
            cls, fake.shape, strides=fake.stride(), dtype=fake.dtype, device=fake.device
        )
        # The name `real` is taken: it is a part of a complex number.
        made.session, made.fake, made.computed, made.shared = session, fake, real, [1]
        session.alive.add(made)
        return made

    def __init__(self, *_: Any) -> None:
        super().__init__()

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        noted = [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, Noted)]
        return noted[0].session.do(function, args, kwargs or {})


class Session:
    """One run of a script: what has been noted since the last number was asked for."""

    def __init__(self, programs: dict[str, Graph], options: Options, *, check: bool) -> None:
        self.alive: WeakSet[Noted] = WeakSet()
        self._programs = programs
        self._options = options
        self._check = check
        self._mode = FakeTensorMode()
        self._begin()

    def _begin(self) -> None:
        self._graph = torch.fx.Graph()
        self._nodes: dict[int, torch.fx.Node] = {}
        self._given: list[torch.Tensor] = []
        self._held: list[Any] = []

    def follow(self, tensor: torch.Tensor) -> Noted:
        """A tensor that is there already."""
        made: Noted = Noted(self, self._mode.from_tensor(tensor), tensor)
        return made

    def do(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Note what an operator gives; a number that is asked for is computed."""
        if function is aten._local_scalar_dense.default:
            return self.value(args[0]).item()
        schema = function._schema
        if schema.is_mutable:
            return self._replace(function, args, kwargs)
        with self._mode:
            fake = function(
                *pytree.tree_map(self._fake, args), **pytree.tree_map(self._fake, kwargs)
            )
        leaves, spec = pytree.tree_flatten(fake)
        if not all(isinstance(v, torch.Tensor) for v in leaves):
            raise UnsupportedError(f"a script must not use {function} on values that it decides by")
        node = self._graph.call_function(function, *pytree.tree_map(self._node, (args, kwargs)))
        node.meta["val"] = fake
        made = [Noted(self, v) for v in leaves]
        if len(made) == 1 and spec.is_leaf():
            self._nodes[id(made[0])] = node
        else:
            for i, one in enumerate(made):
                part = self._graph.call_function(operator.getitem, (node, i))
                part.meta["val"] = one.fake
                self._nodes[id(one)] = part
        if any(a.alias_info is not None for a in schema.arguments):
            for one in made:
                one.shared = args[0].shared if isinstance(args[0], Noted) else one.shared
                one.shared[0] += 1
        return pytree.tree_unflatten(made, spec)

    def _replace(self, function: Any, args: Any, kwargs: Any) -> Any:
        """An operator in place: its result takes the tensor's place."""
        target = args[0]
        name = function._schema.name.removeprefix("aten::")
        plain = getattr(aten, name[:-1], None) if name.endswith("_") else None
        if plain is None or not isinstance(target, Noted) or target.shared[0] > 1:
            raise UnsupportedError(
                f"a script that decides by values must not change parts of tensors, got {function}"
            )
        made = plain(*args, **kwargs)
        target.fake, target.computed = made.fake, None
        self._nodes[id(target)] = self._nodes[id(made)]
        return target

    def value(self, tensor: Noted) -> torch.Tensor:
        """The numbers of a tensor: what was noted is run."""
        if tensor.computed is None:
            self._flush()
        assert tensor.computed is not None
        return tensor.computed

    def found(self, value: Any) -> Any:
        """A result as the caller gets it."""
        return self.value(value) if isinstance(value, Noted) else value

    def _flush(self) -> None:
        wanted = [v for v in self.alive if v.computed is None and id(v) in self._nodes]
        wanted.sort(key=lambda v: list(self._graph.nodes).index(self._nodes[id(v)]))
        self._graph.output(tuple(self._nodes[id(v)] for v in wanted))
        self._graph.eliminate_dead_code()
        module = torch.fx.GraphModule({}, self._graph)
        key = module.code + repr([(t.dtype, tuple(t.shape)) for t in self._given])
        found = self._programs.get(key)
        if found is None:
            # Inside an operator torch cannot trace: a thread has a state of its own.
            with ThreadPoolExecutor(1) as other:
                found = other.submit(self._compiled, module).result()
            self._programs[key] = found
        for tensor, real in zip(wanted, found(*self._given), strict=True):
            tensor.computed = real
        self._begin()

    def _compiled(self, module: torch.fx.GraphModule) -> Graph:
        with torch.no_grad():
            return Graph(module, self._options, check=self._check)

    def _fake(self, value: Any) -> Any:
        if isinstance(value, Noted):
            return value.fake
        return self._mode.from_tensor(value) if isinstance(value, torch.Tensor) else value

    def _node(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in self._nodes:
            # Held until the run: another tensor must not get its identity.
            self._held.append(value)
            real = value.computed if isinstance(value, Noted) else value
            assert real is not None
            first = next((n for n in self._graph.nodes if n.op != "placeholder"), None)
            with self._graph.inserting_before(first) if first else nullcontext():
                node = self._graph.placeholder(f"in{len(self._given)}")
            node.meta["val"] = self._fake(value)
            self._nodes[id(value)] = node
            self._given.append(real.detach())
        return self._nodes[id(value)]


class ScriptModel(TorchModel):
    """Runs a ScriptModule: as one program, or piece by piece where values decide what is done."""

    def __init__(self, module: nn.Module, options: Options, **how: Any) -> None:
        super().__init__(module, options, **how)
        self._programs: dict[str, Graph] = {}
        self._decides = False

    @property
    def compiles(self) -> int:
        """How many programs there are."""
        return super().compiles + len(self._programs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the script gives; every number that it decides by comes from the device."""
        if not self._decides:
            try:
                return super().__call__(*args, **kwargs)
            except DecidesByValue:
                self._decides = True
        session = Session(self._programs, self.options, check=self.check)
        leaves, spec = flatten_arguments(args, kwargs)
        noted = [session.follow(v) if isinstance(v, torch.Tensor) else v for v in leaves]
        args, kwargs = pytree.tree_unflatten(noted, spec)
        # What torch would fuse or derive by itself is not what is noted.
        with quiet(), torch.no_grad(), torch.jit.optimized_execution(False):
            with sdpa_kernel(SDPBackend.MATH):
                out = self.module(*args, **kwargs)
            result = pytree.tree_map(session.found, out)
            for before, after in zip(leaves, noted, strict=True):
                if isinstance(after, Noted) and session.value(after) is not before:
                    before.copy_(session.value(after))
        return result
