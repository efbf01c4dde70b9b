"""What every program must keep to, however it was made: text, objects and compiler output alike."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from math import prod

from ge.codegen.encoding import LABEL_OF, SYMBOL_OF, references
from ge.dialects.diagnostics import InputError, did_you_mean
from ge.dialects.npu import target
from ge.dialects.npu.isa.host import aicpu
from ge.dialects.npu.isa.scalar import call
from ge.dialects.npu.operands import Sym, Value
from ge.dialects.npu.places import Space
from ge.dialects.npu.program import ALIGNMENT, ARENA, RANK_MOST, WEIGHTS, Program, Tensor
from ge.dialects.npu.routine import Routine
from ge.dialects.weights_file import DIGEST_CHARS

LOCAL = ".L"
"""Labels that begin so are places inside a function; every other label begins a function."""
_UNKNOWN_TARGET = (1 << 40, 4096)  # A target file is not read here: memory and cores no chip has.
_MOST_HINTS = 5000  # Labels that are compared with an unknown one: more would take seconds.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*|\.L[A-Za-z0-9_]+").fullmatch
_REGISTER = re.compile(r"x(0|[1-9][0-9]{0,2})").fullmatch
_DIGEST = re.compile(rf"[0-9a-f]{{{DIGEST_CHARS}}}").fullmatch


class Fault(ValueError):
    """A program breaks a rule; `at` is an instruction's number, a symbol or a directive."""

    def __init__(self, message: str, at: int | str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.at = at


def functions(program: Program) -> dict[int, str]:
    """The functions by the number of their first instruction, in order of place."""
    starts: dict[int, str] = {}
    for place, name in sorted((p, n) for n, p in program.labels.items() if not is_local(n)):
        starts.setdefault(place, name)
    return starts


def is_local(label: str) -> bool:
    """Whether a label is a place inside a function: objects do not keep its name."""
    return label.startswith(LOCAL)


def check(program: Program) -> None:
    """Raise Fault for the first rule that the program breaks."""
    device_bytes, most_cores = _limits(program.target)
    if not 1 <= program.cores <= most_cores:
        raise Fault(f"cores must be 1 to {most_cores}, got {program.cores}", ".target")
    _check_areas(program, device_bytes)
    _check_symbols(program)
    _check_routines(program)
    starts = functions(program)
    _check_labels(program, starts)
    _check_kernels(program, starts)
    _check_calls(program)
    _check_references(program, starts)


def _limits(name: str) -> tuple[int, int]:
    _check_text(name)
    if target.is_file(name):
        return _UNKNOWN_TARGET
    try:
        machine = target.load(name)
    except InputError as e:
        raise Fault(e.message, ".target") from e
    return machine.bytes_of[Space.GM], machine.cores


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Fault(f"a name must be text, got {text!a}") from None


def _check_areas(program: Program, device_bytes: int) -> None:
    areas: dict[str, int] = {}
    for tensor in program.signature:
        _check_tensor(tensor, device_bytes)
        areas[tensor.symbol] = -(-tensor.bytes // ALIGNMENT) * ALIGNMENT
    for blob in program.weights:
        if not _DIGEST(blob.digest):
            raise Fault(f"a digest must be {DIGEST_CHARS} hexadecimal digits, got {blob.digest!r}")
        if blob.bytes < 0 or (blob.data is not None and blob.data.nbytes != blob.bytes):
            raise Fault(f"blob 'sha256:{blob.digest}' must have the bytes it claims")
    if min(program.arena) < 0 or max(program.arena) >= 1 << 63:
        raise Fault(
            f"sizes of the arena must be 63-bit numbers, got {max(program.arena)}", ".arena"
        )
    total = sum(areas.values()) + program.weights_bytes + program.arena.bytes
    if total > device_bytes:
        raise Fault(
            f"weights, arena, inputs and outputs must fit the {device_bytes} bytes of device "
            f"memory of '{program.target}', take {total}"
        )


def _check_tensor(tensor: Tensor, device_bytes: int) -> None:
    _check_text(tensor.name)
    if len(tensor.shape) > RANK_MOST or any(n < 0 for n in tensor.shape):
        raise Fault(f"a shape must have at most {RANK_MOST} dimensions of 0 or more", tensor.symbol)
    # Empty tensors too: the product of the other dimensions is what arrays are indexed by.
    if prod(n for n in tensor.shape if n) * tensor.dtype.bytes > device_bytes:
        raise Fault(
            f"'{tensor.symbol}' must fit the {device_bytes} bytes of device memory", tensor.symbol
        )


def _check_symbols(program: Program) -> None:
    seen = {WEIGHTS, ARENA}
    tensors = [t.symbol for t in (*program.inputs, *_apart(program))]
    for symbol in (*tensors, *(r.symbol for r in program.routines), *program.labels):
        if symbol in seen:
            raise Fault(f"'{symbol}' must stand for one thing, is defined twice", symbol)
        if not _NAME(symbol) or _REGISTER(symbol):
            raise Fault(f"a symbol must be a word that is no register, got {symbol!a}", symbol)
        seen.add(symbol)
    for side in (program.inputs, program.outputs):
        names = set()
        for t in side:
            if is_local(t.symbol):
                raise Fault(f"'{t.symbol}' must not begin with '{LOCAL}'", t.symbol)
            if t.name in names:
                raise Fault(f"{t.name!a} must name one tensor, names two", t.symbol)
            names.add(t.name)


def _apart(program: Program) -> Iterator[Tensor]:
    """The outputs that lie where no input does; an input has one output over it at most."""
    inputs = {t.symbol: t for t in program.inputs}
    for out in program.outputs:
        over = inputs.pop(out.symbol, None)
        if over is None:
            yield out
        elif (over.dtype, over.shape) != (out.dtype, out.shape):
            raise Fault(
                f"'{out.symbol}' must be written over by an output of its type and shape",
                out.symbol,
            )


def _check_routines(program: Program) -> None:
    for routine in program.routines:
        if is_local(routine.symbol):
            raise Fault(f"'{routine.symbol}' must not begin with '{LOCAL}'", routine.symbol)
        _check_text(routine.text)
        try:
            _ = routine.operation
        except ValueError as e:
            raise Fault(f"routine '{routine.symbol}': {e}", routine.symbol) from None


def _check_labels(program: Program, starts: dict[int, str]) -> None:
    end = len(program.code)
    for label, place in program.labels.items():
        if not 0 <= place < end:
            raise Fault(f"label '{label}' must stand before an instruction", label)
    if end and 0 not in starts:
        raise Fault(
            f"code must begin with a function: a label that does not begin with '{LOCAL}'", 0
        )


def _check_kernels(program: Program, starts: dict[int, str]) -> None:
    end = 0
    for kernel in program.kernels:
        for text in (kernel.kind, *kernel.sources):
            _check_text(text)
        if program.labels.get(kernel.symbol) != kernel.start or is_local(kernel.symbol):
            raise Fault(
                f"kernel '{kernel.symbol}' must begin with its label, which stands elsewhere",
                kernel.symbol,
            )
        if not end <= kernel.start < kernel.end <= len(program.code):
            raise Fault(
                f"kernel '{kernel.symbol}' must be a range of instructions behind the kernel "
                "before it",
                kernel.symbol,
            )
        if kernel.end < len(program.code) and kernel.end not in starts:
            raise Fault(f"a function must follow kernel '{kernel.symbol}'", kernel.symbol)
        end = kernel.end


def _check_calls(program: Program) -> None:
    for number, sources in program.calls.items():
        for text in sources:
            _check_text(text)
        if not 0 <= number < len(program.code) or program.code[number].instr is not call:
            raise Fault("what stands for nodes of the model must be a call", number)
        if not sources:
            raise Fault("a call must name the nodes it stands for, names none", number)


def _check_references(program: Program, starts: dict[int, str]) -> None:
    areas = area_bytes(program)
    routines = {routine.symbol: routine for routine in program.routines}
    places = list(starts)
    for number in references(program.code):
        row, args = program.code[number]
        if row is aicpu:
            _check_routine(args[0], args[1], routines, number)
            continue
        if row in SYMBOL_OF:
            _check_symbol(args[SYMBOL_OF[row]], areas, number)
            continue
        label = args[LABEL_OF[row]]
        place = program.labels.get(label)
        if place is None:
            near = list(program.labels)[:_MOST_HINTS]
            raise Fault(f"unknown label '{label}'{did_you_mean(str(label), near)}", number)
        if place not in starts and bisect(places, place) != bisect(places, number):
            raise Fault(f"label '{label}' must be in the same function", number)


def _check_symbol(symbol: Sym, areas: dict[str, int], number: int) -> None:
    if symbol.name not in areas:
        raise Fault(f"unknown symbol '{symbol.name}'{did_you_mean(symbol.name, areas)}", number)
    size = areas[symbol.name]
    if not 0 <= symbol.addend <= size:
        raise Fault(
            f"an offset to '{symbol.name}' must be 0 to {size}, got {symbol.addend}", number
        )


def _check_routine(
    symbol: Sym, at: Sequence[Value], routines: dict[str, Routine], number: int
) -> None:
    if symbol.name not in routines:
        hint = did_you_mean(symbol.name, routines)
        raise Fault(f"unknown routine '{symbol.name}'{hint}", number)
    routine = routines[symbol.name]
    count = len(routine.reads) + len(routine.writes)
    if len(at) != count:
        raise Fault(f"'{symbol.name}' must be given {count} addresses, got {len(at)}", number)


def area_bytes(program: Program) -> dict[str, int]:
    """The areas of device memory by symbol, in object order: what `la` may name."""
    areas = {WEIGHTS: program.weights_bytes, ARENA: program.arena.bytes}
    areas |= {t.symbol: t.bytes for t in program.signature}
    return areas
