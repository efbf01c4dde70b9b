"""A module of torch that runs on the device: compiled for each shape it is called with."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from ge.dialects.diagnostics import GeError, InputError, UnsupportedError
from ge.frontend.torch_arrays import to_argument, to_array, to_tensor
from ge.frontend.torch_capture import Captured, capture_module, flatten_arguments
from ge.frontend.torch_refusals import check_dense, in_words_of_torch
from ge.frontend.torch_state import FIXED, Simple, keep, plain_attributes
from ge.lowering.pipelines import Options
from ge.runtime.compiled import CompiledModel, finish
from ge.runtime.driver import Compilation, begin, few_collections
from ge.runtime.program_cache import ProgramCache
from ge.runtime.source import Source
from ge.runtime.torch_cache import captured_of, module_key, notes_of

HASHES = ("_original_object_hash",)
"""Attributes of configurations that differ from process to process."""

MOST_ITEMS = 64
"""Of longer lists only the length is compared."""


class Specialised:
    """What a module does with arguments of one form, and the program that does it."""

    def __init__(
        self, captured: Captured, compiled: CompiledModel, simplify: Callable[[], Compilation]
    ) -> None:
        self.captured = captured
        self.compiled = compiled
        self._simplify = simplify

    @classmethod
    def of(
        cls,
        captured: Captured,
        options: Options,
        shapes: Mapping[str, Sequence[int]] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> Specialised:
        """Compile what was captured."""
        assert captured.model is not None
        source = Source(captured.model, shapes, values, in_place=captured.in_place)
        try:
            with few_collections():
                simplified = begin(source, options)
                compiled = finish(simplified.fork(options), source)
        except GeError as e:
            raise in_words_of_torch(e, captured.model) from e
        return cls(captured, compiled, lambda: simplified)

    @property
    def simplified(self) -> Compilation:
        """The model before it was lowered."""
        return self._simplify()

    def run(self, module: nn.Module, tensors: Sequence[torch.Tensor], *, check: bool) -> Any:
        """The module's result; buffers, attributes and tensors that it changes are changed."""
        how = self.captured
        buffers = dict(module.named_buffers()) if how.buffers else {}
        known = {tensor.name for tensor in self.compiled.program.inputs}
        given = {
            name: to_argument(name, tensor)
            for name, tensor in zip(how.inputs, tensors, strict=True)
            if name in known
        }
        drawn = how.drawn(tensors)
        given |= {name: to_argument(name, v) for name, v in drawn.items() if name in known}
        held = {i: buffers[name] for name, (i, _) in how.buffers.items() if i in known}
        given |= {name: to_argument(name, tensor) for name, tensor in held.items()}
        results = self.compiled.run(given, check_hazards=check, in_place=True)
        changed = [(buffers[name], output) for name, (_, output) in how.buffers.items()]
        changed += [(tensors[place], output) for place, output in how.changed.items()]
        for tensor, output in changed:
            _change(tensor, to_tensor(results[output]))
        outs = [to_tensor(results[name]) for name in how.outputs]
        if how.structure is None:
            return outs
        result, kept = how.structure.restore(outs)
        keep(module, kept)
        return result


def _change(tensor: torch.Tensor, made: torch.Tensor) -> None:
    """Let a tensor be what was made of it: most lie in device memory and are that already."""
    if tensor.data_ptr() != made.data_ptr():
        with torch.no_grad():
            tensor.copy_(made)


