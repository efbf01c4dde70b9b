"""Branches and loops run on the device: what onnxruntime computes, and only what is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ge
from examples.models import Net
from ge.codegen.objects import write_object
from ge.dialects.diagnostics import UnsupportedError
from ge.dialects.npu.program import Program
from ge.lowering.pipelines import Options
from ge.runtime.simulator import Result, simulate
from ge.runtime.specialise import SpecialisedModel
from ge.tools import ge_as
from ge.tools.ge_compile import main
from tests.compiled import compiled, error_of, random_inputs
from tests.onnx_oracle import run

TINY = Options(target="tiny")


def body(net: Net, inputs: Mapping[str, tuple[int, Sequence[int]]], outputs: Sequence[str]) -> Any:
    """A graph for an attribute; its weights stay with the model."""
    ins = [helper.make_tensor_value_info(n, t, list(s)) for n, (t, s) in inputs.items()]
    outs = [onnx.ValueInfoProto(name=name) for name in outputs]
    return helper.make_graph(net.nodes, "body", ins, outs)


def inner(net: Net) -> Net:
    """What collects the nodes of a body; names and weights are those of the model."""
    other = Net()
    other.weights = net.weights
    other.rng = net.rng
    other.prefix = f"{net.prefix}b{len(net.nodes)}_"
    return other


def choice(side: int = 24) -> onnx.ModelProto:
    """A product for positive sums, another one with a softmax for others."""
    net = Net(3)
    y = net("Add", "x", "x")
    positive = net("Greater", net("ReduceSum", "x", keepdims=0), np.float32(0))
    then, other = inner(net), inner(net)
    a = then("Relu", then("MatMul", y, net.normal(side, side)))
    b = other("Softmax", other("MatMul", y, net.normal(side, side)), axis=-1)
    c = other("Sub", b, "x")
    branches = {"then_branch": body(then, {}, [a]), "else_branch": body(other, {}, [c])}
    return net.model({"x": (16, side)}, [net("Add", net("If", positive, **branches), y)], 17)


FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
SHAPE = (4, 8)


def recurrence(
    most: int | str | None, *, until: float | None = None, collects: bool = False, nested: int = 0
) -> onnx.ModelProto:
    """Products again and again, on what the one before gave and the number of the trip.

    `most` is a number or the name of an input. With `until` it ends when the sum is that large.
    """
    net = Net(7)
    one = inner(net)
    h = one("Tanh", one("MatMul", "h", net.normal(8, 8, scale=0.3)))
    h = one("Add", h, one("Mul", one("Cast", "i", to=FLOAT), np.float32(0.1)))
    if nested:
        two = inner(one)
        go = two("Identity", "on2")
        deep = two("Add", two("Mul", "h2", np.float32(0.5)), h)
        types = {"i2": (INT, ()), "on2": (BOOL, ()), "h2": (FLOAT, SHAPE)}
        graph = body(two, types, [go, deep])
        h = one("Loop", np.asarray(nested, np.int64), "", h, body=graph)
    on = one("Identity", "on")
    if until is not None:
        on = one("Less", one("ReduceSum", h, keepdims=0), np.float32(until))
    rows = [one("Mul", h, h)] if collects else []
    graph = body(one, {"i": (INT, ()), "on": (BOOL, ()), "h": (FLOAT, SHAPE)}, [on, h, *rows])
    count = np.asarray(most, np.int64) if isinstance(most, int) else most or ""
    outs = net("Loop", count, np.asarray(True), "x", body=graph, outputs=1 + collects)
    inputs: dict[str, Any] = {"x": SHAPE}
    if isinstance(most, str):
        inputs[most] = ()
    return net.model(inputs, outs if collects else [outs], 17, {"n": INT})


def followed(program: Program, model: onnx.ModelProto, inputs: dict[str, Any]) -> Result:
    """A run that gives what onnxruntime gives, without a hazard."""
    result = simulate(program, inputs, check_hazards=True)
    assert not result.hazards, str(result.hazards[0])
    for got, want in zip(result.outputs.values(), run(model, inputs), strict=True):
        assert error_of(got, want) < 1e-4
    return result


def kernels(result: Result) -> list[str]:
    """The kernels that ran, in order."""
    return [kernel.name for kernel in result.stats.kernels]


@pytest.mark.parametrize("options", [TINY, TINY.eager(), Options(cores=3)], ids=str)
def test_only_the_branch_that_is_taken_runs(options: Options) -> None:
    model = choice()
    program = compiled(model, options)
    x = np.random.default_rng(1).standard_normal((16, 24)).astype(np.float32)
    positive, negative = (followed(program, model, {"x": x + shift}) for shift in (1, -1))
    assert any("Softmax" in name for name in kernels(negative))
    assert not any("Softmax" in name for name in kernels(positive))
    assert positive.stats.instructions < negative.stats.instructions


@pytest.mark.parametrize("build", [choice, lambda: recurrence(50, until=20.0, nested=20)])
def test_the_text_of_every_level_gives_the_same_object(build: Any, tmp_path: Path) -> None:
    file, whole, temps = tmp_path / "m.onnx", tmp_path / "whole.o", tmp_path / "temps"
    onnx.save(build(), file)
    tiny = ["--target", "tiny"]
    assert main([str(file), *tiny, "-o", str(whole), "--save-temps", str(temps)]) == 0
    for level in ("graph", "fused", "npu"):
        text = temps / f"m.{level}.mlir"
        assert main([str(text), *tiny, "-o", str(tmp_path / "again.o")]) == 0
        assert (tmp_path / "again.o").read_bytes() == whole.read_bytes(), level
    assert ge_as.main([str(temps / "m.s"), "-o", str(tmp_path / "again.o")]) == 0
    assert (tmp_path / "again.o").read_bytes() == whole.read_bytes()
    assert write_object(ge.load(whole).program) == whole.read_bytes()


@pytest.mark.parametrize("precision", ["fp16", "mixed"])
def test_branches_are_computed_in_the_precision_that_is_asked_for(precision: str) -> None:
    model = choice()
    x = np.random.default_rng(2).standard_normal((16, 24)).astype(np.float32)
    program = ge.compile(model, target="tiny", precision=precision)
    for shift in (1, -1):
        inputs = {"x": x + np.float32(shift)}
        (got,), (want,) = program.run(inputs).values(), run(model, inputs)
        assert error_of(got, want) < 1e-2


X = np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32)


@pytest.mark.parametrize(
    ("options", "nested"), [(TINY, 17), (TINY.eager(), 0), (Options(cores=3), 0)], ids=str
)
def test_a_long_loop_is_a_loop_of_the_program(options: Options, nested: int) -> None:
    model = recurrence(17, collects=True, nested=nested)
    program = compiled(model, options)
    followed(program, model, {"x": X})
    calls = [inst for inst in program.code if inst.instr.mnemonic == "call"]
    assert len(calls) < 12


@pytest.mark.parametrize("most", [None, 50, "n"])
def test_the_data_end_a_loop(most: int | str | None) -> None:
    model = recurrence(most, until=20.0)
    program = compiled(model, TINY)
    ran = []
    for shift in (-2, 0, 30):
        inputs: dict[str, Any] = {"x": X + np.float32(shift)}
        if isinstance(most, str):
            inputs[most] = np.asarray(40, np.int64)
        ran.append(len(kernels(followed(program, model, inputs))))
    assert len(set(ran)) > 1


@pytest.mark.parametrize("trips", [0, 1, 5, 70])
def test_an_input_says_how_often_a_loop_runs(trips: int) -> None:
    model = recurrence("n")
    followed(compiled(model, TINY), model, {"x": X, "n": np.asarray(trips, np.int64)})


@pytest.mark.parametrize("most", [5, 40])
def test_what_a_loop_collects_is_as_long_as_the_data_say(most: int) -> None:
    model = recurrence(most, until=20.0, collects=True)
    special = SpecialisedModel(model, TINY)
    for shift in (-2, 30):
        inputs = {"x": X + np.float32(shift)}
        outputs, programs = special.follow(inputs, check_hazards=True)
        assert len(programs) == 2
        for got, want in zip(outputs.values(), run(model, inputs), strict=True):
            assert error_of(got, want) < 1e-4


def test_a_loop_without_a_trip_collects_nothing() -> None:
    model = recurrence(0, collects=True)
    followed(compiled(model, TINY), model, {"x": X})


def test_a_loop_without_an_end_must_be_given_one() -> None:
    model = recurrence("n", collects=True)
    with pytest.raises(
        UnsupportedError, match="1 node must be of supported operators, got Loop"
    ) as e:
        compiled(model, TINY)
    assert (
        "what a loop collects must have a known length; works: a known trip count" in e.value.detail
    )


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_a_program_does_not_grow_with_the_sequence(op: str, direction: str) -> None:
    short, long = (len(compiled(sequence(op, direction, n), TINY).code) for n in (20, 60))
    assert abs(long - short) < 60
    model = sequence(op, direction, 20)
    x = np.random.default_rng(6).standard_normal((20, 3, 8)).astype(np.float32)
    followed(compiled(model, TINY), model, {"x": x})


def sequence(op: str, direction: str, length: int) -> onnx.ModelProto:
    """A recurrent layer over sequences of two lengths."""
    net, hidden, gates = Net(9), 12, {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    ways = 2 if direction == "bidirectional" else 1
    w, r, b = (
        net.normal(ways, *n, scale=0.3)
        for n in ((gates * hidden, 8), (gates * hidden, hidden), (2 * gates * hidden,))
    )
    lengths = np.asarray([length, 7, length - 3], np.int32)
    y, h, *_ = net(op, "x", w, r, b, lengths, hidden_size=hidden, direction=direction, outputs=2)
    return net.model({"x": (length, 3, 8)}, [y, h], 17)


def scan(length: int) -> onnx.ModelProto:
    """Sums of two sequences, one walked backwards; what comes out stands in reverse, too."""
    net = Net(11)
    one = inner(net)
    total = one("Add", one("Mul", "s", np.float32(0.9)), one("Sub", "a", "b"))
    row = one("Tanh", total)
    graph = body(one, {"s": (FLOAT, (6,)), "a": (FLOAT, (6,)), "b": (FLOAT, (6,))}, [total, row])
    how = {"num_scan_inputs": 2, "scan_input_axes": [1, 0], "scan_input_directions": [0, 1]}
    how |= {"scan_output_axes": [1], "scan_output_directions": [1]}
    outs = net("Scan", net.normal(6), "x", "y", body=graph, outputs=2, **how)
    return net.model({"x": (6, length), "y": (length, 6)}, outs, 17)


def test_a_scan_walks_along_its_axes() -> None:
    model = scan(25)
    rng = np.random.default_rng(3)
    inputs = {
        n: rng.standard_normal(s).astype(np.float32) for n, s in (("x", (6, 25)), ("y", (25, 6)))
    }
    program = compiled(model, TINY)
    followed(program, model, inputs)
    assert len([inst for inst in program.code if inst.instr.mnemonic == "call"]) < 8


@pytest.mark.parametrize("build", [choice, lambda: recurrence(30, collects=True), lambda: scan(25)])
def test_other_runtimes_read_what_is_exported(build: Any, tmp_path: Path) -> None:
    model = build()
    onnx.save(model, tmp_path / "m.onnx")
    engine = ge.GraphEngine(ge.OptimizeConfig(target="tiny"))
    engine.LoadModel(tmp_path / "m.onnx")
    engine.SaveOptimizedModel(tmp_path / "o.onnx")
    inputs = random_inputs(model)
    for got, want in zip(
        run(onnx.load(tmp_path / "o.onnx"), inputs), run(model, inputs), strict=True
    ):
        assert error_of(got, want) < 1e-5
