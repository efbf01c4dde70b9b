"""Programs as object files. `write_object` is the format; `read_object` takes nothing on trust."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from ge.codegen import elf
from ge.codegen.check import Fault, area_bytes, check, functions
from ge.codegen.encoding import (
    LABEL_OF,
    PENDING,
    SYMBOL_OF,
    DecodeError,
    bytes_at,
    decode,
    encode,
    label_bit,
    references,
    with_distance,
)
from ge.codegen.manifest import ManifestError, manifest, read_manifest, source_map
from ge.dialects.diagnostics import InputError
from ge.dialects.npu.instr import WORD_BYTES, Inst
from ge.dialects.npu.operands import Name, Sym
from ge.dialects.npu.program import ALIGNMENT, WEIGHTS, Blob, Program
from ge.dialects.npu.routine import Routine
from ge.dialects.weights_file import INLINE_BYTES, digest_of

ADDRESS = 1
"""The one type of relocation: the symbol operand of the instruction at the offset."""
MOST_WEIGHTS_BYTES = 1 << 31
"""Objects with more weights than this keep them outside."""
ROUTINES = ".ge.routines"
"""The section of the routines' texts, one behind the other; a symbol for each."""
_SECTIONS = {".text", ".rodata", ROUTINES, ".note.ge", ".ge.srcmap"}
_TABLES = {".symtab", ".strtab", ".rela.text", ".shstrtab"}


def write_object(program: Program, external_weights: bool = False) -> bytes:
    """The object file of a program: same program, same bytes.

    External weights, and those above 2 GiB in any case, leave their digests and sizes only; blobs
    of up to 1 KiB stay. Raises Fault if the program breaks a rule of `check`.
    """
    check(program)
    places, text = _text(program)
    weights = program.weights
    if external_weights or program.weights_bytes > MOST_WEIGHTS_BYTES:
        weights = [b if b.bytes <= INLINE_BYTES else b._replace(data=None) for b in weights]
    rodata = _rodata(weights)
    sections = [elf.Section(".text", elf.PROGBITS, elf.ALLOC | elf.EXECUTE, text, WORD_BYTES)]
    if rodata:
        sections.append(elf.Section(".rodata", elf.PROGBITS, elf.ALLOC, rodata, ALIGNMENT))
    if program.routines:
        texts = "".join(routine.text for routine in program.routines)
        sections.append(elf.Section(ROUTINES, elf.PROGBITS, 0, texts.encode()))
    signature = elf.note(_json(manifest(program, weights)))
    sections.append(elf.Section(".note.ge", elf.NOTE, 0, signature, 4))
    sections.append(elf.Section(".ge.srcmap", elf.PROGBITS, 0, _json(source_map(program, places))))
    whole = bool(weights) and all(b.data is not None for b in weights)
    symbols = _symbols(program, places, ".rodata" if whole and rodata else "")
    relocations = [
        elf.Relocation(places[n], s.name, ADDRESS, s.addend)
        for n, s in _symbol_operands(program.code)
    ]
    return elf.write(sections, symbols, relocations)


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _text(program: Program) -> tuple[list[int], bytes]:
    """The byte at which each instruction begins, the end included, and all bytes of code.

    Equal instructions that are one object are encoded once.
    """
    known: dict[int, bytes] = {}
    words: list[bytes] = []
    for inst in program.code:
        word = known.get(id(inst))
        if word is None:
            word = known[id(inst)] = encode(inst)
        words.append(word)
    places = list(accumulate(map(len, words), initial=0))
    for number in references(program.code):
        inst = program.code[number]
        if inst.instr in LABEL_OF:
            label = inst.args[LABEL_OF[inst.instr]]
            distance = places[program.labels[label]] - places[number]
            words[number] = with_distance(words[number], label_bit(inst), distance)
    return places, b"".join(words)


