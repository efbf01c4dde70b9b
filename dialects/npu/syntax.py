"""Operand text to syntactic values, for the text that `Inst` prints: one regular expression.

The assembler's grammar is the specification; this reads the subset that the printers write.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ge.dialects.npu.instr import Inst, Instr
from ge.dialects.npu.operands import Addr, Name, Reg, Sym, Value
from ge.dialects.npu.places import SPACES

_NUMBER = r"-?(?:0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf\b|nan\b)"
_OPERAND = re.compile(
    rf"""(?:(?P<key>[a-z_]\w*)=)?(?:
      x(?P<reg>\d+)
    | (?P<num>{_NUMBER})
    | \[(?P<list>[^\]]*)\]
    | (?P<space>gm|l1|l0a|l0b|l0c|ub)\[(?:x(?P<base>\d+)\+?)?(?P<offset>0x[0-9a-f]+|\d+)?\]
    | (?P<sym>[A-Za-z_.][\w.$]*)\+(?P<addend>0x[0-9a-f]+|\d+)
    | (?P<name>[A-Za-z_.][\w.$]*)
    )\Z""",
    re.VERBOSE | re.ASCII,
)
_COMMA = re.compile(r",\s*(?![^\[]*\])")


def _number(text: str) -> int | float:
    if "x" in text:
        return int(text, 16)
    return float(text) if not text.lstrip("-").isdigit() else int(text)


@lru_cache(1 << 16)
def operand(text: str) -> tuple[str | None, Value]:
    """The keyword of one operand, if it has one, and its value; raises ValueError."""
    if (m := _OPERAND.match(text)) is None:
        raise ValueError(f"'{text}' must be an operand")
    key = m["key"]
    if m["reg"]:
        return key, Reg(int(m["reg"]))
    if m["num"]:
        return key, _number(m["num"])
    if m["list"] is not None:
        return key, tuple(operand(part.strip())[1] for part in m["list"].split(","))
    if m["space"]:
        base = Reg(int(m["base"])) if m["base"] else None
        return key, Addr(SPACES[m["space"]], int(m["offset"] or "0", 0), base)
    if m["sym"]:
        return key, Sym(m["sym"], int(m["addend"], 0))
    return key, Name(m["name"])


def instance(row: Instr, text: str) -> Inst:
    """The instance of `row` with the operands written in `text`; raises ValueError."""
    parts = [operand(p.strip()) for p in _COMMA.split(text)] if text.strip() else []
    named = {key: value for key, value in parts if key is not None}
    free = iter([value for key, value in parts if key is None])
    given: dict[str, Value] = {}
    for name, kind in row.operands.items():
        if name in named:
            given[name] = named.pop(name)
        elif not kind.keyed and name not in row.defaults:
            given[name] = next(free, None)
    if named or next(free, None) is not None:
        extra = min(named, default="the last one")
        raise ValueError(f"'{row.mnemonic}' takes no operand '{extra}'")
    return row.with_defaults(given)
