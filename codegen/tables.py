"""The tables of an object file as text, in the manner of objdump."""

from __future__ import annotations

from ge.codegen import elf


def sections(data: bytes) -> str:
    """The sections: name, bytes, alignment."""
    rows = [
        f"{number:>3} {s.name:<12} {len(s.data):>12} {s.align:>6}"
        for number, s in enumerate(elf.read(data).sections.values(), 1)
    ]
    return _table("SECTIONS", f"{'':>3} {'name':<12} {'bytes':>12} {'align':>6}", rows)


def symbols(data: bytes) -> str:
    """The symbols: place, kind, bytes, section, name."""
    kinds = {elf.FUNCTION: "function", elf.OBJECT: "area"}
    rows = [
        f"{s.value:016x} {kinds.get(s.type, '?'):<8} {s.bytes:>12} {s.section or '-':<12} {s.name}"
        for s in elf.read(data).symbols()
    ]
    head = f"{'value':<16} {'kind':<8} {'bytes':>12} {'section':<12} name"
    return _table("SYMBOLS", head, rows)


def relocations(data: bytes) -> str:
    """The relocations of the code: place, symbol and offset."""
    file = elf.read(data)
    rows = [f"{r.offset:016x} {r.symbol}+{r.addend:#x}" for r in file.relocations(file.symbols())]
    return _table("RELOCATIONS OF .text", f"{'place':<16} value", rows)


def _table(title: str, head: str, rows: list[str]) -> str:
    return "\n".join([f"{title}:", head, *rows]) + "\n"
