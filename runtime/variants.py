"""A model under several options: what their passes have in common is done once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xdsl.passes import ModulePass

from ge.dialects.npu.program import Program
from ge.lowering.pipelines import Level, Options, passes
from ge.runtime.driver import Compilation


class _Variant(NamedTuple):
    """Options, and the passes that are still to be run for them."""

    options: Options
    left: Sequence[tuple[Level, ModulePass]]


def programs(compilation: Compilation, options: Sequence[Options]) -> Iterator[Program]:
    """The program of each of the options, in their order; `compilation` stays as it is.

    Whether they fit the target's memory is left to who runs them.
    """
    levels = list(Level)[list(Level).index(compilation.level) : -1]
    variants = [_Variant(o, [(at, p) for at in levels for p in passes(at, o)]) for o in options]
    return _programs(compilation.fork(compilation.options), variants)


def _programs(compilation: Compilation, variants: Sequence[_Variant]) -> Iterator[Program]:
    """Variants stay together as long as their next passes are the same."""
    first = variants[0]
    if not first.left:
        compilation.arrive(Level.NPU)
        program = compilation.program(fits=False)
        yield from (program for _ in variants)
        return
    level, step = first.left[0]
    if level is not compilation.level:
        compilation.arrive(level)
    apart = next((i for i, v in enumerate(variants) if v.left[:1] != first.left[:1]), None)
    together = compilation if apart is None else compilation.fork(first.options)
    together.run([step])
    yield from _programs(together, [v._replace(left=v.left[1:]) for v in variants[:apart]])
    if apart is not None:
        yield from _programs(compilation, variants[apart:])
