"""The choices that turn a description into a tree; the tree shows every one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from ge.dialects.diagnostics import InputError, did_you_mean
from ge.dialects.npu.places import UNITS
from ge.lowering.kernels.description import Description, DimKind, Vector
from ge.lowering.kernels.flow import in_flow
from ge.lowering.kernels.pieces import in_pieces, may_be_in_pieces

Pairs = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Tiling:
    """Tile sizes and placements of one kernel."""

    block: Pairs
    """Tile of each parallel dimension; whole where it is not named."""
    inner: Pairs = ()
    """Parallel loops inside a core's block, so that what does not depend on them stays put."""
    sequential: int = 0
    """Step of the sequential dimension; of a product, the pieces its sum is taken in."""
    within: Pairs = ()
    """Parallel loops inside the sequential one: the parts of a tile that take turns on the chip."""
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
    flows: bool = False
    """Whether parts of a tile follow those of the tile before without a gap."""
    orders: tuple[tuple[str, str, str], ...] = ()
    """A loop and two units: the second waits for what the first did an iteration before."""
    chosen: bool = False
    """Whether what is not said here is as the compiler chooses it."""

    def nest(self, result: str, default: Pairs) -> Pairs:
        """The loops around a product."""
        return dict(self.nests).get(result, default)

    def over(self, chosen: Tiling) -> Tiling:
        """What is said here laid over the compiler's choice."""
        said = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "chosen"}
        return replace(chosen, **{name: value for name, value in said.items() if value})

    def with_pin(self, operand: str, loop: str) -> Tiling:
        """The same, but a load that must not leave a loop."""
        return replace(self, pinned=self.pinned | {(operand, loop)})


def tiled(description: Description, tiling: Tiling) -> Description:
    """The kernel that a tiling cuts: a product in pieces where it says so."""
    over = description.dims_with(DimKind.SEQUENTIAL)
    if tiling.sequential and may_be_in_pieces(description):
        return in_pieces(description, tiling.sequential, 2 if tiling.flows else 1)
    return in_flow(description) if over and flows(description, tiling) else description


def flows(description: Description, tiling: Tiling) -> bool:
    """Whether the sequential loop flows: not where one tile holds all of it."""
    over = description.dims_with(DimKind.SEQUENTIAL)
    whole = all(description.extents[dim] <= tiling.sequential for dim in over)
    return tiling.flows and (description.until is not None or not whole)


def in_turns(tiling: Tiling) -> Tiling:
    """The same, but an epilogue that does not run behind its products."""
    return replace(tiling, final_stage=0, flows=False)


class Candidate(NamedTuple):
    """A tiling, and the cycles that a model gives it; 0 where none does."""

    tiling: Tiling
    cycles: float = 0.0


def filled(extents: Mapping[str, int], dims: tuple[str, ...], most: int) -> Pairs:
    """Extents whose product is at most `most`, innermost dimensions first."""
    tile = {}
    for dim in reversed(dims):
        tile[dim] = max(1, min(extents[dim], most))
        most //= tile[dim]
    return tuple((d, tile[d]) for d in dims)


