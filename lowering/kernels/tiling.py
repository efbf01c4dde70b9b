"""The choices that turn a description into a tree; the tree shows every one of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
    copies: tuple[tuple[str, int], ...] = ()
    """By buffer: a bound on its copies."""

    def nest(self, result: str, default: Pairs) -> Pairs:
        return dict(self.nests).get(result, default)

    def with_pin(self, operand: str, loop: str) -> Tiling:
        return replace(self, pinned=self.pinned | {(operand, loop)})
