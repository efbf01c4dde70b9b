"""What a region is going to do: the signature of each of its trips, worked out without running it.

Two trips with one signature use the same sizes, flags, branches and inner loops; so they take the
same time from the same state of the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ge.dialects.npu.instr import Inst
from ge.dialects.npu.isa import scalar
from ge.dialects.npu.operands import Reg, Value
from ge.timing.regions import Flow, Region
from ge.timing.slices import Slicer, Trip, results

FEW = 48
"""Trips up to which one after the other is quicker than all at once."""
MOST = 1 << 18
"""Trips up to which all at once fits into memory."""
_TOP, _WRAP = 1 << 63, 1 << 64


class Course(NamedTuple):
    """A run of a region. Courses of one region with the same `number` take the same time."""

    number: int
    results: tuple[Any, ...]
    """The registers of `results` behind the last trip."""
    signatures: Sequence[int]
    starts: Callable[[int], Sequence[int]]
    """The registers of `head`, sorted, at the beginning of a trip."""


class Steps(NamedTuple):
    """How carried registers change: each grows by sums of registers that keep their value."""

    of: dict[int, list[tuple[int, Value]]]


class Planner:
    """Works out courses of one region."""

    def __init__(
        self, region: Region, code: list[Inst], flows: Mapping[int, Flow], slicer: Slicer
    ) -> None:
        self.region = region
        self.inner = {
            item.start: Planner(item, code, flows, slicer)
            for item in region.body
            if isinstance(item, Region)
        }
        self.head = sorted(region.head)
        self.results = results(region)
        self._carried = [
            (self.head.index(r), i) for i, r in enumerate(self.results) if r in region.head
        ]
        self.carried = [(at, self.head[at]) for at, _ in self._carried]
        """Where in `head` registers stand that trips hand on, and which they are."""
        self._steps = _steps(region, code, flows)
        self._source = slicer.source(region)
        self._one: Trip | None = None
        self._all: Trip | None = None
        self._courses: dict[tuple[int, ...], Course] = {}
        self._signatures: dict[tuple[int, ...], int] = {}
        self._numbers: dict[Any, int] = {}

    def course(self, trips: int, *head: int) -> Course:
        """The course of `trips` trips that begin with registers `head`."""
        key = (trips, *head)
        found = self._courses.get(key)
        if found is None:
            found = self._courses[key] = self._course(trips, list(head))
        return found

    def courses(self, trips: Any, *head: Any) -> tuple[Any, tuple[Any, ...]]:
        """Numbers and results of many courses; what differs between them is an array."""
        import numpy as np

        rows, inverse = group((trips, *head))
        found = [self.course(*row) for row in rows]
        if inverse is None:
            return found[0].number, found[0].results
        numbers = np.array([course.number for course in found])[inverse]
        values = zip(*(course.results for course in found), strict=True)
        return numbers, tuple(np.array(column)[inverse] for column in values)

    def _course(self, trips: int, head: list[int]) -> Course:
        if trips < 1:
            return Course(-1, (0,) * len(self.results), (), lambda trip: head)
        if self._carried and FEW < trips <= MOST and self._steps is not None:
            return self._all_at_once(trips, head)
        return self._one_by_one(trips, head)

    def _one_by_one(self, trips: int, head: list[int]) -> Course:
        trip = self._one = self._one or self._compiled(_INTEGERS, "course")
        values, signatures, starts = list(head), [], []
        outs: tuple[int, ...] = ()
        for _ in range(trips if self._carried else 1):
            starts.append(tuple(values))
            signature, outs = trip(*values)
            signatures.append(self._signatures.setdefault(signature, len(self._signatures)))
            for at, index in self._carried:
                values[at] = outs[index]
        if not self._carried:
            key: Any = (trips, signatures[0])
            return self._made(key, outs, Repeated(signatures[0], trips), lambda trip: head)
        return self._made(tuple(signatures), outs, signatures, starts.__getitem__)

    def _all_at_once(self, trips: int, head: list[int]) -> Course:
        import numpy as np

        trip = self._all = self._all or self._compiled(_arrays(), "courses")
        assert self._steps is not None
        steps = [
            sum(sign * self._value(head, value) for sign, value in self._steps.get(register, ()))
            for register in self.head
        ]
        count = np.arange(trips, dtype=np.int64)
        values = [h + count * s if s else h for h, s in zip(head, steps, strict=True)]
        with np.errstate(all="ignore"):
            signature, outs = trip(*values)
        rows, inverse = group(signature)
        known = self._signatures
        numbers = np.array([known.setdefault(row, len(known)) for row in rows], dtype=np.int64)
        last = tuple(int(out[-1]) if isinstance(out, np.ndarray) else int(out) for out in outs)
        if inverse is None:
            same = Repeated(int(numbers[0]), trips)
            key: Any = (trips, same[0])
        else:
            same = numbers[inverse]
            key = same.tobytes()
        return self._made(
            key, last, same, lambda i: [h + i * s for h, s in zip(head, steps, strict=True)]
        )

    def _value(self, head: list[int], value: Value) -> int:
        return head[self.head.index(value.number)] if isinstance(value, Reg) else value

    def _made(self, key: Any, outs: Any, signatures: Sequence[int], starts: Any) -> Course:
        number = self._numbers.setdefault(key, len(self._numbers))
        return Course(number, outs, signatures, starts)

    def _compiled(self, words: Mapping[str, Any], method: str) -> Trip:
        # The source consists of fixed words, register numbers and integers of the code only.
        names = {f"loop{start}": getattr(p, method) for start, p in self.inner.items()}
        space: dict[str, Any] = {**words, **names}
        exec(self._source, space)
        made: Trip = space["trip"]
        return made


class Repeated(Sequence[int]):
    """One signature for all trips."""

    def __init__(self, signature: int, trips: int) -> None:
        self._signature = signature
        self._trips = trips

    def __len__(self) -> int:
        return self._trips

    def __getitem__(self, index: Any) -> Any:
        return self._signature


def _steps(
    region: Region, code: list[Inst], flows: Mapping[int, Flow]
) -> dict[int, list[tuple[int, Value]]] | None:
    """What each trip adds to carried registers; None if that is not known beforehand."""
    carried = region.writes & region.head.keys()
    steps: dict[int, list[tuple[int, Value]]] = {}
    targets = sorted(region.targets.items())
    for item in region.body:
        if isinstance(item, Region):
            if item.writes & carried:
                return None
            continue
        target, numbers = flows[item]
        if target not in carried:
            continue
        row = code[item].instr
        by = numbers[1] if len(numbers) == 2 else None
        guarded = any(place < item < to for place, to in targets)
        own = bool(numbers) and numbers[0] == Reg(target)
        varies = isinstance(by, Reg) and (
            by.number in region.writes or by.number not in region.head
        )
        if row not in _ADDING or not own or guarded or varies:
            return None
        steps.setdefault(target, []).append((_ADDING[row], by))
    return steps


_ADDING = {
    row: sign
    for row in scalar.ARITHMETIC
    for name, sign in (("add", 1), ("sub", -1))
    if row.mnemonic == name
}


def group(columns: Sequence[Any]) -> tuple[list[tuple[int, ...]], Any]:
    """The different rows of `columns` and the number of each one's row; None if all are one."""
    import numpy as np

    varying = [
        np.asarray(c, np.int64) for c in columns if isinstance(c, np.ndarray) and (c != c[0]).any()
    ]
    if not varying:
        return [tuple(int(c[0]) if isinstance(c, np.ndarray) else int(c) for c in columns)], None
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
    rows = [
        tuple(int(c[i]) if isinstance(c, np.ndarray) else int(c) for c in columns) for i in index
    ]
    return rows, inverse


def _wrap(value: int) -> int:
    return value if -_TOP <= value < _TOP else (value + _TOP) % _WRAP - _TOP


_INTEGERS: dict[str, Any] = {
    "wrap": _wrap,
    "div": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "least": min,
    "most": max,
    "number": int,
    "where": lambda mask, then, other: then if mask else other,
}


def _arrays() -> dict[str, Any]:
    import numpy as np

    return {
        "wrap": lambda a: a if isinstance(a, np.ndarray) else _wrap(int(a)),
        "div": np.floor_divide,
        "mod": np.mod,
        "least": np.minimum,
        "most": np.maximum,
        "number": lambda a: a.astype(np.int64) if isinstance(a, np.ndarray) else int(a),
        "where": np.where,
    }