def parse_tiling(text: str) -> Tiling:
    """A tiling written as clauses.

    `block m=128 n=256; nest acc k=512 k=64; load a acc_k512; chunk 0 m=64; copies a_l1=1`, and
    `inner n=64`, `within m=64`, `sequential 128`, `stage 1`, `flows`, `pin x0 block`,
    `order block fix mte2`, `chosen`. Raises InputError naming the clause.
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
        except (ValueError, LookupError):
            raise InputError(f"'{clause}' must be like '{_EXAMPLES[word]}'") from None
        if isinstance(value, frozenset):
            value |= found.get(name, frozenset())
        elif isinstance(value, tuple):
            value = (*found.get(name, ()), *value)
        found[name] = value
    return Tiling(**found)


def text_of(tiling: Tiling) -> str:
    """The clauses that `parse_tiling` reads as `tiling`."""

    def pairs(given: Pairs) -> str:
        return " ".join(f"{name}={n}" for name, n in given)

    clauses = ["chosen"] * tiling.chosen
    clauses += [f"{word} {pairs(given)}" for word, given in _pair_clauses(tiling) if given]
    clauses += [f"sequential {tiling.sequential}"] * bool(tiling.sequential)
    clauses += [f"nest {out} {pairs(steps)}" for out, steps in tiling.nests if steps]
    clauses += [f"load {name} {loop}" for name, loop in tiling.loads if loop]
    clauses += [f"chunk {number} {pairs((cut,))}" for number, cut in tiling.chunks]
    clauses += [f"stage {tiling.final_stage}"] * bool(tiling.final_stage)
    clauses += ["flows"] * tiling.flows
    clauses += [f"pin {name} {loop}" for name, loop in sorted(tiling.pinned)]
    clauses += [f"order {' '.join(order)}" for order in tiling.orders]
    return "; ".join(clauses)


def _pair_clauses(tiling: Tiling) -> Iterator[tuple[str, Pairs]]:
    yield "block", tiling.block
    yield "inner", tiling.inner
    yield "within", tiling.within
    yield "copies", tiling.copies


def check_tiling(tiling: Tiling, description: Description) -> None:
    """Raise InputError for what a tiling names and the kernel does not have."""
    whole, description = description, tiled(description, tiling)
    sequential = description.dims_with(DimKind.SEQUENTIAL)
    if sequential and not tiling.sequential:
        raise InputError("a tiling of this kernel must have a clause like 'sequential 128'")
    for word in ("sequential", "flows", "within"):
        if getattr(tiling, word) and not (sequential and tiling.sequential):
            raise InputError(f"only a kernel with a sequential loop must have '{word}'")
    _check_flow(tiling, description, not whole.dims_with(DimKind.SEQUENTIAL))
    _check_batch(tiling, description)
    known = {
        "a parallel dimension": description.dims_with(DimKind.PARALLEL),
        "a summed dimension": tuple({d: None for m in description.matrices for d in m.over}),
        "a product": tuple(m.out for m in description.matrices),
        "an operand": tuple(o.name for o in description.operands),
        "a vector statement": tuple(
            str(i) for i in range(sum(isinstance(s, Vector) for s in description.statements))
        ),
    }
    named = [
        ("a parallel dimension", dim) for dim, _ in (*tiling.block, *tiling.inner, *tiling.within)
    ]
    named += [("a product", out) for out, _ in tiling.nests]
    named += [("a summed dimension", dim) for _, nest in tiling.nests for dim, _ in nest]
    named += [("an operand", name) for name, _ in (*tiling.loads, *sorted(tiling.pinned))]
    named += [("a vector statement", str(number)) for number, _ in tiling.chunks]
    named += [("a parallel dimension", dim) for _, (dim, _) in tiling.chunks]
    for what, name in named:
        if name not in known[what]:
            has = ", ".join(known[what]) or "none"
            raise InputError(f"a tiling must name {what} of the kernel ({has}), got '{name}'")


def _check_flow(tiling: Tiling, description: Description, in_pieces: bool) -> None:
    """What flows needs its operands where each iteration loads them."""
    if not tiling.flows:
        return
    if not in_pieces:
        if tiling.within:
            raise InputError("a kernel whose tiles flow must not have 'within'")
        return
    inputs = {o.name for o in description.operands}
    loads = dict(tiling.loads)
    for name in (n for m in description.matrices for n in (m.a, m.b) if n in inputs):
        if not tiling.within or loads.get(name) != "sequential":
            raise InputError(
                f"a product that flows must have 'within' and 'load {name} sequential'"
            )
    (over,) = description.dims_with(DimKind.SEQUENTIAL)
    if tiling.sequential >= description.extents[over]:
        raise InputError(f"a product that flows must have pieces of '{over}'")


def _check_batch(tiling: Tiling, description: Description) -> None:
    """A product on the matrix unit has rows and columns: of all else a tile holds one."""
    inputs = {o.name: o for o in description.operands}
    sizes = dict(tiling.block) | dict(tiling.inner) | dict(tiling.within)
    for m in description.matrices:
        if m.a not in inputs or m.b not in inputs:
            continue
        for dim in inputs[m.a].dims:
            many = min(sizes.get(dim, description.extents[dim]), description.extents[dim])
            if dim in inputs[m.b].dims and dim not in m.over and many > 1:
                raise InputError(
                    f"a tile of this kernel must hold one place of '{dim}', as by 'block {dim}=1', "
                    f"got {many}"
                )


def _pairs(words: Sequence[str]) -> Pairs:
    pairs = []
    for word in words:
        name, _, number = word.partition("=")
        if not name:
            raise ValueError
        pairs.append((name, _positive(number)))
    return tuple(pairs)


def _positive(word: str) -> int:
    if int(word) < 1:
        raise ValueError
    return int(word)


def _two(words: Sequence[str]) -> tuple[str, str]:
    first, second = words
    return first, second


def _alone(words: Sequence[str]) -> bool:
    if words:
        raise ValueError
    return True


def _order(words: Sequence[str]) -> tuple[str, str, str]:
    loop, first, then = words
    return loop, UNITS[first].value, UNITS[then].value


_CLAUSES: dict[str, tuple[str, Callable[[Sequence[str]], Any]]] = {
    "block": ("block", _pairs),
    "inner": ("inner", _pairs),
    "within": ("within", _pairs),
    "sequential": ("sequential", lambda words: _positive(words[0])),
    "nest": ("nests", lambda words: ((words[0], _pairs(words[1:])),)),
    "load": ("loads", lambda words: (_two(words),)),
    "chunk": ("chunks", lambda words: ((int(words[0]), _pairs(words[1:])[0]),)),
    "stage": ("final_stage", lambda words: (0, 1)[int(words[0])]),
    "flows": ("flows", _alone),
    "pin": ("pinned", lambda words: frozenset({_two(words)})),
    "copies": ("copies", _pairs),
    "order": ("orders", lambda words: (_order(words),)),
    "chosen": ("chosen", _alone),
}
_EXAMPLES = {
    "block": "block m=128 n=256",
    "inner": "inner n=256",
    "within": "within m=64",
    "sequential": "sequential 128",
    "nest": "nest acc k=512 k=64",
    "load": "load a acc_k512",
    "chunk": "chunk 0 m=64",
    "stage": "stage 1",
    "flows": "flows",
    "pin": "pin x0 block",
    "copies": "copies a_l1=1",
    "order": "order block fix mte2",
    "chosen": "chosen",
}
