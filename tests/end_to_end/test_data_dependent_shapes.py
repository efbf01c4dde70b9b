"""Shapes that small inputs or the data decide: compiled for what they are, when it is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import ge
from ge.dialects.diagnostics import InputError, UnsupportedError
from ge.lowering.pipelines import Options
from ge.runtime.specialise import SpecialisedModel
from tests.models import Net
from tests.onnx_oracle import close, run

TINY = Options(target="tiny", cores=2)
RNG = np.random.default_rng(11)


def check(model: onnx.ModelProto, *inputs: dict[str, Any], stages: int) -> None:
    specialised = SpecialisedModel(model, TINY)
    for given in inputs:
        outputs, programs = specialised.follow(given, check_hazards=True)
        assert len(programs) == stages
        for output, want in zip(model.graph.output, run(model, given), strict=True):
            close(outputs[output.name], want, 1e-5)


def test_places_found_in_the_data_feed_what_follows() -> None:
    net = Net(0)
    places = net("Transpose", net("NonZero", net("Greater", "x", np.float32(0.5))), perm=[1, 0])
    rows = net("GatherND", "x", places)
    model = net.model({"x": (6, 7)}, [places, net("Exp", rows)], 17, {places: TensorProto.INT64})
    inputs = [{"x": RNG.standard_normal((6, 7)).astype(np.float32)} for _ in range(3)]
    check(model, *inputs, stages=2)


def test_stages_follow_each_other() -> None:
    net = Net(0)
    first = net(
        "Compress",
        "x",
        net("Greater", net("ReduceMax", "x", axes=[1], keepdims=0), np.float32(1)),
        axis=0,
    )
    second = net("Unique", net("Round", net("Mul", first, np.float32(2))), sorted=1)
    model = net.model({"x": (9, 5)}, [net("Abs", second)], 17)
    check(model, {"x": RNG.standard_normal((9, 5)).astype(np.float32)}, stages=3)


def test_boxes_that_overlap_are_left_out() -> None:
    net = Net(0)
    limits = np.array([4]), np.array([0.5], np.float32), np.array([0.2], np.float32)
    kept = net("NonMaxSuppression", "boxes", net("Sigmoid", "scores"), *limits)
    column = net("Gather", kept, np.int64(2), axis=1)
    best = net("Gather", "boxes", column, axis=1)
    types = {kept: TensorProto.INT64, "boxes": TensorProto.FLOAT, "scores": TensorProto.FLOAT}
    model = net.model({"boxes": (1, 20, 4), "scores": (1, 2, 20)}, [kept, best], 17, types)
    boxes = RNG.uniform(0, 4, (1, 20, 4)).astype(np.float32)
    scores = RNG.standard_normal((1, 2, 20)).astype(np.float32)
    check(model, {"boxes": boxes, "scores": scores}, stages=2)


def test_an_input_that_decides_a_shape_is_compiled_in() -> None:
    net = Net(0)
    shaped = net("Reshape", net("Relu", "x"), "s")
    types = {"x": TensorProto.FLOAT, "s": TensorProto.INT64}
    model = net.model({"x": (4, 6), "s": (2,)}, [shaped], 17, types)
    x = RNG.standard_normal((4, 6)).astype(np.float32)
    check(model, {"x": x, "s": np.array([3, 8])}, {"x": x, "s": np.array([-1, 2])}, stages=1)


def test_what_takes_one_program_says_why_there_is_none() -> None:
    net = Net(0)
    model = net.model({"x": (4, 6)}, [net("NonZero", "x")], 17)
    program = ge.compile(model, target="tiny")
    with pytest.raises(UnsupportedError, match="those of a run, and it has not run yet"):
        program.stats()
    x = np.eye(4, 6, dtype=np.float32)
    close(program(x), run(model, {"x": x})[0])
    for ask in (lambda: program.save("m.o"), lambda: program.assembly, program.stats):
        with pytest.raises(UnsupportedError, match="those of a run, and it ran as 2 programs"):
            ask()
    assert program.launches == 2


def test_open_shapes_are_those_of_the_last_run() -> None:
    net = Net(0)
    model = net.model({"x": ("n", 6)}, [net("Relu", net("Neg", "x"))], 17)
    program = ge.compile(model, target="tiny")
    for n in (2, 3):
        x = RNG.standard_normal((n, 6)).astype(np.float32)
        close(program(x), run(model, {"x": x})[0])
        assert program.program.inputs[0].shape == (n, 6)
        assert program.stats().cycles
    compared = program.compare({"x": RNG.standard_normal((5, 6)).astype(np.float32)})
    assert compared.guilty is None


def test_programs_that_ran_longest_ago_are_let_go() -> None:
    net = Net(0)
    model = net.model({"x": ("n", 6)}, [net("Relu", "x")], 17)
    few = SpecialisedModel(model, TINY, held_bytes=1)
    inputs = [{"x": RNG.standard_normal((n, 6)).astype(np.float32)} for n in (2, 3)]
    first, second = few.whole(inputs[0]), few.whole(inputs[1])
    assert few.whole(inputs[1]) is second
    assert few.whole(inputs[0]) is not first


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": np.zeros((4, 6), np.float32)}, "unknown input 'y'; the model's inputs: 'x'"),
        ({}, "input 'x' must be given"),
        ({"x": np.zeros((4, 6))}, "input 'x' must be float32 of shape"),
        ({"x": np.zeros((4, 7), np.float32)}, "'x' must fit"),
        ({"x": np.zeros(6, np.float32)}, "'x' must fit"),
    ],
)
def test_inputs_that_do_not_fit_are_named(given: dict[str, Any], message: str) -> None:
    net = Net(0)
    model = net.model({"x": ("n", 6)}, [net("NonZero", "x")], 17)
    with pytest.raises(InputError, match=message):
        ge.compile(model, target="tiny").run(given)


def test_what_is_not_supported_is_said_before_shapes_are_known() -> None:
    net = Net(0)
    model = net.model({"x": ("n", 6)}, [net("Nothing", net("Relu", "x"))], 17)
    for load in (ge.compile, ge.GraphEngine().LoadModel):
        with pytest.raises(UnsupportedError, match="must be of supported operators, got Nothing"):
            load(model)


def test_a_branch_that_the_shapes_rule_out_is_decided_by_its_input() -> None:
    """A model for two sampling rates: each has a branch, and an input of its own length."""
    net = Net(0)

    def branch(op: str, width: int) -> onnx.GraphProto:
        inner = Net(width)
        out = inner(op, inner("MatMul", "x", inner.normal(width, 3)))
        values = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in inner.weights.items()]
        return onnx.helper.make_graph(inner.nodes, op, [], [onnx.ValueInfoProto(name=out)], values)

    fast = net("Equal", "rate", np.int64(16))
    out = net("If", fast, then_branch=branch("Tanh", 6), else_branch=branch("Relu", 4))
    types = {"x": TensorProto.FLOAT, "rate": TensorProto.INT64}
    model = net.model({"x": (2, "n"), "rate": ()}, [out], 17, types)
    x = RNG.standard_normal((2, 6)).astype(np.float32)
    check(
        model,
        {"x": x, "rate": np.array(16)},
        {"x": np.ascontiguousarray(x[:, :4]), "rate": np.array(8)},
        stages=1,
    )


def test_the_engine_waits_for_the_shapes_of_a_call(tmp_path: Path) -> None:
    net = Net(0)
    deep = net("Relu", net("MatMul", net("Tanh", "x"), net.normal(6, 4)))
    early = net("Neg", "x")
    model = net.model({"x": ("n", 6)}, [deep, early], 17)
    engine = ge.GraphEngine(ge.OptimizeConfig(target="tiny"))
    engine.LoadModel(model)
    optimized = engine.OptimizeGraph()
    for n in (2, 3):
        x = RNG.standard_normal((n, 6)).astype(np.float32)
        # Whatever is computed first: outputs come in the order of the model.
        for got, want in zip(optimized(x), run(model, {"x": x}), strict=True):
            close(got, want, 1e-5)
    file = tmp_path / "m.onnx"
    engine.SaveOptimizedModel(file)
    for got, want in zip(run(onnx.load(file), {"x": x}), run(model, {"x": x}), strict=True):
        close(got, want, 1e-5)
    engine.SaveOptimizedModel(tmp_path / "m.o")
    assert ge.load(tmp_path / "m.o").program.inputs[0].shape == (3, 6)


def test_an_engine_that_has_not_run_saves_nothing(tmp_path: Path) -> None:
    net = Net(0)
    engine = ge.GraphEngine(ge.OptimizeConfig(target="tiny"))
    engine.LoadModel(net.model({"x": ("n", 6)}, [net("Relu", "x")], 17))
    for name in ("m.o", "m.onnx"):
        with pytest.raises(InputError, match="must have a concrete shape"):
            engine.SaveOptimizedModel(tmp_path / name)


def test_the_engine_runs_up_to_what_only_the_data_tell() -> None:
    net = Net(0)
    model = net.model({"x": (6, 7)}, [net("NonZero", "x")], 17)
    engine = ge.GraphEngine(ge.OptimizeConfig(target="tiny"))
    engine.LoadModel(model)
    x = np.maximum(RNG.standard_normal((6, 7)), 0).astype(np.float32)
    (want,) = run(model, {"x": x})
    close(engine.OptimizeGraph()(x=x), want)


def _positive(net: Net) -> Any:
    """Whether the sum of `x` is above zero."""
    return net("Greater", net("ReduceSum", "x", keepdims=0), np.float32(0))


def _limit(net: Net) -> Any:
    """A whole number from a large tensor."""
    return net("Cast", net("ReduceSum", net("Abs", "x"), keepdims=0), to=TensorProto.INT64)


def _range(net: Net) -> Any:
    """As long as durations are together: frames of speech."""
    places = net("Range", np.asarray(0), _limit(net), np.asarray(1))
    return net("Mul", net("Cast", places, to=TensorProto.FLOAT), np.float32(0.5))


def _slice(net: Net) -> Any:
    end = net("Unsqueeze", _limit(net), np.asarray([0]))
    flat = net("Reshape", "x", np.asarray([-1]))
    return net("Exp", net("Slice", flat, np.asarray([0]), end, np.asarray([0])))


def _branch(net: Net) -> Any:
    """Branches of different ranks."""
    graphs = {}
    for name, op, axes in (("then", "Unsqueeze", [[0]]), ("else", "Identity", [])):
        inner = Net(0)
        out = inner(op, "x", *(np.asarray(a) for a in axes))
        values = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in inner.weights.items()]
        ends = [onnx.ValueInfoProto(name=out)]
        graphs[f"{name}_branch"] = onnx.helper.make_graph(inner.nodes, name, [], ends, values)
    return net("Tanh", net("If", _positive(net), **graphs))


@pytest.mark.parametrize("build", [_range, _slice, _branch])
def test_a_value_from_the_data_decides_what_follows(build: Any) -> None:
    net = Net(0)
    model = net.model({"x": (10, 12)}, [build(net)], 17)
    x = (RNG.standard_normal((10, 12)) * 0.3).astype(np.float32)
    check(model, {"x": x}, {"x": -x}, {"x": x * np.float32(0.7)}, stages=2)


def test_dims_of_one_name_may_differ() -> None:
    net = Net(2)
    y = net("Mul", net("ReduceSum", "a", keepdims=0), "b")
    model = net.model({"a": ("n", "m"), "b": ("n", "m")}, [y], 17)
    given = {n: np.ones(s, np.float32) for n, s in (("a", (2, 5)), ("b", (3, 4)))}
    (got,) = SpecialisedModel(model, Options(target="tiny")).run(given).values()
    np.testing.assert_array_equal(got, np.full((3, 4), 10))
