"""A trip of a region as a Python function of the registers that its time depends on.

The function is written once for a region and works on integers, for one trip, and on arrays, for
all trips at once; what differs is in the names it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ge.dialects.npu.instr import Inst
from ge.dialects.npu.isa import scalar
from ge.dialects.npu.operands import Reg, Value
from ge.timing.formulas import BY_CONSTANT, FORMULAS, LARGE
from ge.timing.regions import BRANCHES, EXACT, Flow, Region

Trip = Callable[..., tuple[tuple[Any, ...], tuple[Any, ...]]]
"""From the registers of `head`, sorted, to the signature and the registers of `results`."""


def results(region: Region) -> list[int]:
    """The registers a trip hands on: to the next one, or to the code behind the region."""
    return sorted(region.writes & (region.head.keys() | region.out.keys()))


class Slicer:
    """Writes the function of one region."""

    def __init__(
        self, code: list[Inst], flows: Mapping[int, Flow], constant: Callable[[int], int]
    ) -> None:
        """`constant` is the value of the instruction at a place that loads one."""
        self._code = code
        self._flows = flows
        self._constant = constant

    def source(self, region: Region) -> str:
        """The text: registers are `r5`, masks are `m1`, inner loops are `loop7` by their place."""
        return _Text(self, region).source()

    def value(self, place: int, moduli: list[int]) -> str:
        """The formula of a scalar instruction whose operands are needed modulo `moduli`."""
        row, numbers = self._code[place].instr, self._flows[place].numbers
        words = [_number(n) if m != 1 else "0" for n, m in zip(numbers, moduli, strict=True)]
        divides = bool(numbers) and not isinstance(numbers[-1], Reg) and numbers[-1] != 0
        formulas = BY_CONSTANT if divides and row.mnemonic in BY_CONSTANT else FORMULAS
        value = formulas[row.mnemonic].format(*words or [f"({self._constant(place)})"])
        return f"wrap({value})" if row.mnemonic in LARGE else value

    def row(self, place: int) -> Any:
        return self._code[place].instr

    def numbers(self, place: int) -> tuple[Value, ...]:
        return self._flows[place].numbers

    def target(self, place: int) -> int:
        return self._flows[place].target


class _Text:
    """The lines of one function, and what is known where the next line stands."""

    def __init__(self, slicer: Slicer, region: Region) -> None:
        self._slicer = slicer
        self._region = region
        self._lines: list[str] = []
        self._signature: list[str] = []
        self._signed: dict[int, set[str]] = {}
        """Registers whose present value is part of the signature, each with its masks."""
        self._known = set(region.head)
        self._mask = ""
        self._joins: dict[int, list[tuple[str, str, str]]] = {}
        """By target: the mask before the branch, that of who goes on, and that of who leaves."""
        self._names = 0

    def source(self) -> str:
        for item in self._region.body:
            place = item.start if isinstance(item, Region) else item
            for join in reversed(self._joins.pop(place, ())):
                self._join(*join)
            if isinstance(item, Region):
                self._loop(item)
            else:
                self._instruction(item)
        for join in reversed(self._joins.pop(self._region.end, ())):
            self._join(*join)
        head = ", ".join(f"r{r}" for r in sorted(self._region.head))
        outs = "".join(f"r{r}, " for r in results(self._region))
        signature = "".join(f"{s}, " for s in self._signature)
        lines = [f"def trip({head}):", *self._lines, f"return ({signature}), ({outs})"]
        return "\n    ".join(lines)

    def _instruction(self, place: int) -> None:
        target = self._slicer.target(place)
        if target >= 0:
            if place in self._region.needed:
                self._assign(target, self._slicer.value(place, self._region.needed[place]))
        elif self._slicer.row(place) in BRANCHES:
            self._branch(place)
        elif self._slicer.row(place) is not scalar.loop:
            for number in self._slicer.numbers(place):
                if isinstance(number, Reg):
                    self._sign(number.number)

    def _sign(self, register: int) -> None:
        """Put a register's present value into the signature, once."""
        masks = self._signed.setdefault(register, set())
        if self._mask not in masks:
            masks.add(self._mask)
            name = self._name("s")
            self._lines.append(f"{name} = {self._masked(f'r{register}')}")
            self._signature.append(name)

    def _assign(self, register: int, value: str) -> None:
        if self._mask and register in self._known:
            value = f"where({self._mask}, {value}, r{register})"
        self._set(register, value)

    def _set(self, register: int, value: str) -> None:
        self._known.add(register)
        self._signed.pop(register, None)
        self._lines.append(f"r{register} = {value}")

    def _masked(self, value: str) -> str:
        return f"where({self._mask}, {value}, 0)" if self._mask else value

    def _branch(self, place: int) -> None:
        before, leaves = self._mask, self._name()
        numbers = self._slicer.numbers(place)
        if not numbers:
            self._lines.append(f"{leaves} = {before or 'True'}")
        else:
            how = "==" if self._slicer.row(place) is scalar.bz else "!="
            taken = f"({_number(numbers[0])} {how} 0)"
            self._lines.append(f"{leaves} = {f'{before} & {taken}' if before else taken}")
            self._signature.append(leaves)
        self._mask = self._name()
        self._lines.append(f"{self._mask} = ({leaves} ^ True){f' & {before}' if before else ''}")
        join = (before, self._mask, leaves)
        self._joins.setdefault(self._region.targets[place], []).append(join)

    def _join(self, before: str, goes_on: str, leaves: str) -> None:
        if self._mask == goes_on:
            self._mask = before
            return
        joined = self._name()
        self._lines.append(f"{joined} = {self._mask or 'True'} | {leaves}")
        self._mask = joined

    def _loop(self, loop: Region) -> None:
        trips = self._slicer.numbers(loop.start - 1)[0]
        count, plan = self._name("n"), self._name("p")
        self._lines.append(f"{count} = {self._masked(_number(trips))}")
        wanted = [_needed(r, modulus) for r, modulus in sorted(loop.head.items())]
        self._lines.append(f"{plan} = loop{loop.start}({', '.join([count, *wanted])})")
        self._signature.append(f"{plan}[0]")
        for index, register in enumerate(results(loop)):
            if register not in loop.out:
                continue
            value = f"{plan}[1][{index}]"
            if register in self._known:
                value = f"where({count} > 0, {value}, r{register})"
            self._set(register, value)

    def _name(self, kind: str = "m") -> str:
        self._names += 1
        return f"{kind}{self._names}"


def _number(value: Value) -> str:
    return f"r{value.number}" if isinstance(value, Reg) else f"({value})"


def _needed(register: int, modulus: int) -> str:
    return f"r{register}" if modulus == EXACT else f"r{register} % {modulus}"
