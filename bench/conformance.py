"""Runs ONNX's own backend suite on the simulator, counts, and writes docs/conformance.md."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from bench.backend_cases import Case, cases, is_core, is_headline

PAGE = Path(__file__).parents[1] / "docs" / "conformance.md"
SECONDS = 60
"""A case that takes longer fails."""
WORKERS = 2


class Outcome(NamedTuple):
    """How a case went; `reason` is empty for one that passed."""

    name: str
    operators: Sequence[str]
    core: bool
    headline: bool
    reason: str
    ai_cpu: Sequence[str]
    """The operators that the AI CPU computed."""
    seconds: float


def main(argv: Sequence[str] | None = None) -> int:
    """Run the suite, or those cases whose names hold a word; 1 if a case failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="run only cases whose names hold one of these")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    parser.add_argument("--headline", action="store_true", help="run headline cases only")
    parser.add_argument("-v", action="store_true", dest="verbose", help="show every case")
    args = parser.parse_args(argv)
    names = _chosen(args.words, args.headline)
    outcomes = []
    for outcome in _run_all(names):
        outcomes.append(outcome)
        if args.verbose:
            print(_line(outcome), flush=True)
    outcomes.sort(key=lambda o: o.name)
    if args.json:
        args.json.write_text(json.dumps([o._asdict() for o in outcomes], indent=1) + "\n", "utf-8")
    print("\n".join(_summary(outcomes)))
    if not args.words and not args.headline:
        PAGE.write_text(page(outcomes), "utf-8")
    return int(any(o.reason for o in outcomes))


def _chosen(words: Sequence[str], headline: bool) -> list[str]:
    return [
        name
        for name, case in all_cases().items()
        if (not words or any(w in name for w in words)) and (not headline or is_headline(case))
    ]


@cache
def all_cases() -> dict[str, Case]:
    """The cases by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The suite overflows on purpose.
        return {case.name: case for case in cases()}


def _run_all(names: Sequence[str]) -> Iterator[Outcome]:
    if len(names) < 2 * WORKERS:
        yield from map(run_case, names)
        return
    all_cases()
    late: list[str] = []  # Tried again when nothing of ours runs beside them.
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        for outcome in pool.imap_unordered(run_case, names, chunksize=4):
            if outcome.reason.startswith(TimeoutError.__name__):
                late.append(outcome.name)
            else:
                yield outcome
    yield from map(run_case, late)


def run_case(name: str) -> Outcome:
    """Compile and run one case, hazards looked for, and compare."""
    case = all_cases()[name]
    started = time.perf_counter()
    ai_cpu: list[str] = []
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        _compare(case, ai_cpu)
        reason = ""
    except Exception as e:
        reason = _reason(e)
    finally:
        signal.alarm(0)
    seconds = time.perf_counter() - started
    return Outcome(name, case.operators, is_core(case), is_headline(case), reason, ai_cpu, seconds)


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"must end within {SECONDS} s")


def _compare(case: Case, ai_cpu: list[str]) -> None:
    from onnx import TensorProto, numpy_helper
    from onnx.backend.test.runner import Runner

    from ge.onnx_backend import GeBackend

    def array(value: Any) -> Any:
        return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value

    prepared = GeBackend.prepare(case.model)
    for inputs, wanted in case.data:
        given = prepared.named([array(v) for v in inputs])
        got, programs = prepared.follow(given)
        uses = (use.operator for p in programs if p.report for use in p.report.ai_cpu)
        ai_cpu.extend(dict.fromkeys(use for use in uses if use not in ai_cpu))
        Runner.assert_similar_outputs([array(v) for v in wanted], got, case.rtol, case.atol)


def _reason(error: Exception) -> str:
    """The first lines of a message that say something."""
    text = str(error).strip() or type(error).__name__
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    detail = getattr(error, "detail", "")
    message = getattr(error, "message", "")
    if message:
        lines = [message, *str(detail).strip().splitlines()[:1]]
    family = "" if message else f"{type(error).__name__}: "
    return family + " / ".join(line.strip() for line in lines[:3])[:300]


def _line(outcome: Outcome) -> str:
    where = f"AI CPU ({', '.join(outcome.ai_cpu)})" if outcome.ai_cpu else "device"
    return f"{outcome.name}: {outcome.reason or 'passes'} [{where}, {outcome.seconds:.2f} s]"


def _summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for what, part in _parts(outcomes):
        passed = sum(not o.reason for o in part)
        touched = sum(bool(o.ai_cpu) for o in part)
        yield f"{what}: {passed} of {len(part)} pass, {touched} touch the AI CPU"


def _parts(outcomes: Sequence[Outcome]) -> list[tuple[str, list[Outcome]]]:
    return [
        ("headline", [o for o in outcomes if o.headline]),
        ("core", [o for o in outcomes if o.core]),
        ("all", list(outcomes)),
    ]


def page(outcomes: Sequence[Outcome]) -> str:
    """The page: counts, a table by operator, and the reason of every case that fails."""
    import onnx

    lines = [
        "<!-- Generated by `make conformance`: do not edit. -->",
        "# Conformance",
        "",
        f"The backend suite of onnx {onnx.__version__}, compiled in precision `origin` for the "
        f"default target and run on its simulator with the hazard checker on, {SECONDS} s at most.",
        "",
        "*Headline* are the cases of one operator on floats and integers without control flow; "
        "*core* all cases on tensors of numbers with operators of ONNX itself. A refusal is a "
        "failure. What the AI CPU computed is named.",
        "",
        "| cases | pass | of | touch the AI CPU |",
        "|---|---|---|---|",
    ]
    for what, part in _parts(outcomes):
        passed, touched = sum(not o.reason for o in part), sum(bool(o.ai_cpu) for o in part)
        lines.append(f"| {what} | {passed} | {len(part)} | {touched} |")
    lines += ["", "## Headline by operator", "", "| operator | pass | of | AI CPU |"]
    lines += ["|---|---|---|---|", *_by_operator(o for o in outcomes if o.headline)]
    lines += ["", "## Cases that fail", "", "| case | | reason |", "|---|---|---|"]
    lines += [
        f"| {o.name} | {'headline' if o.headline else 'core' if o.core else ''} | "
        f"{_cell(o.reason)} |"
        for o in outcomes
        if o.reason
    ]
    return "\n".join(lines) + "\n"


def _by_operator(outcomes: Iterable[Outcome]) -> Iterator[str]:
    total: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    touched: dict[str, dict[str, None]] = {}
    for o in outcomes:
        operator = o.operators[0]
        total[operator] += 1
        passed[operator] += not o.reason
        touched.setdefault(operator, {}).update(dict.fromkeys(o.ai_cpu))
    for operator in sorted(total):
        uses = ", ".join(touched[operator])
        yield f"| {operator} | {passed[operator]} | {total[operator]} | {uses} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main())
