"""What an object says besides code: the signature in `.note.ge` and the sources in `.ge.srcmap`."""

from __future__ import annotations

import json
from typing import Any

from ge.dialects.dtypes import BY_NAME
from ge.dialects.npu.program import Arena, Blob, Kernel, Program, Tensor

VERSION = 1
"""Version of the object format and of the instruction encoding."""


class ManifestError(ValueError):
    """The signature or the source map of an object is malformed."""


def manifest(program: Program, weights: list[Blob]) -> dict[str, Any]:
    """The signature: all of a program but code, labels, routines, kernels and calls."""
    return {
        "version": VERSION,
        "target": program.target,
        "cores": program.cores,
        "inputs": [_tensor(t) for t in program.inputs],
        "outputs": [_tensor(t) for t in program.outputs],
        "arena": program.arena._asdict(),
        "weights": [
            {"sha256": b.digest, "bytes": b.bytes, "here": b.data is not None} for b in weights
        ],
    }


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {**tensor._asdict(), "dtype": tensor.dtype.name}


def source_map(program: Program, places: list[int]) -> dict[str, list[dict[str, Any]]]:
    """The kernels and the calls, with bytes of the code for instruction numbers."""
    return {
        "kernels": [
            {**k._asdict(), "start": places[k.start], "end": places[k.end]} for k in program.kernels
        ],
        "calls": [
            {"at": places[number], "sources": sources}
            for number, sources in sorted(program.calls.items())
        ],
    }


def read_manifest(signature: bytes, sources: bytes, places: dict[int, int]) -> Program:
    """The program, still without code; blobs that are in the object get empty data for now.

    `places` are instruction numbers by address. Raises ManifestError.
    """
    top = _record(_load(signature, ".note.ge"), "the signature")
    if top.get("version") != VERSION:
        raise ManifestError(f"must be of object version {VERSION}, got {top.get('version')!a}")
    arena = _record(top.get("arena"), "arena")
    origin = _record(_load(sources, ".ge.srcmap"), "the source map")
    return Program(
        target=_text(top.get("target"), "target"),
        cores=_count(top.get("cores"), "cores"),
        inputs=[_read_tensor(t) for t in _list(top.get("inputs"), "inputs")],
        outputs=[_read_tensor(t) for t in _list(top.get("outputs"), "outputs")],
        arena=Arena(*(_count(arena.get(f), f"arena {f}") for f in Arena._fields)),
        weights=[_read_blob(b) for b in _list(top.get("weights"), "weights")],
        kernels=[_read_kernel(k, places) for k in _list(origin.get("kernels"), "kernels")],
        calls=_read_calls(_list(origin.get("calls"), "calls"), places),
    )


def _load(data: bytes, section: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as e:
        raise ManifestError(f"'{section}' must hold JSON") from e


def _record(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ManifestError(f"{what} must be a record")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ManifestError(f"{what} must be a list")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ManifestError(f"{what} must be text")
    return value


def _count(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ManifestError(f"{what} must be a number of 0 or more")
    return value


def _read_tensor(value: Any) -> Tensor:
    record = _record(value, "a tensor")
    dtype = _text(record.get("dtype"), "dtype")
    if dtype not in BY_NAME:
        raise ManifestError(f"dtype must be an element type, got {dtype!a}")
    return Tensor(
        _text(record.get("symbol"), "symbol"),
        _text(record.get("name"), "name"),
        BY_NAME[dtype],
        tuple(_count(n, "a dimension") for n in _list(record.get("shape"), "shape")),
    )


def _read_blob(value: Any) -> Blob:
    record = _record(value, "a blob")
    here = record.get("here")
    if type(here) is not bool:
        raise ManifestError("'here' of a blob must be true or false")
    size = _count(record.get("bytes"), "bytes")
    return Blob(_text(record.get("sha256"), "sha256"), size, memoryview(b"") if here else None)


def _read_kernel(value: Any, places: dict[int, int]) -> Kernel:
    record = _record(value, "a kernel")
    ends = (_count(record.get(k), k) for k in ("start", "end"))
    start, end = (places.get(address, -1) for address in ends)
    return Kernel(
        _text(record.get("symbol"), "symbol"),
        _text(record.get("kind"), "kind"),
        _read_sources(record),
        start,
        end,
    )


def _read_calls(values: list[Any], places: dict[int, int]) -> dict[int, tuple[str, ...]]:
    calls: dict[int, tuple[str, ...]] = {}
    for value in values:
        record = _record(value, "a call")
        number = places.get(_count(record.get("at"), "at"), -1)
        if number in calls:
            raise ManifestError("the sources of a call must be given once")
        calls[number] = _read_sources(record)
    return calls


def _read_sources(record: dict[str, Any]) -> tuple[str, ...]:
    return tuple(_text(s, "a source") for s in _list(record.get("sources"), "sources"))
