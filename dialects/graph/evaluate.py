"""What a function of a model computes, operator by operator, in numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ge.dialects.dtypes import of_ir
from ge.dialects.graph.base import Array, ConstantOp, GraphOp, dims, type_of
from ge.dialects.graph.control import ControlOp, IfOp, LoopOp
from ge.dialects.graph.module import return_of

Watch = Callable[[GraphOp | ControlOp, Sequence[Array]], None]
"""Hears of each operation of the function itself what it gives."""


def evaluate(
    function: FuncOp, arguments: Sequence[Array], watch: Watch | None = None
) -> list[Array]:
    """The results of a function."""
    values: dict[SSAValue, Array] = dict(zip(function.body.block.args, arguments, strict=True))
    for op in function.body.block.ops:
        if isinstance(op, ConstantOp):
            values[op.out] = op.array
            continue
        if isinstance(op, GraphOp):
            given = [None if v is None else values[v] for v in op.arguments]
            results = op.evaluate_all(given, op.attrs)
        elif isinstance(op, ControlOp):
            results = _run(op, [values[v] for v in op.operands])
        else:
            continue
        values.update(zip(op.results, results, strict=True))
        if watch is not None:
            watch(op, results)
    return [values[v] for v in return_of(function).arguments]


def _run(op: ControlOp, arguments: Sequence[Array]) -> list[Array]:
    if isinstance(op, IfOp):
        then, otherwise = op.functions
        return evaluate(then if arguments[0].item() else otherwise, arguments[1:])
    assert isinstance(op, LoopOp)
    return _repeat(op, arguments)


def _repeat(op: LoopOp, arguments: Sequence[Array]) -> list[Array]:
    (body,) = op.functions
    own, (slices, rows) = op.carried.value.data, op.turns
    whole = len(arguments) - len(slices)
    state = list(arguments[:own])
    collected: list[list[Array]] = [[] for _ in rows]
    for trip in _trips(op):
        if op.conditional and not state[0].item():
            break
        pairs = zip(arguments[whole:], slices, strict=True)
        places = [a[trip if turn > 0 else len(a) - 1 - trip] for a, turn in pairs]
        made = evaluate(body, [*state, *arguments[own:whole], *places])
        state = made[:own]
        for row, part in zip(collected, made[own:], strict=True):
            row.append(part)
    results = zip(collected, rows, op.outs[own:], strict=True)
    return [*state, *(_stacked(row, turn, out) for row, turn, out in results)]


def _trips(op: LoopOp) -> Iterable[int]:
    return count() if op.most is None else range(op.most)


def _stacked(row: list[Array], turn: int, out: SSAValue) -> Array:
    """What the trips gave, zeros where there was none."""
    type_ = type_of(out)
    whole = np.zeros(dims(type_), of_ir(type_.element_type).numpy)
    for trip, part in enumerate(row):
        whole[trip if turn > 0 else len(whole) - 1 - trip] = part
    return whole
