"""Tilings that the clock has chosen: the best few of a model's, and what a user keeps of them.

A kept tiling is a line `KEY: TILING`. The key names the kernel, the machine and a digest of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from itertools import islice

from ge.dialects.diagnostics import DoesNotFit, InputError
from ge.dialects.npu import target as targets
from ge.lowering.kernels.choose_tiling import tilings
from ge.lowering.kernels.description import Description
from ge.lowering.kernels.tiling import Candidate, Tiling, in_turns, parse_tiling, text_of
from ge.lowering.place_kernel import fitted
from ge.lowering.time_kernel import Machine, cycles

TRIES = 24
"""Tilings that are built before a kernel is said not to fit; as many are timed when tuning."""
WORTH_US = 40.0
"""How long a kernel must take for each tiling of it that is timed unasked."""
MOST = 5
"""Tilings of one kernel that are timed unasked."""

Cold = frozenset[int]


def choices(
    description: Description, machine: Machine, cold: Cold, thorough: bool = False
) -> Iterator[Tiling]:
    """Tilings to take, best first; the clock has chosen the first one where that is worth it.

    `cold` are the operands that device memory delivers or takes.
    """
    found = _candidates(description, machine)
    worth = WORTH_US * targets.load(machine.name).clock_mhz
    most = TRIES if thorough else min(MOST, int(found[0].cycles / worth)) if found else 0
    if most > 1:
        best = _quickest(description, machine, cold, most)
        if best is not None:
            yield best
            return
    yield from (tiling for tiling, _ in found)


@lru_cache(maxsize=4096)
def _candidates(description: Description, machine: Machine) -> tuple[Candidate, ...]:
    """The tilings that are worth a try, best first."""
    ranked = tilings(description, targets.load(machine.name))
    if machine.overlap:
        return tuple(islice(ranked, TRIES))
    # To add pieces while the matrix unit waits never pays.
    whole = (Candidate(in_turns(t), cycles) for t, cycles in ranked if not t.within)
    return tuple(islice(whole, TRIES))


@lru_cache(maxsize=4096)
def _quickest(description: Description, machine: Machine, cold: Cold, most: int) -> Tiling | None:
    """The one of the first `most` tilings that takes the fewest cycles; None if none fits."""
    target = targets.load(machine.name)
    best: tuple[int, Tiling] | None = None
    for tiling, _ in _candidates(description, machine)[:most]:
        try:
            kernel, _ = fitted(description, tiling, target, "k", ())
            taken = cycles(kernel, target, machine, cold)
        except DoesNotFit:
            continue
        if best is None or taken < best[0]:
            best = taken, tiling
    return best[1] if best else None


def key_of(description: Description, machine: Machine) -> str:
    """The name of a kernel on a machine, for people and for files."""
    sizes = " ".join(f"{d.name}={d.extent}" for d in description.dims)
    dtype = next((f" {o.dtype}" for o in description.operands), "")
    digest = sha256(repr((description, machine)).encode()).hexdigest()[:12]
    return f"{description.kind} {sizes}{dtype} {digest}"


def line_of(key: str, tiling: Tiling) -> str:
    """The line that keeps a tiling."""
    return f"{key}: {text_of(tiling)}"


def kept(lines: Iterable[str], file: str = "tilings") -> dict[str, Tiling]:
    """Tilings by key; empty lines and those that begin with `#` say nothing.

    Raises InputError, which names the line of the file.
    """
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        key, separator, text = line.partition(": ")
        try:
            if not separator:
                raise InputError(f"a kept tiling must be 'KERNEL: TILING', got '{line}'")
            found[key] = parse_tiling(text)
        except InputError as e:
            raise InputError(e.message, f"{file}:{number}") from None
    return found
