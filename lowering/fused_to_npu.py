"""`fused-to-npu`: each fused operation becomes a kernel's tree and a call of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, SymbolRefAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.attributes import IntsAttr, strings
from ge.dialects.diagnostics import DoesNotFit, GeError, InputError, UnsupportedError
from ge.dialects.fused.ops import FusedOp, HostOp, ViewOp
from ge.dialects.graph.base import ConstantOp, shape_of
from ge.dialects.graph.module import input_names, main_of, output_names, return_of
from ge.dialects.npu import target as targets
from ge.dialects.npu.geometry import dense
from ge.dialects.npu.ops import InvokeOp, ProgramOp, TensorOp
from ge.dialects.npu.routine import text_of
from ge.dialects.npu.target import DEFAULT, Target
from ge.dialects.npu.tree import HbmType
from ge.lowering.host_kernel import host_kernel
from ge.lowering.kernels.description import Description, in_turns
from ge.lowering.kernels.region import dtype_of, place_of
from ge.lowering.kernels.table import describe
from ge.lowering.kernels.tiling import parse_tiling
from ge.lowering.place_kernel import ELEMENTS_MOST, place

FAMILIES = (UnsupportedError, DoesNotFit, InputError)


@dataclass(frozen=True)
class FusedToNpuPass(ModulePass):
    """Describe kernels, choose their tiles, build their loops; equal ones are built once."""

    name = "fused-to-npu"
    target: str = DEFAULT
    cores: int = 0
    """0 means all the target has."""
    native: bool = True
    """One launch for the whole program, not one a kernel."""
    overlap: bool = True
    """Let the matrix and the vector unit work on different tiles at once."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = targets.load(self.target)
        main = main_of(op)
        program = _Lowering(main, machine, self).program
        main.detach()
        op.body.block.add_op(program)


class _Lowering:
    def __init__(self, main: FuncOp, target: Target, options: FusedToNpuPass) -> None:
        self.target = target
        cores = options.cores or target.cores
        self.block = Block()
        self.program = ProgramOp.create(
            properties={
                "target": StringAttr(options.target),
                "cores": IntegerAttr(cores, i64),
                "native": IntegerAttr(int(options.native), i64),
            },
            regions=[Region(self.block)],
        )
        self.tensors: dict[SSAValue, SSAValue] = {}
        self.kernels: dict[tuple[Description, StringAttr | None], str] = {}
        self.routines: dict[str, str] = {}
        """The kernel of each text that the AI CPU computes."""
        for value, name in zip(main.body.block.args, input_names(main), strict=True):
            self.tensor(value, "input", label=StringAttr(name))
        # In the order of the model, not of the kernels.
        for result, name in zip(return_of(main).arguments, output_names(main), strict=True):
            base = place_of(result).base
            self.tensor(base, "output", shape_of(result), label=StringAttr(name))
        self.overlap = options.overlap
        for op in main.body.block.ops:
            if isinstance(op, ConstantOp):
                self.constant(op)
            elif isinstance(op, FusedOp):
                self.kernel(op)
            elif isinstance(op, HostOp):
                self.host(op)

    def tensor(
        self,
        value: SSAValue,
        role: str,
        /,
        shape: tuple[int, ...] | None = None,
        **properties: Attribute,
    ) -> None:
        """The storage behind a value, under the value's shape or the one the model declares."""
        shape = shape_of(value) if shape is None else shape
        if prod(shape) > ELEMENTS_MOST:
            raise UnsupportedError(
                f"a tensor must have at most {ELEMENTS_MOST} elements, got {value.type}"
            )
        op = TensorOp.create(
            properties={"role": StringAttr(role), **properties},
            result_types=[HbmType.of(shape, dense(shape), dtype_of(value))],
        )
        self.block.add_op(op)
        self.tensors[value] = op.result

    def constant(self, op: ConstantOp) -> None:
        """Weights are kept as far as a kernel reads them from device memory."""
        result = op.results[0]
        if result in self.tensors:
            # Only an output without elements is a constant: nobody writes it.
            return
        readers = [use.operation for use in result.uses]
        if any(isinstance(r, FusedOp | HostOp | ViewOp) for r in readers):
            self.tensor(result, "weight", value=op.value)

    def kernel(self, op: FusedOp) -> None:
        sources = [s.data for s in op.sources]
        self.made(op.out)
        try:
            descriptions = describe(op)
            for number, description in enumerate(descriptions):
                ins = list(op.ins) if len(descriptions) == 1 else [op.ins[number]]
                symbol = self.symbol(description, sources, op.tiling)
                self.invoke(symbol, ins, [op.out], sources)
        except GeError as e:
            where = f"node '{sources[0]}'" if sources else ""
            family = next(f for f in FAMILIES if isinstance(e, f))
            raise family(e.message, where) from None

    def made(self, value: SSAValue) -> None:
        """The storage of what a kernel makes."""
        if value not in self.tensors:
            self.tensor(value, "temp")

    def host(self, op: HostOp) -> None:
        """A call of the kernel that has the AI CPU compute an operator; equal ones are one."""
        text = text_of(op.operator)
        if text not in self.routines:
            name, routine = f"k{len(self.kernels) + len(self.routines)}", f"r{len(self.routines)}"
            self.routines[text] = name
            self.block.add_ops(host_kernel(op, text, name, routine))
        for value in op.outs:
            self.made(value)
        sources = [s.data for s in op.sources]
        self.invoke(self.routines[text], list(op.ins), list(op.outs), sources)

    def symbol(
        self, description: Description, sources: Sequence[str], tiling: StringAttr | None
    ) -> str:
        """The kernel that computes a description, built when it is first asked for."""
        key = (description, tiling)
        if key not in self.kernels:
            name = f"k{len(self.kernels) + len(self.routines)}"
            self.kernels[key] = name
            chosen = parse_tiling(tiling.data) if tiling else None
            built = description if self.overlap else in_turns(description)
            self.block.add_op(place(built, self.target, name, sources, chosen))
        return self.kernels[key]

    def invoke(
        self, symbol: str, ins: Sequence[SSAValue], outs: Sequence[SSAValue], sources: Sequence[str]
    ) -> None:
        places = [place_of(v) for v in ins]
        op = InvokeOp.create(
            operands=[self.tensors[v] for v in (*(p.base for p in places), *outs)],
            properties={
                "callee": SymbolRefAttr(symbol),
                "outs": IntegerAttr(len(outs), i64),
                "offsets": IntsAttr((*map(_offset, ins), *(0 for _ in outs))),
                "sources": strings(sources),
            },
        )
        self.block.add_op(op)


def _offset(value: SSAValue) -> int:
    """Where a value begins, in elements of its storage; a view may see halves of those."""
    place = place_of(value)
    return place.offset * dtype_of(value).bytes // dtype_of(place.base).bytes
