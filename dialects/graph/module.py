"""A model as a module: one function `main` whose attributes name its inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from ge.dialects.diagnostics import InputError


def make_module(
    block: Block,
    outputs: Sequence[SSAValue],
    input_names: Sequence[str],
    output_names: Sequence[str],
) -> ModuleOp:
    """A model from its operations; the return is added to the block."""
    block.add_op(ReturnOp(*outputs))
    types = ([a.type for a in block.args], [v.type for v in outputs])
    main = FuncOp("main", types, Region(block))
    main.attributes["input_names"] = _names(input_names)
    main.attributes["output_names"] = _names(output_names)
    return ModuleOp([main])


def main_of(module: ModuleOp) -> FuncOp:
    """The function of the model; raises InputError for a module without one."""
    for op in module.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == "main" and op.body.blocks:
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
