"""Programs kept on disk, so that a second process compiles nothing that it has seen.

An entry is named by a digest of all that its program depends on. It is written beside its place and
moved there whole, so readers and writers of several processes never meet in one; what does not fit
its own checksum is removed and compiled anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ge
from ge.codegen.objects import read_object, write_object
from ge.dialects.diagnostics import GeError
from ge.dialects.npu import target as targets
from ge.dialects.npu.program import Program
from ge.lowering.pipelines import Options

if TYPE_CHECKING:
    from ge.runtime.source import Source

MAGIC = b"ge-cache-1\n"
LIMIT_BYTES = 1 << 30
"""Entries together; those that were not used for longest go first."""
ENVIRONMENT = "GE_CACHE_DIR"
"""The folder for programs, where no option says one."""


class ProgramCache:
    """Entries in a folder of their own."""

    def __init__(self, folder: str | Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.folder = Path(folder)
        self.limit_bytes = limit_bytes
        self.hits = 0
        self.misses = 0
        self._warned = False

    def get(self, key: str) -> tuple[Program, dict[str, Any]] | None:
        """The program of a key and what was noted with it; None if there is none that is whole."""
        path = self._path(key)
        found = _read(path)
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        os.utime(path)
        return found

    def put(self, key: str, program: Program, notes: dict[str, Any]) -> None:
        """Keep a program; a folder that cannot be written keeps nothing, which is warned of."""
        head = json.dumps(notes).encode()
        body = len(head).to_bytes(8, "little") + head + write_object(program)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.folder) as beside:
                made = Path(beside, key)
                made.write_bytes(MAGIC + hashlib.sha256(body).digest() + body)
                made.replace(self._path(key))
            self._shrink()
        except OSError as e:
            self._warn(e)

    def _warn(self, error: OSError) -> None:
        """Say once why nothing is kept."""
        if not self._warned:
            why = f"must be a folder that programs can be kept in: {error.strerror}"
            warnings.warn(f"{self.folder}: warning: {why}", stacklevel=3)
        self._warned = True

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.ge"

    def _shrink(self) -> None:
        """Remove what was not used for longest until the rest is small enough."""
        entries = []
        for path in self.folder.glob("*.ge"):
            try:
                state = path.stat()
            except OSError:
                continue  # Another process was faster.
            entries.append((state.st_mtime_ns, state.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.limit_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size


def cache_in(folder: str) -> ProgramCache | None:
    """The cache in a folder, or in that of the environment; None where there is neither."""
    folder = folder or os.environ.get(ENVIRONMENT, "")
    return ProgramCache(folder) if folder else None


def digest(parts: Iterable[bytes | str]) -> str:
    """One digest of several parts, the compiler itself among them."""
    total = hashlib.sha256(_compiler())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


def content(model: Any) -> str | None:
    """A digest of a model; None for one in memory that has no bytes of its own."""
    if isinstance(model, (str, Path)):
        path = Path(model)
        return digest(file_parts(path)) if path.is_file() else None
    write = getattr(model, "SerializeToString", None)
    return None if write is None else digest([write(deterministic=True)])


def source_key(source: Source, options: Options) -> str | None:
    """What names the one program of a model that is given whole."""
    model = content(source.model)
    if model is None:
        return None
    given = [sorted((d or {}).items()) for d in (source.shapes, source.values, source.in_place)]
    return digest([*options_parts(options), repr(given), model])


def options_parts(options: Options) -> Iterable[str]:
    """What a compile is asked for, with the numbers of a target that a file describes."""
    yield repr(replace(options, target=targets.pinned(options.target)))


def file_parts(path: Path) -> Iterable[bytes]:
    """The bytes of a model's file, and of those beside it that it names."""
    data = path.read_bytes()
    yield data
    for other in sorted(path.parent.iterdir()):
        if other != path and other.is_file() and other.name.encode() in data:
            yield other.name.encode()
            yield other.read_bytes()


@cache
def _compiler() -> bytes:
    """What this version of the compiler is: its files, as they are now."""
    root = Path(ge.__file__).parent
    total = hashlib.sha256(ge.__version__.encode())
    for path in sorted(p for s in ("py", "lark", "toml") for p in root.glob(f"*/**/*.{s}")):
        state = path.stat()
        total.update(f"{path.relative_to(root)} {state.st_size} {state.st_mtime_ns}\n".encode())
    return total.digest()


def _read(path: Path) -> tuple[Program, dict[str, Any]] | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    start = len(MAGIC) + 32
    body = data[start:]
    if data[: len(MAGIC)] == MAGIC and hashlib.sha256(body).digest() == data[len(MAGIC) : start]:
        size = 8 + int.from_bytes(body[:8], "little")
        try:
            return read_object(body[size:], str(path)), json.loads(body[8:size])
        except (GeError, ValueError):
            pass  # Whole, but of a form that this version does not read.
    path.unlink(missing_ok=True)
    return None
