"""What scalar instructions compute, as Python text that works for integers and for arrays.

The words in it mean one thing for integers and another for arrays; both are here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

FORMULAS = {
    "li": "{}",
    "la": "{}",
    "core": "{}",
    "cores": "{}",
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "div": "div({}, {})",
    "mod": "mod({}, {})",
    "min": "least({}, {})",
    "max": "most({}, {})",
    "and": "{} & {}",
    "or": "{} | {}",
    "xor": "{} ^ {}",
    "shl": "{} << ({} & 63)",
    "shr": "{} >> ({} & 63)",
    "slt": "number({} < {})",
    "sle": "number({} <= {})",
    "seq": "number({} == {})",
    "sne": "number({} != {})",
}
BY_CONSTANT = {"div": "{} // {}", "mod": "{} % {}"}
"""The same, where the divisor is a constant other than 0."""
LARGE = {"add", "sub", "mul", "div", "shl"}
"""Those whose result may need more than 64 bits, so that it has to be wrapped."""

_TOP, _WRAP = 1 << 63, 1 << 64


def wrap(value: int) -> int:
    """The 64-bit register value that `value` becomes."""
    return value if -_TOP <= value < _TOP else (value + _TOP) % _WRAP - _TOP


INTEGERS: Mapping[str, Any] = {
    "wrap": wrap,
    "div": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "least": min,
    "most": max,
    "number": int,
    "where": lambda mask, then, other: then if mask else other,
}


@cache
def arrays() -> Mapping[str, Any]:
    """The words for arrays, which may meet integers."""
    import numpy as np

    return {
        "wrap": lambda a: a if isinstance(a, np.ndarray) else wrap(int(a)),
        "div": np.floor_divide,
        "mod": np.mod,
        "least": np.minimum,
        "most": np.maximum,
        "number": lambda a: a.astype(np.int64) if isinstance(a, np.ndarray) else int(a),
        # Of two integers `np.where` makes an array without dimensions.
        "where": lambda mask, then, other: (
            np.where(mask, then, other)
            if isinstance(mask, np.ndarray)
            else (then if mask else other)
        ),
    }


@cache
def instruction(mnemonic: str, *in_registers: bool) -> Callable[..., Callable[..., None]]:
    """Makes the function that executes an instruction, from its target and operands.

    The source consists of fixed words only, never of a program's text.
    """
    numbers = [f"r[a{i}]" if held else f"a{i}" for i, held in enumerate(in_registers)]
    names = "".join(f", a{i}" for i in range(len(numbers)))
    value = FORMULAS[mnemonic].format(*numbers)
    result = f"v if {-_TOP} <= v < {_TOP} else wrap(v)" if mnemonic in LARGE else "v"
    source = f"""
def make(target{names}):
    def entry(core, r):
        v = {value}
        r[target] = {result}
    return entry
"""
    space = dict(INTEGERS)
    exec(source, space)
    made: Callable[..., Callable[..., None]] = space["make"]
    return made
