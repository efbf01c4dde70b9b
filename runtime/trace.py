"""A run in the trace format of Chrome and Perfetto: cores as processes, units as threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ge.dialects.npu.program import Program
from ge.runtime.stats import Stats
from ge.timing.engine import Span
from ge.timing.steps import QUEUES, Code

Event = dict[str, Any]


def events(code: Code, stats: Stats, spans: Sequence[Sequence[Span]]) -> Iterator[Event]:
    """All events; times are microseconds of the target."""
    yield from _kernels(stats, len(spans))
    for core, own in enumerate(spans):
        yield _named("process_name", core, 0, f"core {core}")
        for queue in sorted({span.queue for span in own}):
            yield _named("thread_name", core, queue, str(QUEUES[queue]))
        for span in own:
            yield _instruction(code, stats, core, span)


def _kernels(stats: Stats, process: int) -> Iterator[Event]:
    """Kernels that overlap lie on different tracks: viewers want slices of one track nested."""
    yield _named("process_name", process, 0, "kernels")
    ends: list[int] = []
    for kernel in stats.kernels:
        track = next((i for i, end in enumerate(ends) if end <= kernel.start), len(ends))
        if track == len(ends):
            ends.append(0)
            yield _named("thread_name", process, track, "kernels")
        ends[track] = kernel.end
        bound, least = stats.roofline(kernel)
        args = {
            "source_ops": list(kernel.source_ops),
            "unit_busy": kernel.unit_busy,
            "hbm_bytes": kernel.hbm_bytes,
            "l2_bytes": kernel.l2_bytes,
            "roofline": f"{bound} {round(least)}",
        }
        yield _slice(stats, kernel.name, process, track, kernel.start, kernel.end, args)


def document(code: Code, stats: Stats, spans: Sequence[Sequence[Span]]) -> Event:
    """The whole trace as one JSON object."""
    return {"traceEvents": list(events(code, stats, spans)), "displayTimeUnit": "ns"}


def _instruction(code: Code, stats: Stats, core: int, span: Span) -> Event:
    program: Program = code.program
    inst = program.code[span.instruction]
    args: Event = {"at": code.where(span.instruction), "operands": inst.operands_text()}
    if span.kernel >= 0:
        args["kernel"] = program.kernels[span.kernel].kind
        args["source_ops"] = list(span.sources)
    name = inst.instr.mnemonic
    return _slice(stats, name, core, span.queue, span.start, span.end, args)


def _slice(
    stats: Stats, name: str, process: int, thread: int, start: int, end: int, args: Event
) -> Event:
    mhz = stats.target.clock_mhz
    return {
        "name": name,
        "ph": "X",
        "pid": process,
        "tid": thread,
        "ts": start / mhz,
        "dur": (end - start) / mhz,
        "args": args,
    }


def _named(kind: str, process: int, thread: int, name: str) -> Event:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