class TorchModel:
    """Compiles `module` when it is called with what it has not been called with before.

    What was compiled is kept as long as the parameters hold what they held; programs have them in
    their weights.
    """

    def __init__(
        self,
        module: nn.Module,
        options: Options,
        *,
        check: bool = False,
        cache: ProgramCache | None = None,
    ) -> None:
        self.module = module
        self.options = options
        self.check = check
        self.cache = cache
        self.last: Specialised | None = None
        """What the last call ran: the shapes in which the model is saved."""
        self._known: dict[Any, Specialised] = {}
        self._weights = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives for these arguments, computed by the device."""
        leaves, spec = flatten_arguments(args, kwargs)
        tensors = [v for v in leaves if isinstance(v, torch.Tensor)]
        specialised = self.specialise(leaves, spec)
        return specialised.run(self.module, tensors, check=self.check)

    def specialise(self, leaves: Sequence[Any], spec: Any) -> Specialised:
        """What runs arguments of this form, compiled now if there is none yet."""
        weights = self._fingerprint()
        if weights != self._weights:
            self._known.clear()
            self._weights = weights
        key = (spec, tuple(map(_form, leaves)), tuple(_state(self.module)))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._remembered(leaves, spec, key[2])
            # What the module changes is no weight of the program: look at the others only.
            self._weights = self._fingerprint()
        self.last = found
        return found

    def _remembered(self, leaves: Sequence[Any], spec: Any, state: Any) -> Specialised:
        """The program of a form of arguments: from the cache if it is there, else made and kept."""

        def make() -> Specialised:
            captured = capture_module(self.module, leaves, spec)
            return Specialised.of(captured, self.options)

        key = None
        if self.cache is not None:
            key = module_key(self.module, leaves, spec, self.options, state)
        if self.cache is None or key is None:
            return make()
        if (found := self.cache.get(key)) is not None:
            program, notes = found
            return Specialised(
                captured_of(notes), CompiledModel(program), lambda: make().simplified
            )
        made = make()
        if (described := notes_of(made.captured)) is not None:
            self.cache.put(key, made.compiled.program, described)
        return made

    def saved(self) -> Specialised:
        """What is saved; raises InputError before the shapes are known."""
        if self.last is None:
            raise InputError(
                "a module must have been called before it is saved, its shapes are not known"
            )
        return self.last

    @property
    def compiles(self) -> int:
        """How many programs there are for the parameters as they are."""
        return len(self._known)

    def _fingerprint(self) -> int:
        """A number that changes when a parameter does, also one that torch does not know of."""
        known = [s.captured for s in self._known.values()]
        changing = {name for captured in known for name in captured.buffers}
        if known:
            changing |= set.intersection(*(set(captured.recorded) for captured in known))
        total = 0
        for name, tensor in _tensors(self.module):
            if name not in changing:
                total = zlib.crc32(memoryview(_bytes(tensor)), total)
        return total


def _tensors(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """All that a program may have as a weight: attributes that are plain tensors too."""
    for prefix, part in module.named_modules():
        dot = f"{prefix}." if prefix else ""
        for holder in (part._parameters, part._buffers, dict(plain_attributes(part))):
            for name, value in holder.items():
                for leaf in _leaves(value):
                    if isinstance(leaf, torch.Tensor):
                        yield f"{dot}{name}", leaf


def _leaves(value: Any) -> Sequence[Any]:
    few = isinstance(value, (list, tuple, dict)) and len(value) <= MOST_ITEMS
    return pytree.tree_leaves(value) if few else (value,)


def _bytes(tensor: torch.Tensor) -> Any:
    return to_array(tensor).reshape(-1).view(np.uint8)


def _form(leaf: Any) -> Any:
    """What of an argument a program depends on: of a tensor its type and shape, else all of it."""
    if isinstance(leaf, torch.Tensor):
        check_dense(leaf)
        return leaf.dtype, tuple(leaf.shape)
    if not isinstance(leaf, FIXED):
        raise UnsupportedError(
            f"arguments must be tensors, numbers, texts, and lists of them, got a "
            f"{type(leaf).__name__}: what it holds would be fixed to what it holds now"
        )
    return type(leaf), leaf


def _state(module: nn.Module) -> Iterator[Any]:
    """What the code of a module may branch on: its plain attributes, and those of its settings."""
    for part in module.modules():
        yield part.training
        for name, value in plain_attributes(part):
            if isinstance(value, Simple):
                yield value
            elif isinstance(value, (set, frozenset)):
                yield repr(sorted(map(repr, value)))
            elif isinstance(value, (list, tuple, dict)):
                few = len(value) <= MOST_ITEMS
                yield repr(pytree.tree_map(_plain, value)) if few else len(value)
            elif name.endswith("config") and hasattr(value, "__dict__"):
                pairs = vars(value).items()
                yield from (v for n, v in pairs if isinstance(v, Simple) and n not in HASHES)


def _plain(value: Any) -> Any:
    """A tensor without its numbers: it is a weight."""
    return _form(value) if isinstance(value, torch.Tensor) else value
