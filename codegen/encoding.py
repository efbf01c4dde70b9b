"""Instruction words: opcode, length in 8-byte words, operands as their kinds pack them, zeros."""

from __future__ import annotations

from ge.dialects.npu.instr import LENGTH_BITS, OPCODE_BITS, WORD_BYTES, Inst, Instr
from ge.dialects.npu.isa import BY_OPCODE, INSTRS
from ge.dialects.npu.operands import NUM_BITS, LabelKind, Sym, SymKind

HEAD_BITS = OPCODE_BITS + LENGTH_BITS
MOST_WORDS = (1 << LENGTH_BITS) - 1

PENDING = Sym("", 0)
"""Stands for the symbol of a decoded instruction until its relocation is read."""


class DecodeError(ValueError):
    """Bytes that are no instruction; `offset` says where they stand."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


def _slots(kind: type[LabelKind] | type[SymKind]) -> dict[Instr, int]:
    return {
        row: index
        for row in INSTRS.values()
        for index, k in enumerate(row.operands.values())
        if isinstance(k, kind)
    }


LABEL_OF = _slots(LabelKind)
"""The instructions that name a place in the code, and which operand does."""
SYMBOL_OF = _slots(SymKind)
"""The instructions that a relocation completes, and which operand it fills."""
_REFERRING = {*LABEL_OF, *SYMBOL_OF}


def references(code: list[Inst]) -> list[int]:
    """The numbers of the instructions that name a place or a symbol."""
    return [number for number, inst in enumerate(code) if inst.instr in _REFERRING]


def encode(inst: Inst) -> bytes:
    """The instruction's words, little-endian; a label that is a name and a symbol become zeros."""
    word, at = inst.instr.opcode, HEAD_BITS
    for kind, value in zip(inst.instr.operands.values(), inst.args, strict=True):
        bits, width = kind.encode(value)
        word |= bits << at
        at += width
    words = -(-at // (8 * WORD_BYTES))
    if words > MOST_WORDS:
        raise ValueError(
            f"'{inst.instr.mnemonic}' must fit {MOST_WORDS} words of {WORD_BYTES} bytes, "
            f"takes {words}"
        )
    return (word | words << OPCODE_BITS).to_bytes(words * WORD_BYTES, "little")


def label_bit(inst: Inst) -> int:
    """The bit of an instruction's word at which its label's distance begins."""
    kinds = list(inst.instr.operands.values())[: LABEL_OF[inst.instr]]
    return HEAD_BITS + sum(k.encode(v)[1] for k, v in zip(kinds, inst.args, strict=False))


def with_distance(word: bytes, bit: int, distance: int) -> bytes:
    """An encoded instruction with the byte distance to its label filled in."""
    if not -(1 << NUM_BITS - 1) <= distance < 1 << NUM_BITS - 1:
        raise ValueError(f"a label must be within 2 GiB of its use, is {distance} bytes away")
    bits = (distance & (1 << NUM_BITS) - 1) << bit
    return (int.from_bytes(word, "little") | bits).to_bytes(len(word), "little")


def bytes_at(code: bytes, at: int) -> int:
    """How many bytes the instruction at byte `at` claims to have."""
    head = int.from_bytes(code[at : at + HEAD_BITS // 8], "little")
    return (head >> OPCODE_BITS) * WORD_BYTES


def decode(code: bytes, at: int) -> tuple[Inst, int]:
    """The instruction at byte `at`, and the byte after it. Raises DecodeError.

    A label comes back as its byte distance, a symbol as `PENDING`. Only what `encode` gives is
    taken: unknown opcodes, wrong lengths, bits behind the operands and second ways to write the
    same operands are refused.
    """
    row, end = _head(code, at)
    raw = code[at:end]
    args = _operands(row, int.from_bytes(raw, "little"), at)
    inst = _checked(row, args, at)
    if encode(inst) != raw:
        raise DecodeError(
            at, f"'{row.mnemonic}' must be as the assembler encodes it: wrong length or stray bits"
        )
    return inst, end


def _head(code: bytes, at: int) -> tuple[Instr, int]:
    if at + WORD_BYTES > len(code):
        raise DecodeError(at, f"an instruction must have {WORD_BYTES} bytes at least")
    opcode = int.from_bytes(code[at : at + HEAD_BITS // 8], "little") & (1 << OPCODE_BITS) - 1
    if (row := BY_OPCODE.get(opcode)) is None:
        raise DecodeError(at, f"unknown opcode {opcode:#x}")
    claimed = bytes_at(code, at)
    end = at + claimed
    if not claimed or end > len(code):
        raise DecodeError(at, f"'{row.mnemonic}' must end inside the code, claims {claimed} bytes")
    return row, end


def _operands(row: Instr, word: int, offset: int) -> list[object]:
    args, bit = [], HEAD_BITS
    for name, kind in row.operands.items():
        try:
            value, bit = kind.decode(word, bit)
        except ValueError as e:
            raise DecodeError(
                offset, f"'{name}' of '{row.mnemonic}' must be {kind.what}{f': {e}' * bool(str(e))}"
            ) from e
        args.append(value)
    return args


def _checked(row: Instr, args: list[object], offset: int) -> Inst:
    index = SYMBOL_OF.get(row)
    if index is not None:
        if args[index] != 0:
            raise DecodeError(
                offset, f"the symbol of '{row.mnemonic}' must be zeros that a relocation fills"
            )
        args[index] = PENDING
    try:
        return row(*args)
    except ValueError as e:
        raise DecodeError(offset, str(e)) from e
