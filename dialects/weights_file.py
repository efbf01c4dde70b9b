"""Weights beside a text: safetensors files of byte blobs, found and checked by digest."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterable
from pathlib import Path

from ge.dialects.diagnostics import InputError

DIGEST_CHARS = 32
"""Hexadecimal characters of a digest: the first half of a SHA-256."""
INLINE_BYTES = 1024
"""Larger blobs stand in a weights file, smaller ones in the text itself."""
_MOST_HEADER_BYTES = 100_000_000  # What the safetensors library takes.

Data = bytes | bytearray | memoryview


def digest_of(data: Data) -> str:
    """The name of a blob: 32 hexadecimal characters of its SHA-256."""
    return hashlib.sha256(data).hexdigest()[:DIGEST_CHARS]


def write_weights(path: Path, blobs: Iterable[tuple[str, Data]]) -> None:
    """Write blobs by digest, in order, each once; same blobs, same bytes. Raises OSError.

    The old file, which may be the mapped source of the blobs, stays whole until the new one is.
    """
    unique = dict(blobs)
    entries, at = {}, 0
    for digest, data in unique.items():
        size = memoryview(data).nbytes
        entries[digest] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for data in unique.values():
            file.write(data)
    unfinished.replace(path)


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
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or not 0 < size <= min(len(data) - 8, _MOST_HEADER_BYTES):
        raise InputError("must be a safetensors file, its header is cut off", where)
    begin = 8 + size
    try:
        header = json.loads(bytes(data[8:begin]))
        return {
            name: _place(begin, entry["data_offsets"], len(data))
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as e:
        raise InputError("must be a safetensors file, its header is malformed", where) from e


def _place(begin: int, offsets: list[int], end: int) -> tuple[int, int]:
    first, last = offsets
    if type(first) is not int or type(last) is not int or not 0 <= first <= last <= end - begin:
        raise ValueError
    return begin + first, begin + last
