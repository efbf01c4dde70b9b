"""Weights beside a text: safetensors files of byte blobs, found and checked by digest."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ge.dialects.diagnostics import InputError

DIGEST_CHARS = 32
"""Hexadecimal characters of a digest: the first half of a SHA-256."""
ALIGN = 64
INLINE_BYTES = 1024
"""Larger blobs stand in a weights file, smaller ones in the text itself."""
_MOST_HEADER_BYTES = 100_000_000  # What the safetensors library takes.

Data = bytes | bytearray | memoryview


def digest_of(data: Data) -> str:
    """The name of a blob: 32 hexadecimal characters of its SHA-256."""
    return hashlib.sha256(data).hexdigest()[:DIGEST_CHARS]


def write_weights(path: Path, blobs: Iterable[tuple[str, Data]]) -> None:
    """Write blobs by digest, each once; same blobs, same bytes. Raises InputError.

    The old file, which may be the mapped source of the blobs, stays whole until the new one is.
    """
    unique = dict(blobs)
    sizes = {digest: memoryview(data).nbytes for digest, data in unique.items()}
    # The format allows no gaps, so multiples of 64 bytes go first: those stay aligned.
    order = sorted(sizes, key=lambda d: (-min(ALIGN, sizes[d] & -sizes[d]), d))
    entries, at = {}, 0
    for digest in order:
        span = [at, at + sizes[digest]]
        entries[digest] = {"dtype": "U8", "shape": [sizes[digest]], "data_offsets": span}
        at = span[1]
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-(len(header) + 8) % ALIGN)
    unfinished = path.parent / f"{path.name}.unfinished"
    try:
        with unfinished.open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            for digest in order:
                file.write(unique[digest])
        unfinished.replace(path)
    except OSError as e:
        unfinished.unlink(missing_ok=True)
        raise InputError(f"must be writable: {e.strerror}", str(path)) from e


class WeightsFile:
    """The blobs of one file, memory-mapped; a blob is checked when it is first looked up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data = _map(path)
        self._places = _places(self._data, str(path))
        self._checked: dict[str, memoryview] = {}

    def __getitem__(self, digest: str) -> memoryview:
        """The blob called `digest`; raises InputError if it is missing or something else."""
        if (known := self._checked.get(digest)) is not None:
            return known
        if digest not in self._places:
            raise InputError(f"must hold a blob 'sha256:{digest}', has none", str(self.path))
        begin, end = self._places[digest]
        data = self._data[begin:end]
        if (found := digest_of(data)) != digest:
            raise InputError(
                f"blob 'sha256:{digest}' must have that digest, its bytes give {found}",
                str(self.path),
            )
        self._checked[digest] = data
        return data

    @property
    def unchecked(self) -> dict[str, memoryview]:
        """All blobs by digest, their bytes not compared with it yet."""
        return {digest: self._data[begin:end] for digest, (begin, end) in self._places.items()}


class WeightsFolder:
    """Looks blobs up in weights files of one folder, by the relative names that a text gives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, WeightsFile] = {}

    def __call__(self, name: str, digest: str) -> memoryview:
        """The blob called `digest` of file `name`; raises InputError."""
        if name not in self._files:
            self._files[name] = WeightsFile(self._path(name))
        return self._files[name][digest]

    def _path(self, name: str) -> Path:
        message = f"a weights file must lie in the text's own folder, got '{name}'"
        if not name or not name.isprintable() or Path(name).is_absolute():
            raise InputError(message)
        path = self.folder / name
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise InputError(message)
        return path


def _map(path: Path) -> memoryview:
    try:
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else e
        raise InputError(f"a weights file must be readable: {reason}", str(path)) from e


def _places(data: memoryview, where: str) -> dict[str, tuple[int, int]]:
    """Where each tensor begins and ends in the file, by name."""
    if len(data) < 8:
        raise InputError(f"must start with an 8-byte length, got {len(data)} bytes", where)
    size = int.from_bytes(data[:8], "little")
    if size > min(len(data) - 8, _MOST_HEADER_BYTES):
        raise InputError(f"header must lie in the file, its length says {size}", where)
    begin = 8 + size
    try:
        header = json.loads(bytes(data[8:begin]))
    except (ValueError, RecursionError):
        raise InputError("header must be JSON, got something else", where) from None
    if not isinstance(header, dict):
        raise InputError(f"header must be a JSON object, got {type(header).__name__}", where)
    rows = {name: row for name, row in header.items() if name != "__metadata__"}
    return {name: _place(name, row, begin, len(data), where) for name, row in rows.items()}


def _place(name: str, row: Any, begin: int, end: int, where: str) -> tuple[int, int]:
    """The bytes that a header row names."""
    span = row.get("data_offsets") if isinstance(row, dict) else None
    match span:
        case [int(first), int(last)] if 0 <= first <= last <= end - begin:
            return begin + first, begin + last
    raise InputError(f"'{name}' must lie in the file's {end - begin} bytes, got {span}", where)
