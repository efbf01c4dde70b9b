"""What a region is going to do: the signature of each of its trips, worked out without running it.

Two trips with one signature use the same sizes, flags, branches and inner loops; so they take the
same time from the same state of the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from types import CodeType
from typing import Any, NamedTuple

from ge.timing.formulas import INTEGERS, arrays, wrap
from ge.timing.regions import Irregular, Region
from ge.timing.slices import Slicer, Trip, results

FEW = 48
"""Trips up to which one after the other is quicker than all at once."""
TEXTS = 1 << 12
"""Functions that are remembered at most."""
MANY = 4
"""Courses from which on it is quicker to work them out side by side."""
GUESSES = 3
"""How often to guess what trips hand on."""
SETTLED = 8
"""Trips until a register that holds what another one held some trips before goes on like that."""
MOST = 1 << 18
"""Trips up to which a course that differs from trip to trip fits into memory."""


class Course(NamedTuple):
    """A run of a region. Courses of one region with the same `number` take the same time."""

    number: int
    results: tuple[Any, ...]
    """The registers of `results` behind the last trip."""
    signatures: Sequence[int]
    starts: Callable[[int], Sequence[int] | Mapping[int, int]]
    """What a trip begins with, by the place of a register in `head`, sorted."""


class Planner:
    """Works out courses of one region."""

    def __init__(self, region: Region, slicer: Slicer) -> None:
        self.region = region
        self.inner = {
            item.start: Planner(item, slicer) for item in region.body if isinstance(item, Region)
        }
        self.head = sorted(region.head)
        self.results = results(region)
        self._handed = [
            (self.head.index(r), i) for i, r in enumerate(self.results) if r in region.head
        ]
        """Where registers that a trip hands to the next stand in `head` and in `results`."""
        self.carried = [(at, self.head[at]) for at, _ in self._handed]
        """Where they stand in `head`, and which they are."""
        self._slicer = slicer
        self._courses: dict[tuple[int, ...], Course] = {}
        self._signatures: dict[tuple[int, ...], int] = {}
        self._numbers: dict[Any, int] = {}

    @cached_property
    def _one(self) -> Trip:
        return self._compiled(INTEGERS, "course")

    @cached_property
    def _all(self) -> Trip:
        return self._compiled(arrays(), "courses")

    def course(self, trips: int, *head: int) -> Course:
        """The course of `trips` trips that begin with registers `head`.

        Raises Irregular if that takes too much memory.
        """
        key = (trips, *head)
        found = self._courses.get(key)
        if found is None:
            found = self._courses[key] = self._course(trips, list(head))
        return found

    def courses(self, trips: Any, *head: Any) -> tuple[Any, tuple[Any, ...]]:
        """Numbers and results of many courses; what differs between them is an array."""
        import numpy as np

        columns = (trips, *head)
        index, inverse = kinds(columns)
        if inverse is None:
            one = self.course(*_row(columns, 0))
            return one.number, one.results
        counts, *heads = (np.broadcast_to(c, len(inverse))[index] for c in columns)
        numbers = np.empty(len(index), np.int64)
        values = [np.empty(len(index), np.int64) for _ in self.results]
        for count in np.unique(counts).tolist():
            at = np.flatnonzero(counts == count)
            numbers[at], outs = self._together(count, [h[at] for h in heads], len(at))
            for column, out in zip(values, outs, strict=True):
                column[at] = out
        return numbers[inverse], tuple(column[inverse] for column in values)

    def _together(self, trips: int, heads: list[Any], many: int) -> tuple[Any, Sequence[Any]]:
        """Numbers and results of different courses with equally many trips.

        Where there are many of them, a trip of all of them is worked out at once.
        """
        steps = trips if self._handed else 1
        if many < MANY or trips < 1 or steps > FEW or steps * many > MOST:
            rows = zip(*(head.tolist() for head in heads), strict=True) if heads else [()] * many
            found = [self.course(trips, *row) for row in rows]
            outs: Sequence[Any] = list(zip(*(course.results for course in found), strict=True))
            return [course.number for course in found], outs
        values, signatures = list(heads), []
        for _ in range(steps):
            signature, outs = self._all(*values)
            signatures.append(self._numbered(signature, many))
            for at, index in self._handed:
                values[at] = outs[index]
        courses, inverse = group(signatures)
        numbers = [
            self._number(each if self._handed else Repeated(each[0], trips)) for each in courses
        ]
        return numbers[0] if inverse is None else _picked(numbers, inverse), outs

    def _numbered(self, signature: Any, many: int) -> Any:
        """The numbers of the signatures that as many courses have."""
        import numpy as np

        rows, inverse = group(signature)
        numbers = [self._signature(row) for row in rows]
        return np.full(many, numbers[0]) if inverse is None else _picked(numbers, inverse)

    def _number(self, signatures: Sequence[int]) -> int:
        """The number of a course: those with equal signatures have the same."""
        alike = isinstance(signatures, Repeated)
        key = (len(signatures), signatures[0]) if alike else ("all", *signatures)
        return self._numbers.setdefault(key, len(self._numbers))

    def _course(self, trips: int, head: list[int]) -> Course:
        if trips < 1:
            return Course(-1, (0,) * len(self.results), (), lambda trip: head)
        if not self._handed:
            signature, outs = self._one(*head)
            same = Repeated(self._signature(signature), trips)
            return self._made(outs, same, lambda trip: head)
        if trips == 1:
            signature, outs = self._one(*head)
            number = self._signature(signature)
            return self._made(outs, [number], lambda trip: head)
        if trips > MOST:
            raise Irregular
        found = self._all_at_once(trips, head) if trips > FEW else None
        return found or self._one_by_one(trips, head)

    def _one_by_one(self, trips: int, head: list[int]) -> Course:
        trip, values, signatures, starts = self._one, list(head), [], []
        outs: tuple[int, ...] = ()
        for _ in range(trips):
            starts.append(tuple(values))
            signature, outs = trip(*values)
            signatures.append(self._signature(signature))
            for at, index in self._handed:
                values[at] = outs[index]
        return self._made(outs, signatures, starts.__getitem__)

    def _all_at_once(self, trips: int, head: list[int]) -> Course | None:
        """The same with arrays; None if what trips hand on cannot be guessed.

        Each trip is taken to add as much as the last of the first ones; then as much as it added
        with that. A guess is right when each trip hands on what the next one begins with.
        """
        import numpy as np

        begun = [list(head)]
        for _ in range(SETTLED):
            _, outs = self._one(*begun[-1])
            begun.append(list(head))
            for at, index in self._handed:
                begun[-1][at] = outs[index]
        count = np.arange(1, trips - SETTLED, dtype=np.int64)
        values: list[Any] = list(head)
        for at, _ in self._handed:
            first = [start[at] for start in begun]
            values[at] = np.append(first, first[-1] + count * wrap(first[-1] - first[-2]))
        for _ in range(GUESSES):
            with np.errstate(all="ignore"):
                signature, outs = self._all(*values)
            handed = {at: np.broadcast_to(outs[index], trips) for at, index in self._handed}
            wrong = [at for at, out in handed.items() if self._differ(at, out, values[at])]
            if not wrong:
                return self._from_arrays(trips, values, signature, outs)
            for at in wrong:
                added = (handed[at] - values[at])[:-1]
                values[at] = head[at] + np.concatenate(([0], np.cumsum(added)))
        return None

    def _differ(self, at: int, handed: Any, values: Any) -> bool:
        """Whether what trips hand on is not what the next ones begin with, as far as needed."""
        difference, modulus = handed[:-1] - values[1:], self.region.head[self.head[at]]
        return bool((difference % modulus if modulus else difference).any())

    def _from_arrays(self, trips: int, values: list[Any], signature: Any, outs: Any) -> Course:
        import numpy as np

        rows, inverse = group(signature)
        numbers = [self._signature(row) for row in rows]
        last = tuple(int(out[-1]) if isinstance(out, np.ndarray) else int(out) for out in outs)
        kept = {at: values[at] for at, _ in self._handed}

        def starts(trip: int) -> dict[int, int]:
            return {at: int(array[trip]) for at, array in kept.items()}

        if inverse is None:
            return self._made(last, Repeated(numbers[0], trips), starts)
        each = [numbers[i] for i in inverse.tolist()]
        return self._made(last, each, starts)

    def _signature(self, values: tuple[int, ...]) -> int:
        return self._signatures.setdefault(values, len(self._signatures))

    def _made(self, outs: Any, signatures: Sequence[int], starts: Any) -> Course:
        return Course(self._number(signatures), outs, signatures, starts)

    def _compiled(self, words: Mapping[str, Any], method: str) -> Trip:
        # The source consists of fixed words, register numbers and integers of the code only.
        names = {f"loop{start}": getattr(p, method) for start, p in self.inner.items()}
        space: dict[str, Any] = {**words, **names}
        exec(_code(self._slicer.source(self.region)), space)
        made: Trip = space["trip"]
        return made


@lru_cache(TEXTS)
def _code(source: str) -> CodeType:
    """Kernels have much in common, and so have the programs that one process looks at."""
    return compile(source, "<region>", "exec")


class Repeated(Sequence[int]):
    """One signature for all trips."""

    def __init__(self, signature: int, trips: int) -> None:
        self._signature = signature
        self._trips = trips

    def __len__(self) -> int:
        return self._trips

    def __getitem__(self, index: Any) -> Any:
        return self._signature


def group(columns: Sequence[Any]) -> tuple[list[tuple[int, ...]], Any]:
    """The different rows of `columns` and the number of each one's row; None if all are one."""
    index, inverse = kinds(columns)
    return [_row(columns, i) for i in index], inverse


def _row(columns: Sequence[Any], place: int) -> tuple[int, ...]:
    return tuple(int(c) if getattr(c, "ndim", 0) == 0 else int(c[place]) for c in columns)


def _picked(values: Sequence[int], inverse: Any) -> Any:
    import numpy as np

    return np.array(values)[inverse]


def kinds(columns: Sequence[Any]) -> tuple[Any, Any]:
    """Where each different row of `columns` stands first, and the number of each one's row.

    That is None if all are one.
    """
    import numpy as np

    varying = [
        np.asarray(c, np.int64) for c in columns if isinstance(c, np.ndarray) and (c != c[0]).any()
    ]
    if not varying:
        return [0], None
    key, range_of = np.zeros(len(varying[0]), np.int64), 1
    for column in varying:
        low = int(column.min())
        span = int(column.max()) - low + 1
        if range_of * span >= 1 << 62:
            _, key = np.unique(key, return_inverse=True)
            _, column = np.unique(column, return_inverse=True)
            low, span, range_of = 0, len(key), len(key)
        key = key * span + (column - low)
        range_of *= span
    _, index, inverse = np.unique(key, return_index=True, return_inverse=True)
    return index, inverse
