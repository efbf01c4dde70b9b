"""ELF64 relocatable files, little-endian: writing, and reading of files that nobody vouches for."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

MACHINE = 0x6E70
"""This project's machine number; no registered machine has it."""
RELOCATABLE, VERSION = 1, 1
PROGBITS, SYMTAB, STRTAB, RELA, NOTE = 1, 2, 3, 4, 7
ALLOC, EXECUTE, INFO_LINK = 2, 4, 0x40
UNDEFINED = 0
GLOBAL, OBJECT, FUNCTION = 1, 1, 2
NOTE_TYPE = 0x4745  # Low numbers have meanings of their own that readelf would show.
_NOTE_OWNER = b"GE\0\0"
_MOST_SECTIONS = 64

_IDENT = b"\x7fELF" + bytes((2, 1, VERSION)) + bytes(9)
_FILE = struct.Struct("<16sHHIQQQIHHHHHH")
_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_NOTE = struct.Struct("<III")


class ElfError(ValueError):
    """A file is not the kind of ELF file that this module writes."""


class Section(NamedTuple):
    """A section; `link` and `info` are names of sections, or a number for `info`."""

    name: str
    type: int
    flags: int
    data: bytes | bytearray | memoryview
    align: int = 1
    link: str = ""
    info: str | int = 0
    entry_bytes: int = 0


class Symbol(NamedTuple):
    """A global symbol; an empty section means that it gets its address at load."""

    name: str
    section: str
    value: int
    bytes: int
    type: int


class Relocation(NamedTuple):
    """A place in `.text` that the loader completes with a symbol's address."""

    offset: int
    symbol: str
    type: int
    addend: int


