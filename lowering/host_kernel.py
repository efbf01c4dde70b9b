"""The kernel that has the AI CPU compute an operator: one core asks for it, the others go on."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, Region

from ge.dialects.fused.ops import HostOp
from ge.dialects.graph.base import shape_of
from ge.dialects.npu.geometry import dense
from ge.dialects.npu.operands import Name, Reg
from ge.dialects.npu.ops import INST_OPS, LabelOp, RoutineOp
from ge.dialects.npu.tree import KernelOp
from ge.dialects.npu.tree_types import HbmType
from ge.lowering.kernels.region import dtype_of


def host_kernel(op: HostOp, text: str, name: str, routine: str) -> list[Operation]:
    """The routine with that text, and the kernel `name` that calls it.

    Cores meet between kernels, so nobody reads what the routine writes before it is there.
    """
    values = (*op.ins, *op.outs)
    block = Block(
        arg_types=[HbmType.of(shape_of(v), dense(shape_of(v)), dtype_of(v)) for v in values]
    )
    core, end = Reg(len(values)), f".L{name}_end"
    places = tuple(Reg(number) for number in range(len(values)))
    block.add_ops(
        [
            INST_OPS["core"].of(core),
            INST_OPS["bnz"].of(core, Name(end)),
            INST_OPS["aicpu"].of(Name(routine), places),
            LabelOp.create(properties={"label": StringAttr(end)}),
            INST_OPS["ret"].of(),
        ]
    )
    kernel = KernelOp.create(
        properties={
            "sym_name": StringAttr(name),
            "kind": op.kind,
            "sources": op.sources,
        },
        regions=[Region(block)],
    )
    named = {"sym_name": StringAttr(routine), "text": StringAttr(text)}
    return [RoutineOp.create(properties=named), kernel]
