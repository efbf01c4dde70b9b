"""A model as a module: a function `main` whose attributes name its inputs and outputs.

Beside it stand the functions that its control flow runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from ge.dialects.diagnostics import InputError


def make_module(
    block: Block,
    outputs: Sequence[SSAValue],
    input_names: Sequence[str],
    output_names: Sequence[str],
    functions: Sequence[FuncOp] = (),
) -> ModuleOp:
    """A model from its operations; the return is added to the block."""
    main = make_function("main", block, outputs)
    main.attributes["input_names"] = _names(input_names)
    main.attributes["output_names"] = _names(output_names)
    return ModuleOp([main, *functions])


def make_function(name: str, block: Block, outputs: Sequence[SSAValue]) -> FuncOp:
    """A function from its operations; the return is added to the block."""
    block.add_op(ReturnOp(*outputs))
    types = ([a.type for a in block.args], [v.type for v in outputs])
    return FuncOp(name, types, Region(block))


def functions_of(module: ModuleOp) -> Iterator[FuncOp]:
    """The function of the model and those that it runs."""
    for op in module.ops:
        if isinstance(op, FuncOp) and op.body.blocks:
            yield op


def main_of(module: ModuleOp) -> FuncOp:
    """The function of the model; raises InputError for a module without one."""
    for op in functions_of(module):
        if op.sym_name.data == "main":
            return op
    raise InputError("a module must have a function 'main' with a body, got none")


def replace_body(main: FuncOp, block: Block) -> None:
    """Give a model's function another body, which was made from the one it has."""
    main.body.detach_block(0).erase(safe_erase=False)
    main.body.add_block(block)


def return_of(main: FuncOp) -> ReturnOp:
    """What the function gives back."""
    last = main.body.block.last_op
    if not isinstance(last, ReturnOp):
        raise InputError("'main' must end with func.return")
    return last


def input_names(main: FuncOp) -> list[str]:
    """The model's names for the arguments; `in0`, `in1`, ... where the text gives none."""
    return _given(main, "input_names", "in", len(main.body.block.args))


def output_names(main: FuncOp) -> list[str]:
    """The model's names for the results; `out0`, `out1`, ... where the text gives none."""
    return _given(main, "output_names", "out", len(return_of(main).arguments))


def _names(names: Sequence[str]) -> Attribute:
    return ArrayAttr([StringAttr(n) for n in names])


def _given(main: FuncOp, attribute: str, stem: str, count: int) -> list[str]:
    attr = main.attributes.get(attribute)
    if attr is None:
        return [f"{stem}{i}" for i in range(count)]
    names = (
        [n.data for n in attr.data if isinstance(n, StringAttr)]
        if isinstance(attr, ArrayAttr)
        else []
    )
    if len(names) != count or len(set(names)) != count:
        raise InputError(f"'{attribute}' of 'main' must be {count} different strings, got {attr}")
    return names