class _Strings:
    """A string table under construction."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0")
        self._at: dict[str, int] = {"": 0}

    def add(self, text: str) -> int:
        at = self._at.get(text)
        if at is None:
            at = self._at[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return at


def note(data: bytes) -> bytes:
    """The contents of a note section that holds `data`."""
    head = _NOTE.pack(len(_NOTE_OWNER) - 1, len(data), NOTE_TYPE)
    return head + _NOTE_OWNER + data + bytes(-len(data) % 4)


def write(sections: list[Section], symbols: list[Symbol], relocations: list[Relocation]) -> bytes:
    """The bytes of a file with `sections`, and tables of symbols and relocations of `.text`."""
    numbers = {s.name: n for n, s in enumerate(sections, 1)}
    strings = _Strings()
    table = bytearray(_SYMBOL.size)
    for s in symbols:
        number = numbers[s.section] if s.section else UNDEFINED
        info = GLOBAL << 4 | s.type
        table += _SYMBOL.pack(strings.add(s.name), info, 0, number, s.value, s.bytes)
    order = {s.name: n for n, s in enumerate(symbols, 1)}
    rela = b"".join(
        _RELOCATION.pack(r.offset, order[r.symbol] << 32 | r.type, r.addend) for r in relocations
    )
    tables = [
        Section(".symtab", SYMTAB, 0, table, 8, ".strtab", 1, _SYMBOL.size),
        Section(".strtab", STRTAB, 0, strings.data),
        Section(".rela.text", RELA, INFO_LINK, rela, 8, ".symtab", ".text", _RELOCATION.size),
    ]
    return _file([*sections, *(tables if relocations else tables[:2])])


def _file(sections: list[Section]) -> bytes:
    names = _Strings()
    for name in (*(s.name for s in sections), ".shstrtab"):
        names.add(name)
    sections = [*sections, Section(".shstrtab", STRTAB, 0, names.data)]
    numbers = {"": 0} | {s.name: n for n, s in enumerate(sections, 1)}
    parts: list[bytes | bytearray | memoryview] = [b""]
    at = _FILE.size
    heads = [bytes(_HEADER.size)]
    for s in sections:
        parts.append(gap := bytes(-at % s.align))
        at += len(gap)
        info = s.info if isinstance(s.info, int) else numbers[s.info]
        size = len(s.data)
        heads.append(
            _HEADER.pack(
                *(names.add(s.name), s.type, s.flags, 0, at, size),
                *(numbers[s.link], info, s.align, s.entry_bytes),
            )
        )
        parts.append(s.data)
        at += size
    parts.append(bytes(-at % 8))
    at += -at % 8
    parts[0] = _FILE.pack(
        *(_IDENT, RELOCATABLE, MACHINE, VERSION, 0, 0, at, 0),
        *(_FILE.size, 0, 0, _HEADER.size, len(heads), len(heads) - 1),
    )
    return b"".join((*parts, *heads))


@dataclass(frozen=True)
class File:
    """A file that was read: its sections by name, and its checked tables."""

    sections: dict[str, Section]
    numbers: dict[int, str]

    def symbols(self) -> list[Symbol]:
        """The symbols behind the null one; raises ElfError."""
        strings = self.section(".strtab").data
        found = []
        for name, info, other, number, value, size in self._table(".symtab", _SYMBOL):
            if number and number not in self.numbers:
                raise ElfError(f"a symbol must lie in a section, got section {number}")
            if other or info >> 4 != GLOBAL:
                raise ElfError("every symbol must be global")
            section = self.numbers[number] if number else ""
            found.append(Symbol(_string(strings, name), section, value, size, info & 15))
        return found

    def relocations(self, symbols: list[Symbol]) -> list[Relocation]:
        """The relocations of `.text`; raises ElfError."""
        found = []
        for offset, info, addend in self._table(".rela.text", _RELOCATION, first=0):
            number = info >> 32
            if not 1 <= number <= len(symbols):
                raise ElfError(f"a relocation must name a symbol, got symbol {number}")
            name = symbols[number - 1].name
            found.append(Relocation(offset, name, info & 0xFFFFFFFF, addend))
        return found

    def section(self, name: str) -> Section:
        """The section called `name`; raises ElfError if there is none."""
        if name not in self.sections:
            raise ElfError(f"must have a section '{name}'")
        return self.sections[name]

    def note(self) -> bytes:
        """What the note of this project holds; raises ElfError."""
        data = bytes(self.section(".note.ge").data)
        head = _NOTE.size + len(_NOTE_OWNER)
        if len(data) < head or data != note(data[head : head + _NOTE.unpack_from(data)[1]]):
            raise ElfError("'.note.ge' must be one note of owner 'GE'")
        return data[head : head + _NOTE.unpack_from(data)[1]]

    def _table(self, name: str, entry: struct.Struct, first: int = 1) -> Iterator[tuple[int, ...]]:
        if name not in self.sections and name == ".rela.text":
            return
        data = self.section(name).data
        if len(data) % entry.size or len(data) < first * entry.size:
            raise ElfError(f"'{name}' must hold whole entries of {entry.size} bytes")
        yield from entry.iter_unpack(data[first * entry.size :])


def read(data: bytes | memoryview) -> File:
    """The sections of a file, each checked to lie in it; raises ElfError."""
    view = memoryview(data)
    if len(view) < _FILE.size or view[:16] != _IDENT:
        raise ElfError("must be a 64-bit little-endian ELF file")
    _, kind, machine, version, _, _, at, _, *sizes, count, names = _FILE.unpack_from(view)
    if (kind, machine, version) != (RELOCATABLE, MACHINE, VERSION):
        raise ElfError(f"must be a relocatable file for machine {MACHINE:#x}, got {machine:#x}")
    if sizes != [_FILE.size, 0, 0, _HEADER.size] or not 2 <= count <= _MOST_SECTIONS:
        raise ElfError("must have a table of 2 to 64 sections")
    if at > len(view) - count * _HEADER.size or not 0 < names < count:
        raise ElfError("the table of sections must lie in the file")
    heads = list(_HEADER.iter_unpack(view[at : at + count * _HEADER.size]))
    pieces = [_piece(view, head) for head in heads]
    texts = [_string(pieces[names], head[0]) for head in heads]
    sections: dict[str, Section] = {}
    for head, piece, name in zip(heads[1:], pieces[1:], texts[1:], strict=True):
        if name in sections:
            raise ElfError(f"must have one section {name!a}, has two")
        if max(head[6:8]) >= count:
            raise ElfError(f"section {name!a} must refer to a section of the file")
        link, info, align, entry_bytes = head[6:]
        sections[name] = Section(
            *(name, head[1], head[2], piece, align, texts[link], info, entry_bytes)
        )
    return File(sections, dict(enumerate(texts[1:], 1)))


def _piece(view: memoryview, head: tuple[int, ...]) -> memoryview:
    at, size = head[4], head[5]
    if at > len(view) or size > len(view) - at:
        raise ElfError("every section must lie in the file")
    return view[at : at + size]


def _string(table: bytes | bytearray | memoryview, at: int) -> str:
    """The zero-terminated string at byte `at` of a string table."""
    if at >= len(table):
        raise ElfError("every name must lie in a string table")
    # Long enough for any name; a bound keeps hostile tables from costs that grow with their square.
    raw, end, _ = bytes(table[at : at + (1 << 12)]).partition(b"\0")
    try:
        text = raw.decode("ascii")
    except UnicodeDecodeError as e:
        raise ElfError("every name must be ASCII") from e
    if not end:
        raise ElfError("every name must end, within 4096 bytes")
    return text
