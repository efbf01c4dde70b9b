"""Operations of a kernel's tree, from parts of its description."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, StringAttr, f64
from xdsl.ir import Attribute, Block, Region, SSAValue

from ge.dialects.attributes import strings
from ge.dialects.npu.axes import Axes, Axis
from ge.dialects.npu.tree import KernelOp, MapAttr, MoveOp, PairsAttr
from ge.dialects.npu.tree_types import HbmType
from ge.lowering.kernels.description import Description, Step


def kernel_op(description: Description, name: str, sources: Sequence[str]) -> KernelOp:
    """The kernel `name` with an argument for each operand and result, and nothing in it."""
    tensors = (*description.operands, *description.results)
    block = Block(arg_types=[HbmType.of(o.shape, o.strides, o.dtype) for o in tensors])
    for arg, tensor in zip(block.args, tensors, strict=True):
        arg.name_hint = tensor.name
    return KernelOp.create(
        properties={
            "sym_name": StringAttr(name),
            "kind": StringAttr(description.kind),
            "sources": strings(sources),
            "dims": PairsAttr(tuple((d.name, d.extent) for d in description.dims)),
        },
        regions=[Region(block)],
    )


def move_op(
    source: SSAValue,
    target: SSAValue,
    axes: Axes | None = None,
    pad: float = 0.0,
    when: Axis | None = None,
) -> MoveOp:
    """A move; `axes` is how device memory is seen."""
    properties: dict[str, Attribute] = {}
    if axes is not None:
        properties["map"] = MapAttr(axes)
    if pad:
        properties["pad"] = FloatAttr(pad, f64)
    if when is not None:
        properties["when"] = MapAttr((when,))
    return MoveOp.create(operands=[source, target], properties=properties)


def instr_properties(step: Step) -> dict[str, Attribute]:
    """The properties of a vector operation."""
    properties: dict[str, Attribute] = {"instr": StringAttr(step.instr)}
    if step.numbers:
        properties["numbers"] = ArrayAttr([FloatAttr(n, f64) for n in step.numbers])
    if step.words:
        properties["words"] = strings(step.words)
    if step.when is not None:
        properties["when"] = MapAttr((step.when,))
    return properties
