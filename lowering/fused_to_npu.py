"""`fused-to-npu`: each fused operation becomes a kernel's tree and a call of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, SymbolRefAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.passes import ModulePass

from ge.dialects.attributes import IntsAttr, strings
from ge.dialects.diagnostics import DoesNotFit, GeError, InputError, UnsupportedError
from ge.dialects.fused.base import FusedOp, ViewOp
from ge.dialects.fused.ops import HostOp, ScatterOp
from ge.dialects.graph import control
from ge.dialects.graph.base import ConstantOp, shape_of
from ge.dialects.graph.module import (
    functions_of,
    in_place,
    input_names,
    main_of,
    output_names,
    return_of,
)
from ge.dialects.npu import target as targets
from ge.dialects.npu.geometry import dense
from ge.dialects.npu.ops import ChooseOp, InvokeOp, ProgramOp, RepeatOp, TensorOp
from ge.dialects.npu.program import ELEMENTS_MOST, RANK_MOST
from ge.dialects.npu.routine import text_of
from ge.dialects.npu.target import DEFAULT, Target
from ge.dialects.npu.tree import KernelOp
from ge.dialects.npu.tree_types import HbmType
from ge.lowering.anchors import copy_of
from ge.lowering.host_kernel import host_kernel
from ge.lowering.kernels.description import Description, in_turns
from ge.lowering.kernels.region import dtype_of, place_of
from ge.lowering.kernels.table import describe
from ge.lowering.kernels.tiling import Tiling, parse_tiling
from ge.lowering.place_kernel import place, place_as
from ge.lowering.spots import (
    Spot,
    may_replace,
    offset_of,
    places_in,
    results_of,
    takes_over,
)
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
        lowering = _Lowering(machine, self)
        lowering.model(main_of(op))
        for function in list(functions_of(op)):
            function.detach()
        op.body.block.add_op(lowering.program)
        if self.tune:
            op.attributes[TILINGS] = strings(lowering.chosen)


class _Lowering:
    def __init__(self, target: Target, options: FusedToNpuPass) -> None:
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
        self.calls = self.block
        """Where calls go: those inside control flow stand in blocks of their own."""
        self.depth = 0
        """How many loops are around."""
        self.spots: dict[SSAValue, Spot] = {}
        """Where each value with storage of its own lies."""
        self.same: dict[SSAValue, SSAValue] = {}
        """The input that lies where an output does."""
        self.entered: set[FuncOp] = set()
        self.kernels: dict[tuple[Description, StringAttr | None], str] = {}
        self.machine = Machine(options.target, cores, options.overlap)
        self.tune = options.tune
        self.kept = kept(options.tilings)
        self.chosen: list[str] = []
        self.routines: dict[str, str] = {}
        """The kernel of each text that the AI CPU computes."""

    def model(self, main: FuncOp) -> None:
        """All calls, those of the functions that the model runs among them."""
        self.entered.add(main)
        inputs, outputs, over = input_names(main), output_names(main), in_place(main)
        for value, name in zip(main.body.block.args, inputs, strict=True):
            self.tensor(value, "input", label=StringAttr(name))
        # In the order of the model, not of the kernels.
        for number, (result, name) in enumerate(
            zip(return_of(main).arguments, outputs, strict=True)
        ):
            base, more = place_of(result).base, {"label": StringAttr(name)}
            if name in over and may_replace(main, inputs.index(over[name]), number):
                more["over"] = StringAttr(over[name])
            self.tensor(base, "output", shape_of(result), **more)
            if "over" in more:
                argument = main.body.block.args[inputs.index(over[name])]
                self.same[self.spots[base].tensor] = self.spots[argument].tensor
        self.members(main.body.block)

    def members(self, block: Block) -> None:
        """The calls that a function's operations become."""
        order = places_in(block)
        for op in reversed(block.ops):
            if isinstance(op, ScatterOp) and op.out in self.spots and takes_over(op, order):
                self.spots[op.base] = self.spots[op.out]
        for op in block.ops:
            if isinstance(op, ConstantOp):
                self.constant(op)
            elif isinstance(op, FusedOp):
                if isinstance(op, ScatterOp) and op.out not in self.spots and takes_over(op, order):
                    self.spots[op.out] = self.spots[op.base]
                self.kernel(op)
            elif isinstance(op, HostOp):
                self.host(op)
            elif isinstance(op, control.IfOp):
                self.choice(op)
            elif isinstance(op, control.LoopOp):
                self.loop(op)

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
        if prod(shape) > ELEMENTS_MOST or len(shape) > RANK_MOST:
            most = f"{RANK_MOST} dimensions and {ELEMENTS_MOST} elements"
            raise UnsupportedError(f"a tensor must have at most {most}, got {value.type}")
        op = TensorOp.create(
            properties={"role": StringAttr(role), **properties},
            result_types=[HbmType.of(shape, dense(shape), dtype_of(value))],
        )
        self.block.add_op(op)
        self.spots[value] = Spot(op.result)

    def constant(self, op: ConstantOp) -> None:
        """Weights are kept as far as a kernel reads them from device memory."""
        result = op.results[0]
        if result in self.spots:
            # Only an output without elements is a constant: nobody writes it.
            return
        readers = [use.operation for use in result.uses]
        if any(isinstance(r, FusedOp | HostOp | ViewOp | control.ControlOp) for r in readers):
            self.tensor(result, "weight", value=op.value)

    def kernel(self, op: FusedOp) -> None:
        sources = [s.data for s in op.sources]
        self.made(op.out)
        self.run(op, sources, self.spots[op.out])

    def run(self, op: FusedOp, sources: Sequence[str], out: Spot) -> None:
        """The calls that write what a fused operation computes."""
        try:
            for part in describe(op):
                ins = [self.spot(v) for v in part.ins]
                into = out.further(part.offset * dtype_of(op.out).bytes)
                if part.brings and self.storage(ins[0]) == self.storage(into):
                    continue
                symbol = self.symbol(part.description, sources, op, self.cold([*ins, into]))
                self.invoke(symbol, ins, [into] * len(part.description.results), sources)
        except GeError as e:
            where = f"node '{sources[0]}'" if sources else ""
            family = next(f for f in FAMILIES if isinstance(e, f))
            raise family(e.message, where) from None

    def made(self, value: SSAValue) -> None:
        """The storage of what a kernel makes, or a function that is run."""
        if value not in self.spots:
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
        ins, outs = ([self.spot(v) for v in values] for values in (op.ins, op.outs))
        self.invoke(self.routines[text], ins, outs, sources)

    def spot(self, value: SSAValue) -> Spot:
        """Where a value lies."""
        return self.spots[place_of(value).base].further(offset_of(value))

    def storage(self, spot: Spot) -> Spot:
        """The place, under the name of the input that lies there if one does."""
        return replace(spot, tensor=self.same.get(spot.tensor, spot.tensor))

    def cold(self, operands: Sequence[Spot]) -> frozenset[int]:
        """The operands that are no intermediates: device memory delivers or takes them."""
        places = enumerate(spot.tensor.owner for spot in operands)
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
        if tiling is None or tiling.chosen:
            found = choices(description, self.machine, cold, self.tune)
            kernel, best = place(description, self.target, name, sources, found)
            tiling = tiling.over(best) if tiling else best
        if said or key in self.kept:
            kernel, _ = place_as(description, self.target, name, sources, tiling)
        if self.tune and said is None:
            self.chosen.append(line_of(key, tiling))
        return kernel

    def invoke(
        self, symbol: str, ins: Sequence[Spot], outs: Sequence[Spot], sources: Sequence[str]
    ) -> None:
        spots = [*ins, *outs]
        op = InvokeOp.create(
            operands=[spot.tensor for spot in spots],
            properties={
                "callee": SymbolRefAttr(symbol),
                "outs": IntegerAttr(len(outs), i64),
                "offsets": IntsAttr(tuple(_elements(spot, spot.offset) for spot in spots)),
                "sources": strings(sources),
                **self.steps(*spots),
            },
        )
        self.calls.add_op(op)

    # Control flow: what a function does stands where it is run.

    def steps(self, *spots: Spot) -> dict[str, Attribute]:
        """How operands move with the loops around them, where one does."""
        if not any(spot.steps for spot in spots):
            return {}
        rows = [(*spot.steps, *(0,) * (self.depth - len(spot.steps))) for spot in spots]
        pairs = zip(spots, rows, strict=True)
        numbers = [tuple(_elements(spot, step) for step in row) for spot, row in pairs]
        return {"steps": IntsAttr(tuple(n for loop in zip(*numbers, strict=True) for n in loop))}

    def function(self, function: FuncOp, takes: Sequence[Spot], gives: Sequence[Spot]) -> Region:
        """The calls of a function whose arguments and results lie there."""
        if function in self.entered:
            raise InputError(f"'{function.sym_name.data}' must be run in one place")
        self.entered.add(function)
        self.spots.update(zip(function.body.block.args, takes, strict=True))
        self.spots.update(zip(results_of(function), gives, strict=True))
        outer, self.calls = self.calls, Block()
        self.members(function.body.block)
        inner, self.calls = self.calls, outer
        return Region(inner)

    def choice(self, op: control.IfOp) -> None:
        """Either of two functions, which write to the same places."""
        for out in op.outs:
            self.made(out)
        condition, *takes = [self.spot(v) for v in op.ins]
        gives = [self.spots[out] for out in op.outs]
        regions = [self.function(function, takes, gives) for function in op.functions]
        self.calls.add_op(
            ChooseOp.create(
                operands=[condition.tensor],
                properties={
                    "offset": IntegerAttr(_elements(condition, condition.offset), i64),
                    **self.steps(condition),
                },
                regions=regions,
            )
        )

    def loop(self, op: control.LoopOp) -> None:
        """A function whose results are where its arguments were; see `_trip` for the rest."""
        carried = op.carried.value.data
        sources = op.source.split(",") if op.source else [op.ONNX]
        for out in op.outs:
            self.made(out)
        for value, out in zip(op.ins, op.outs[:carried], strict=False):
            self.copy(value, self.spots[out], sources)
        state = [self.spots[out] for out in op.outs[:carried]]
        condition = state[:1] if op.conditional else []
        properties = {
            "trips": IntegerAttr(op.most or 0, i64),
            "offset": IntegerAttr(_elements(state[0], state[0].offset) if condition else 0, i64),
            **self.steps(*condition),
        }
        self.depth += 1
        region = self.trip(op, state, sources)
        self.depth -= 1
        if region.block.first_op is not None and op.most != 0:
            tensors = [[spot.tensor for spot in condition]]
            self.calls.add_op(
                RepeatOp.create(operands=tensors[0], properties=properties, regions=[region])
            )

    def trip(self, op: control.LoopOp, state: Sequence[Spot], sources: Sequence[str]) -> Region:
        """The calls of one trip: what it gives replaces what it took, when that is read no more."""
        (function,) = op.functions
        slices, rows = op.turns
        whole, most, depth = len(op.ins) - len(slices), op.most or 0, self.depth - 1
        takes = [*state, *(self.spot(v) for v in op.ins[len(state) : whole])]
        for value, turn in zip(op.ins[whole:], slices, strict=True):
            takes.append(_cut(self.spot(value), value, most, turn, depth))
        gives, late = list(state), []
        for number, value in enumerate(return_of(function).arguments[: len(state)]):
            if not may_replace(function, number, number):
                self.tensor(value, "temp")
                gives[number] = self.spots[value]
                late.append((value, state[number]))
        for out, turn in zip(op.outs[len(state) :], rows, strict=True):
            gives.append(_cut(self.spots[out], out, most, turn, depth))
        region = self.function(function, takes, gives)
        outer, self.calls = self.calls, region.block
        for value, spot in late:
            self.copy(value, spot, sources)
        self.calls = outer
        return region

    def copy(self, value: SSAValue, to: Spot, sources: Sequence[str]) -> None:
        """Write a value to where another one lies."""
        if 0 not in shape_of(value):
            kernel = copy_of(value, value, tuple(sources))
            self.run(kernel, sources, to)
            kernel.erase()


def _elements(spot: Spot, size: int) -> int:
    """Bytes as elements of the tensor; a view may see halves of those."""
    type_ = spot.tensor.type
    assert isinstance(type_, HbmType)
    return size // type_.dtype.bytes


def _cut(spot: Spot, value: SSAValue, places: int, turn: int, depth: int) -> Spot:
    """The place of the first axis that each trip is at, from the end on for a turn of -1."""
    step = prod(shape_of(value)[1:]) * dtype_of(value).bytes
    return spot.stepping(depth, 0 if turn > 0 else (places - 1) * step, turn * step)