def _symbol_operands(code: list[Inst]) -> list[tuple[int, Sym]]:
    return [
        (number, code[number].args[SYMBOL_OF[code[number].instr]])
        for number in references(code)
        if code[number].instr in SYMBOL_OF
    ]


def _rodata(weights: list[Blob]) -> bytes:
    """The blobs that are here, each at the next multiple of the alignment."""
    parts: list[bytes | memoryview] = []
    for blob in weights:
        if blob.data is not None:
            parts += [blob.data, bytes(-blob.bytes % ALIGNMENT)]
    return b"".join(parts)


def _symbols(program: Program, places: list[int], weights_section: str) -> list[elf.Symbol]:
    """The functions in order of place, the areas, the routines; names of one place in order."""
    ends = sorted(functions(program))
    after = dict(zip(ends, [*ends[1:], len(program.code)], strict=False))
    symbols = []
    for place, name in sorted((p, n) for n, p in program.labels.items() if n[0] != "."):
        begin, end = places[place], places[after[place]]
        symbols.append(elf.Symbol(name, ".text", begin, end - begin, elf.FUNCTION))
    for name, size in area_bytes(program).items():
        section = weights_section if name == WEIGHTS else ""
        symbols.append(elf.Symbol(name, section, 0, size, elf.OBJECT))
    at = 0
    for routine in program.routines:
        size = len(routine.text.encode())
        symbols.append(elf.Symbol(routine.symbol, ROUTINES, at, size, elf.OBJECT))
        at += size
    return symbols


def read_object(data: bytes | memoryview, path: str = "<object>") -> Program:
    """The program of an object file; raises InputError for anything that is not one.

    Local labels are named after the address of their place.
    """
    try:
        file = elf.read(data)
        if unknown := set(file.sections) - _SECTIONS - _TABLES:
            raise elf.ElfError(f"unknown section {min(unknown)!a}")
        program = _program(file)
        check(program)
    except Fault as e:
        where = f"{path}: instruction {e.at}" if isinstance(e.at, int) else path
        raise InputError(e.message, where) from e
    except DecodeError as e:
        raise InputError(str(e), f"{path}: .text+{e.offset:#x}") from e
    except (elf.ElfError, ManifestError) as e:
        raise InputError(str(e), path) from e
    return program


def _program(file: elf.File) -> Program:
    code, places = _decoded(file.section(".text").data)
    symbols = file.symbols()
    labels: dict[str, int] = {}
    for s in symbols:
        if s.section == ".text":
            if s.value not in places:
                raise elf.ElfError(f"symbol {s.name!a} must stand before an instruction")
            if s.name in labels or s.name.startswith("."):
                raise elf.ElfError(f"{s.name!a} must name one function")
            labels[s.name] = places[s.value]
    program = read_manifest(file.note(), bytes(file.section(".ge.srcmap").data), places)
    program.code, program.labels = code, labels
    program.routines = _routines(file, symbols)
    areas = [s.name for s in symbols if s.section not in (".text", ROUTINES)]
    if areas != list(area_bytes(program)):
        raise elf.ElfError("symbols must be functions and the areas of the signature, or routines")
    _name_targets(program, places)
    _fill_symbols(program, places, file.relocations(symbols))
    _fill_weights(program, file)
    return program


def _routines(file: elf.File, symbols: list[elf.Symbol]) -> list[Routine]:
    """The routines, whose texts must fill their section in the order of the symbols."""
    section = file.sections.get(ROUTINES)
    data = bytes(section.data) if section else b""
    found: list[Routine] = []
    at = 0
    for symbol in symbols:
        if symbol.section == ROUTINES:
            if symbol.value != at:
                raise elf.ElfError(f"routine {symbol.name!a} must follow the one before it")
            at += symbol.bytes
            try:
                found.append(Routine(symbol.name, data[symbol.value : at].decode()))
            except UnicodeDecodeError as e:
                raise elf.ElfError(f"routine {symbol.name!a} must be text") from e
    if at != len(data):
        raise elf.ElfError(f"'{ROUTINES}' must have the {at} bytes of its symbols, got {len(data)}")
    return found


