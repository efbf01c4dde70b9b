"""Runs a program: numbers, cycles, hazards, or all three in one walk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from ge.dialects.diagnostics import InputError, check_inputs
from ge.dialects.dtypes import B8
from ge.dialects.npu import target as targets
from ge.dialects.npu.program import Program, Tensor
from ge.dialects.npu.target import Target
from ge.runtime import stats as figures
from ge.runtime import trace as traces
from ge.runtime.functional import Numbers
from ge.runtime.garbage import few_collections
from ge.runtime.hazards import Findings, Hazard, HazardChecker
from ge.runtime.machine import Device, Glance, Memory
from ge.runtime.replay import MOST_ACTIONS, Recorder, Recording, own_copies
from ge.runtime.shared_memory import SharedHistory
from ge.runtime.stats import Stats
from ge.timing.areas import check_fits, symbols
from ge.timing.convoy import Convoy, walk
from ge.timing.cost import CostModel
from ge.timing.engine import Clock, Meetings
from ge.timing.estimate import meetings_of
from ge.timing.listener import Listener
from ge.timing.quick import QuickCode
from ge.timing.skip import Skipper
from ge.timing.steps import Code
from ge.timing.stretches import Stretches
from ge.timing.walk import BUDGET, Core

Array = NDArray[Any]


Places = tuple[tuple[str, int], ...]
"""The addresses of arrays that a caller gave as device memory, by symbol."""
MOST_RECORDINGS = 4
"""Recordings kept at once: each holds on to the memory that it was made on."""


class Mode(Enum):
    """What a run computes."""

    FUNCTIONAL = "functional"
    TIMING = "timing"
    BOTH = "both"


@dataclass(frozen=True)
class Result:
    """What a run gave: outputs by name (empty in mode timing), figures, and what was asked for."""

    outputs: dict[str, Array]
    stats: Stats
    hazards: tuple[Hazard, ...] = ()
    trace: dict[str, Any] | None = None


@dataclass
class _Run:
    """The parts of one run."""

    code: Code
    target: Target
    device: Device
    numbers: bool
    findings: Findings | None
    meetings: Meetings | None
    trace: bool
    budget: int
    quick: QuickCode
    skipper: Skipper | None
    recording: Recording | None = None

    def cores(self) -> tuple[list[Core], list[Clock]]:
        """The cores, and the clocks that follow them."""
        number_of = self.code.program.cores
        findings = self.findings
        shared = SharedHistory(number_of, findings.add) if findings else None
        model = CostModel(self.target)
        cores, clocks = [], []
        for number in range(number_of):
            checker = HazardChecker(number, findings, shared) if findings and shared else None
            numbers = self._numbers()
            clock = Clock(model, self.meetings, number_of, self.trace) if self.meetings else None
            memory = Memory(self.target, self.device, checker) if numbers else Glance(self.device)
            # The checker comes first: it has to know whose accesses it is about to hear of.
            listeners: list[Listener] = [x for x in (checker, numbers, clock) if x is not None]
            core = Core(self.code, number, memory, listeners, self.budget)
            if numbers:
                numbers.core = core
            if clock:
                clock.follow(core)
                clocks.append(clock)
            core.entries = self.quick.entries
            if isinstance(numbers, Recorder):
                numbers.follow(core, self.code)
            core.skipper = self.skipper
            cores.append(core)
        return cores, clocks

    def _numbers(self) -> Numbers | None:
        if self.recording is not None:
            return Recorder(self.recording)
        return Numbers() if self.numbers else None


class Simulator:
    """A program made ready to run; what one run has worked out about its code serves the next."""

    def __init__(self, program: Program, target: Target | None = None) -> None:
        """Raises InputError or DoesNotFit for a program that its target cannot run.

        `target` takes the place of the program's own, to see what another number would do.
        """
        self.program = program
        self.target = target or targets.load(program.target)
        if not 1 <= program.cores <= self.target.cores:
            raise InputError(
                f"the program must use 1 to {self.target.cores} cores of '{self.target.name}', "
                f"got {program.cores}"
            )
        check_fits(program, self.target)
        self._code = Code(program, self.target, symbols(program))
        self._plain_runs: Counter[Places] = Counter()
        self._recordings: dict[Places, Recording] = {}
        """By where the state lies, if the caller has it."""

    def run(
        self,
        inputs: Mapping[str, Array] | None = None,
        *,
        mode: Mode | str = Mode.BOTH,
        check_hazards: bool = False,
        trace: bool = False,
        skip: bool = True,
        budget: int = BUDGET,
        progress: Callable[[int], None] | None = None,
        in_place: bool = False,
    ) -> Result:
        """Run on `inputs` by name.

        Mode `timing` computes no tensors and needs no inputs: where the program loads a scalar,
        it finds the inputs that are given and the weights, and zeros elsewhere; there are no
        outputs. `budget` bounds the instructions of one core; `progress` hears how many all have
        executed, now and then. Without a trace, mode `timing` adds up what repeats unless `skip` is
        off, with the same result. With `in_place`, arrays for inputs that outputs are written over
        are device memory, and hold those outputs then. Raises InputError for inputs that do not
        match, CheckFailed for a program that faults.
        """
        mode = Mode(mode)
        functional = mode is not Mode.TIMING
        self._check_mode(functional, check_hazards)
        given = _checked_inputs(self.program, inputs or {}, functional)
        alone = mode is not Mode.BOTH and not check_hazards
        plain = alone and functional and not trace
        state = _places(given, self.program.state) if in_place else ()
        if plain and state in self._recordings:
            return self._again(self._recordings[state], given, state)
        # What runs once is not recorded: the second run may be the first of many.
        record = plain and self._plain_runs[state] == 1
        self._plain_runs[state] += plain
        theirs = {symbol for symbol, _ in state}
        if record:
            memory = own_copies(given, theirs)
        else:
            changed = self.program.state - theirs
            memory = {s: a.copy() if s in changed else a for s, a in given.items()}
        device = Device(self.program, memory, functional)
        run = _Run(
            code=self._code,
            target=self.target,
            device=device,
            numbers=functional,
            findings=Findings(self._code) if check_hazards else None,
            meetings=None if mode is Mode.FUNCTIONAL else meetings_of(self.program, self.target),
            trace=trace,
            budget=budget,
            quick=self._quick_alone if alone else self._quick,
            skipper=self._skipper if skip and not functional and not trace else None,
            recording=Recording(device) if record else None,
        )
        with _calculating() if functional else few_collections():
            cores, clocks = run.cores()
            walk(cores, progress, self._convoy(run, cores))
        for core in cores:
            core.let_go()
        outputs = _outputs(self.program, run.device) if functional else {}
        if run.recording is not None:
            self._keep(run.recording, sum(core.count for core in cores), state)
            # Runs of the recording write over the memory that it was made on.
            outputs = {name: array.copy() for name, array in outputs.items()}
        stats = self._stats(run, cores, clocks)
        spans = [clock.spans or [] for clock in clocks]
        return Result(
            outputs=outputs | self._kept(given, state),
            stats=stats,
            hazards=tuple(run.findings.hazards) if run.findings else (),
            trace=traces.document(self._code, stats, spans) if trace else None,
        )

    def _keep(self, recording: Recording, executed: int, state: Places) -> None:
        recording.executed = executed
        if recording.sound and len(recording.actions) <= MOST_ACTIONS:
            if len(self._recordings) == MOST_RECORDINGS:
                del self._recordings[next(iter(self._recordings))]
            self._recordings[state] = recording

    def _again(self, recording: Recording, given: Mapping[str, Array], state: Places) -> Result:
        theirs = {symbol for symbol, _ in state}
        with _calculating():
            recording.run({symbol: given[symbol] for symbol in given.keys() - theirs})
        found = _outputs(self.program, recording.device)
        outputs = {name: array.copy() for name, array in found.items()} | self._kept(given, state)
        return Result(outputs, Stats(self.program, self.target, recording.executed))

    def _kept(self, given: Mapping[str, Array], state: Places) -> dict[str, Array]:
        """The outputs that lie in arrays of the caller."""
        theirs = {symbol for symbol, _ in state}
        return {t.name: given[t.symbol] for t in self.program.outputs if t.symbol in theirs}

    @cached_property
    def _skipper(self) -> Skipper:
        return Skipper(self._code)

    @cached_property
    def _stretches(self) -> Stretches:
        return Stretches(self._code, self._skipper.layout)

    def _convoy(self, run: _Run, cores: list[Core]) -> Convoy | None:
        """What takes the cores of a run together through what is known."""
        if run.skipper is None or run.meetings is None:
            return None
        return Convoy(cores, run.meetings, self._stretches, run.skipper.snapshots)

    @cached_property
    def _quick(self) -> QuickCode:
        return QuickCode(self._code, alone=False)

    @cached_property
    def _quick_alone(self) -> QuickCode:
        return QuickCode(self._code, alone=True)

    def _check_mode(self, functional: bool, check_hazards: bool) -> None:
        if check_hazards and not functional:
            raise InputError("hazards can only be checked in the modes functional and both")
        if functional and any(blob.data is None for blob in self.program.weights):
            raise InputError(
                "the program holds no weight values, so it can run in mode 'timing' only"
            )

    def _stats(self, run: _Run, cores: list[Core], clocks: list[Clock]) -> Stats:
        hazards = len(run.findings.hazards) if run.findings else None
        executed = sum(core.count for core in cores)
        if run.meetings is None:
            return Stats(self.program, self.target, executed, hazards=hazards)
        return figures.timed(self.program, self.target, executed, clocks, run.meetings, hazards)


def _places(given: Mapping[str, Array], state: Collection[str]) -> Places:
    """Where the arrays of the state lie that may be written over: nothing else lies there."""
    if not state:
        return ()
    shared, end, last = set(), 0, ""
    for low, high, symbol in sorted((*_span(a), s) for s, a in given.items() if a.size):
        shared |= {symbol, last} if low < end else set()
        end, last = max((end, last), (high, symbol))
    alone = ((s, given[s]) for s in sorted(state) if s in given and s not in shared)
    theirs = (
        (s, a) for s, a in alone if a.size and a.flags["WRITEABLE"] and a.flags["C_CONTIGUOUS"]
    )
    return tuple((symbol, array.ctypes.data) for symbol, array in theirs)


def _span(array: Array) -> tuple[int, int]:
    """The first byte of an array's elements, and the one behind the last."""
    spans = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    start = array.ctypes.data
    low, high = (sum(f(x, 0) for x in spans) for f in (min, max))
    return start + low, start + high + array.itemsize


