"""The choices that turn a description into a tree; the tree shows every one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ge.dialects.diagnostics import InputError, did_you_mean

Pairs = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Tiling:
    """Tile sizes and placements of one kernel."""

    block: Pairs
    """Tile of each parallel dimension; whole where it is not named."""
    inner: Pairs = ()
    """Parallel loops inside a core's block, so that what does not depend on them stays put."""
    sequential: int = 0
    nests: tuple[tuple[str, Pairs], ...] = ()
    """By matrix result: the loops around its products, outermost first."""
    loads: tuple[tuple[str, str], ...] = ()
    """By operand: the loop of the nest that its load into `l1` stands in."""
    chunks: tuple[tuple[int, tuple[str, int]], ...] = ()
    """By number of the vector statement: the dimension its tile is cut along, and the piece."""
    final_stage: int = 0
    pinned: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    """Operands that must not be loaded outside a loop: memory would overflow."""
    copies: Pairs = ()
    """Copies of buffers, by label; the others get what there is room for."""

    def nest(self, result: str, default: Pairs) -> Pairs:
        """The loops around a product."""
        return dict(self.nests).get(result, default)

    def with_pin(self, operand: str, loop: str) -> Tiling:
        """The same, but a load that must not leave a loop."""
        return replace(self, pinned=self.pinned | {(operand, loop)})


def parse_tiling(text: str) -> Tiling:
    """A tiling written as clauses.

    `block m=128 n=256; nest acc k=512 k=64; load a acc_k512; chunk 0 m=64; copies a_l1=1`, and
    `inner n=64`, `sequential 128`, `stage 1`, `pin x0 block`. Raises InputError naming the clause.
    """
    found: dict[str, Any] = {"block": ()}
    for clause in filter(None, (c.strip() for c in text.split(";"))):
        word, *rest = clause.split()
        if word not in _CLAUSES:
            hint = did_you_mean(word, _CLAUSES)
            raise InputError(f"a clause of a tiling must be known, got '{clause}'{hint}")
        name, read = _CLAUSES[word]
        try:
            value = read(rest)
        except (ValueError, IndexError):
            raise InputError(f"'{clause}' must be like '{_EXAMPLES[word]}'") from None
        if isinstance(value, frozenset):
            value |= found.get(name, frozenset())
        elif isinstance(value, tuple):
            value = (*found.get(name, ()), *value)
        found[name] = value
    return Tiling(**found)


def _pairs(words: Sequence[str]) -> Pairs:
    pairs = []
    for word in words:
        name, _, number = word.partition("=")
        if int(number) < 1 or not name:
            raise ValueError
        pairs.append((name, int(number)))
    return tuple(pairs)


def _two(words: Sequence[str]) -> tuple[str, str]:
    first, second = words
    return first, second


_CLAUSES: dict[str, tuple[str, Callable[[Sequence[str]], Any]]] = {
    "block": ("block", _pairs),
    "inner": ("inner", _pairs),
    "sequential": ("sequential", lambda words: int(words[0])),
    "nest": ("nests", lambda words: ((words[0], _pairs(words[1:])),)),
    "load": ("loads", lambda words: (_two(words),)),
    "chunk": ("chunks", lambda words: ((int(words[0]), _pairs(words[1:])[0]),)),
    "stage": ("final_stage", lambda words: int(words[0])),
    "pin": ("pinned", lambda words: frozenset({_two(words)})),
    "copies": ("copies", _pairs),
}
_EXAMPLES = {
    "block": "block m=128 n=256",
    "inner": "inner n=256",
    "sequential": "sequential 128",
    "nest": "nest acc k=512 k=64",
    "load": "load a acc_k512",
    "chunk": "chunk 0 m=64",
    "stage": "stage 1",
    "pin": "pin x0 block",
    "copies": "copies a_l1=1",
}
