"""The parts of a study on all processors: each part is compiled and timed by itself."""

from __future__ import annotations

import datetime
import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from examples.llama3.eager import lists
from examples.llama3.figures import PARTS, Study

WORKERS_MOST = 2
"""Processes at once: more would take more memory than a small machine has."""


def study(studies: Sequence[Study]) -> dict[str, Any]:
    """The figures of all targets as one document. Raises GeError for what a target cannot do."""
    started = time.perf_counter()
    first = studies[0]
    about = [one.about() for one in studies]
    jobs = [
        (number, part)
        for part in PARTS
        for number, found in enumerate(about)
        if "does_not_fit" not in found
    ]
    for (number, _), found in zip(jobs, _done([(studies[n], p) for n, p in jobs]), strict=True):
        about[number] |= found
    torch = {name: lists()[name] for name in ("torch", "transformers")}
    return {
        "model": first.geometry.name,
        "date": datetime.date.today().isoformat(),
        "prompt": first.prompt,
        "tokens": first.tokens,
        "weights_bytes": first.geometry.weights_bytes,
        "recorded": torch,
        "seconds": time.perf_counter() - started,
        "targets": about,
    }


def _done(jobs: Sequence[tuple[Study, str]]) -> list[dict[str, Any]]:
    workers = min(WORKERS_MOST, len(jobs), os.cpu_count() or 1)
    if workers < 2:
        return [_part(job) for job in jobs]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context) as pool:
        return list(pool.map(_part, jobs))


def _part(job: tuple[Study, str]) -> dict[str, Any]:
    one, name = job
    return one.part(name)
