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
from ge.dialects.npu.tree import HbmType, KernelOp
from ge.lowering.host_kernel import host_kernel
from ge.lowering.kernels.description import Description, in_turns
from ge.lowering.kernels.region import dtype_of, place_of
from ge.lowering.kernels.table import describe
from ge.lowering.kernels.tiling import Tiling, parse_tiling
from ge.lowering.place_kernel import ELEMENTS_MOST, place, place_as
from ge.lowering.time_kernel import Machine
from ge.lowering.tune_kernel import choices, kept, key_of, line_of

TILINGS = "ge.tilings"
"""The attribute of a module that keeps the tilings of its kernels."""
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
    tune: bool = False
    """Time all tilings of all kernels, and keep the quickest in the module."""
    tilings: tuple[str, ...] = ()
    """Kept tilings: `KEY: TILING`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = targets.load(self.target)
        main = main_of(op)
        lowering = _Lowering(main, machine, self)
        main.detach()
        op.body.block.add_op(lowering.program)
        if self.tune:
            op.attributes[TILINGS] = strings(lowering.chosen)


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
        self.machine = Machine(options.target, cores, options.overlap)
        self.tune = options.tune
        self.kept = kept(options.tilings)
        self.chosen: list[str] = []
        self.routines: dict[str, str] = {}
        """The kernel of each text that the AI CPU computes."""
        for value, name in zip(main.body.block.args, input_names(main), strict=True):
            self.tensor(value, "input", label=StringAttr(name))
        # In the order of the model, not of the kernels.
        for result, name in zip(return_of(main).arguments, output_names(main), strict=True):
            base = place_of(result).base
            self.tensor(base, "output", shape_of(result), label=StringAttr(name))
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
                symbol = self.symbol(description, sources, op, self.cold([*ins, op.out]))
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

    def cold(self, operands: Sequence[SSAValue]) -> frozenset[int]:
        """The operands that are no intermediates: device memory delivers or takes them."""
        places = enumerate(self.tensors[place_of(value).base].owner for value in operands)
        return frozenset(
            i for i, op in places if isinstance(op, TensorOp) and op.role.data != "temp"
        )

    def symbol(
        self, description: Description, sources: Sequence[str], op: FusedOp, cold: frozenset[int]
    ) -> str:
        """The kernel that computes a description, built when it is first asked for."""
        key = (description, op.tiling)
        if key not in self.kernels:
            name = f"k{len(self.kernels) + len(self.routines)}"
            self.kernels[key] = name
            built = description if self.machine.overlap else in_turns(description)
            said = parse_tiling(op.tiling.data) if op.tiling else None
            self.block.add_op(self.build(built, name, sources, said, cold))
        return self.kernels[key]

    def build(
        self,
        description: Description,
        name: str,
        sources: Sequence[str],
        said: Tiling | None,
        cold: frozenset[int],
    ) -> KernelOp:
        """The tree of a kernel: under the tiling it says, the one that is kept, or the best."""
        key = key_of(description, self.machine) if self.tune or self.kept else ""
        tiling = said or self.kept.get(key)
        if tiling is None:
            found = choices(description, self.machine, cold, self.tune)
            kernel, tiling = place(description, self.target, name, sources, found)
        else:
            kernel, _ = place_as(description, self.target, name, sources, tiling)
        if self.tune and said is None:
            self.chosen.append(line_of(key, tiling))
        return kernel

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