@cache
def _threads() -> ThreadpoolController:
    """Finding the libraries that have threads takes longer than a small program."""
    return ThreadpoolController()


@contextmanager
def _calculating() -> Iterator[None]:
    # Tiles are small: threads that meet at every product cost more than they give.
    with np.errstate(all="ignore"), _threads().limit(limits=1, user_api="blas"):
        yield


def simulate(program: Program, inputs: Mapping[str, Array] | None = None, **how: Any) -> Result:
    """Run `program` once; `how` is what `Simulator.run` takes."""
    return Simulator(program).run(inputs, **how)


def _checked_inputs(program: Program, inputs: Mapping[str, Array], whole: bool) -> dict[str, Array]:
    """The inputs by symbol."""
    known = {tensor.name: tensor for tensor in program.inputs}
    check_inputs(inputs, known, "program")
    if whole and (missing := [name for name in known if name not in inputs]):
        raise InputError(f"input '{missing[0]}' must be given")
    return {known[name].symbol: _checked(known[name], array) for name, array in inputs.items()}


def _checked(tensor: Tensor, array: Array) -> Array:
    array = np.asarray(array)
    if array.dtype != tensor.dtype.numpy or array.shape != tensor.shape:
        raise InputError(
            f"input '{tensor.name}' must be {tensor.dtype.numpy_name} of shape "
            f"{tensor.shape}, got {array.dtype} of shape {array.shape}"
        )
    return array


def _outputs(program: Program, device: Device) -> dict[str, Array]:
    found = {}
    for tensor in program.outputs:
        data = device.output(tensor.symbol)
        # A byte other than 0 and 1 is no bool that numpy can work with.
        typed = data != 0 if tensor.dtype is B8 else data.view(tensor.dtype.numpy)
        found[tensor.name] = typed.reshape(tensor.shape)
    return found
