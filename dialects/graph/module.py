"""A model as a module: a function `main` whose attributes name its inputs and outputs.

Beside it stand the functions that its control flow runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from ge.dialects.diagnostics import InputError, did_you_mean

IN_PLACE = "in_place"
"""The attribute of `main` that names inputs, each with the output that may be written over it."""


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


def in_place(main: FuncOp) -> dict[str, str]:
    """The outputs that may be written over an input, each with that input's name."""
    attr = main.attributes.get(IN_PLACE)
    pairs = attr.data if isinstance(attr, ArrayAttr) else ()
    texts = [p.data for p in pairs if isinstance(p, StringAttr)]
    return dict(zip(texts[1::2], texts[::2], strict=False))


def lies_over(result: SSAValue, x: SSAValue) -> bool:
    """Whether a value is an output that may be written over the input `x`."""
    main = x.owner.parent_op() if isinstance(x.owner, Block) else None
    if not isinstance(main, FuncOp) or not (pairs := in_place(main)):
        return False
    inputs: dict[SSAValue, str] = dict(zip(main.body.block.args, input_names(main), strict=True))
    outputs = zip(return_of(main).arguments, output_names(main), strict=True)
    return any(v is result and pairs.get(name) == inputs[x] for v, name in outputs)


def set_in_place(main: FuncOp, pairs: Mapping[str, str]) -> None:
    """Let outputs, the values of `pairs`, be written over inputs, its keys.

    Raises InputError for names that the model does not have, and for tensors that are not alike.
    """
    types = [
        {name: value.type for name, value in zip(names, values, strict=True)}
        for names, values in (
            (input_names(main), main.body.block.args),
            (output_names(main), return_of(main).arguments),
        )
    ]
    for pair in pairs.items():
        for name, known in zip(pair, types, strict=True):
            if name not in known:
                raise InputError(
                    f"an output must be written over an input, got '{name}'"
                    f"{did_you_mean(name, known)}"
                )
        have, want = (known[name] for name, known in zip(pair, types, strict=True))
        if have != want:
            raise InputError(f"input '{pair[0]}' must be of the type of '{pair[1]}', got {have}")
    if len(set(pairs.values())) != len(pairs):
        raise InputError("an output must be written over one input, got two")
    if pairs:
        main.attributes[IN_PLACE] = _names([name for pair in pairs.items() for name in pair])


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