def _decoded(text: bytes | bytearray | memoryview) -> tuple[list[Inst], dict[int, int]]:
    """The instructions, and their numbers by address, the end included."""
    code: list[Inst] = []
    places: dict[int, int] = {}
    known: dict[bytes, Inst] = {}
    raw = bytes(text)
    at = 0
    while at < len(raw):
        places[at] = len(code)
        end = at + bytes_at(raw, at)
        inst = known.get(raw[at:end])
        if inst is None:
            inst, end = decode(raw, at)
            known[raw[at:end]] = inst
        code.append(inst)
        at = end
    places[at] = len(code)
    return code, places


def _name_targets(program: Program, places: dict[int, int]) -> None:
    """Turn the distances of branches into labels: function names, or names made of addresses."""
    names = functions(program)
    addresses = list(places)
    for number, inst in enumerate(program.code):
        index = LABEL_OF.get(inst.instr)
        if index is None:
            continue
        address = addresses[number] + inst.args[index]
        place = places.get(address)
        if place is None:
            raise DecodeError(addresses[number], "a label must stand before an instruction")
        name = names.get(place) or f".L{address:x}"
        program.labels.setdefault(name, place)
        args = (*inst.args[:index], Name(name), *inst.args[index + 1 :])
        program.code[number] = Inst(inst.instr, args)


def _fill_symbols(
    program: Program, places: dict[int, int], relocations: list[elf.Relocation]
) -> None:
    for r in relocations:
        number = places.get(r.offset, len(program.code))
        inst = program.code[number] if number < len(program.code) else None
        index = SYMBOL_OF.get(inst.instr) if inst else None
        if inst is None or index is None or r.type != ADDRESS or inst.args[index] is not PENDING:
            raise elf.ElfError(
                f"a relocation must be of type {ADDRESS} and the only one of an instruction with "
                f"a symbol, got type {r.type} at .text+{r.offset:#x}"
            )
        args = (*inst.args[:index], Sym(r.symbol, r.addend), *inst.args[index + 1 :])
        program.code[number] = Inst(inst.instr, args)
    if any(s is PENDING for _, s in _symbol_operands(program.code)):
        raise elf.ElfError("every instruction with a symbol must have a relocation")


def attach_weights(program: Program, find: Callable[[str], memoryview]) -> None:
    """Give the blobs that were left out the bytes that `find` has for their digests.

    A WeightsFile's `__getitem__` is such a `find`. Raises InputError.
    """
    for number, blob in enumerate(program.weights):
        if blob.data is None:
            data = find(blob.digest)
            if data.nbytes != blob.bytes:
                raise InputError(
                    f"blob 'sha256:{blob.digest}' must have {blob.bytes} bytes, has {data.nbytes}"
                )
            program.weights[number] = blob._replace(data=data)


def _fill_weights(program: Program, file: elf.File) -> None:
    """Give the blobs that are in the object their bytes, which must have their digests."""
    rodata = file.sections.get(".rodata")
    data = memoryview(rodata.data if rodata else b"").toreadonly()
    at = 0
    for number, blob in enumerate(program.weights):
        if blob.data is None:
            continue
        piece = data[at : at + blob.bytes]
        if piece.nbytes != blob.bytes or digest_of(piece) != blob.digest:
            raise elf.ElfError(f"'.rodata' must hold blob 'sha256:{blob.digest}' whole")
        program.weights[number] = blob._replace(data=piece)
        end = at + blob.bytes
        at += -(-blob.bytes // ALIGNMENT) * ALIGNMENT
        if any(data[end:at]):
            raise elf.ElfError("'.rodata' must hold zeros between blobs")
    if at != len(data):
        raise elf.ElfError(f"'.rodata' must have {at} bytes, got {len(data)}")
