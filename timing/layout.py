"""Which functions and loops of a program are regions, and what is needed of them afterwards."""

from __future__ import annotations

from ge.dialects.npu.isa import scalar
from ge.timing.courses import Planner
from ge.timing.exposed import Outside
from ge.timing.regions import BRANCHES, EXACT, Irregular, Reader, Region
from ge.timing.slices import Slicer
from ge.timing.steps import Code


class Layout:
    """The regions of a program, each with what makes its courses.

    Code outside regions is run instruction by instruction. What it reads, and what any region
    reads, is needed behind every region that writes it, unless it is plainly written in between.
    """

    def __init__(self, code: Code) -> None:
        self._code = code
        self._insts = code.program.code
        self._reader = Reader(self._insts, code.label)
        self._slicer = Slicer(self._insts, self._reader.flows, self._constant)
        self._planners: dict[Region, Planner] = {}
        self._functions = self._read_functions()
        covered = bytearray(len(self._insts))
        for region in self._functions.values():
            covered[region.start : region.end] = b"\1" * (region.end - region.start)
        self._loops: dict[int, Region] = {}
        self._entered: set[int] = set()
        self._read_rest(covered)
        if any(
            region.start < place < region.end for place in self._entered for region in self._all()
        ):
            self._functions, self._loops = {}, {}
        self._settle()

    def function(self, place: int) -> Planner | None:
        """That of the function at `place`, if it is a region."""
        return self._planner(self._functions.get(place))

    def loop(self, place: int) -> Planner | None:
        """That of the loop which the instruction at `place` begins, if it is a region."""
        return self._planner(self._loops.get(place))

    def wanted(self) -> set[int]:
        """The scalar instructions in regions whose results decide what takes how long."""
        found: set[int] = set()
        regions = self._all()
        while regions:
            region = regions.pop()
            found.update(region.needed)
            regions += [item for item in region.body if isinstance(item, Region)]
        return found

    def _planner(self, region: Region | None) -> Planner | None:
        if region is None:
            return None
        found = self._planners.get(region)
        if found is None:
            found = Planner(region, self._slicer)
            self._planners[region] = found
        return found

    def _all(self) -> list[Region]:
        return [*self._functions.values(), *self._loops.values()]

    def _constant(self, place: int) -> int:
        inst = self._insts[place]
        if inst.instr is scalar.cores:
            return self._code.program.cores
        return int(self._code.operand(inst, 1))

    def _read_functions(self) -> dict[int, Region]:
        found = {}
        called = {self._code.label(i.args[0]) for i in self._insts if i.instr is scalar.call}
        for place in called:
            try:
                found[place] = self._reader.function(place)
            except Irregular:
                continue
        return found

    def _read_rest(self, covered: bytearray) -> None:
        place = 0
        while place < len(self._insts):
            if covered[place]:
                place += 1
                continue
            inst = self._insts[place]
            if inst.instr is scalar.call and self._code.label(inst.args[0]) not in self._functions:
                self._entered.add(self._code.label(inst.args[0]))
            if inst.instr in BRANCHES:
                self._entered.add(self._code.label(inst.args[-1]))
            place += 1
            if inst.instr is scalar.loop:
                try:
                    region = self._loops[place - 1] = self._reader.loop(place - 1)
                    place = region.end
                except Irregular:
                    continue

    def _settle(self) -> None:
        """Bring the registers of all regions in line with each other."""
        regions = self._all()
        outside = Outside(self._insts, self._code.label, self._functions, self._loops)
        needed: set[int] = set()
        while True:
            for region in regions:
                out = dict.fromkeys(needed & region.writes, EXACT)
                settle = self._reader.settle
                if region.start in self._functions:
                    settle = self._reader.settle_once
                settle(region, out)
            more = needed | outside.needed()
            if more == needed:
                return
            needed = more
