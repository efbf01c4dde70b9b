"""Graphs whose shape is the difficulty: what is returned, who else reads, which order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import ge
from ge.lowering.pipelines import Options
from tests.compiled import check
from tests.kernels import random_images as random_images  # registers its families
from tests.kernels.random_models import FAMILIES, RandomNet
from tests.models import Net

TINY = Options(target="tiny")
GRAPHS: dict[str, Callable[[Net], onnx.ModelProto]] = {}


def graph(make: Callable[[Net], onnx.ModelProto]) -> Callable[[Net], onnx.ModelProto]:
    GRAPHS[make.__name__] = make
    return make


def same(net: Net, kind: str = "Identity", value: str = "x") -> str:
    return str(net(kind, value))


# What is returned


@graph
def an_input_is_an_output(net: Net) -> onnx.ModelProto:
    return net.model({"x": (3, 5)}, [same(net), same(net, "Relu")], 17)


@graph
def a_view_is_an_output(net: Net) -> onnx.ModelProto:
    relu = same(net, "Relu")
    turned = net("Transpose", relu, perm=[1, 0])
    part = net("Slice", relu, np.array([1]), np.array([3]), np.array([1]))
    return net.model({"x": (3, 5)}, [turned, part, relu], 17)


@graph
def indices_lie_behind_others(net: Net) -> onnx.ModelProto:
    """The second row of a list of edges: halves of long integers, not at the beginning."""
    kinds = {"x": TensorProto.FLOAT, "edges": TensorProto.INT64}
    ends = net("Gather", "edges", np.array(1), axis=0)
    wide = net("Expand", net("Unsqueeze", ends, np.array([1])), np.array([9, 5]))
    empty = net.constant(np.zeros((9, 5), np.float32))
    sums = net("ScatterElements", empty, wide, "x", axis=0, reduction="add")
    tuples = net("Unsqueeze", ends, np.array([1]))
    return net.model(
        {"x": (9, 5), "edges": (2, 9)}, [sums, net("GatherND", "x", tuples)], 18, kinds
    )


@graph
def a_constant_is_an_output(net: Net) -> onnx.ModelProto:
    known = net("Relu", net.normal(4, 7))
    return net.model({"x": (3, 5)}, [known, same(net, "Abs")], 17)


@graph
def a_value_is_two_outputs(net: Net) -> onnx.ModelProto:
    relu = same(net, "Relu")
    again = same(net, "Identity", relu)
    return net.model({"x": (3, 5)}, [relu, again, net("Reshape", relu, np.array([15]))], 17)


@graph
def an_input_is_not_read(net: Net) -> onnx.ModelProto:
    return net.model({"x": (3, 5), "y": (7,)}, [same(net, "Relu")], 17)


@graph
def tensors_without_axes(net: Net) -> onnx.ModelProto:
    total = net("ReduceSum", net("Mul", "x", "y"), keepdims=0)
    return net.model({"x": (), "y": (3, 5)}, [net("Add", total, "x"), net("Exp", "x")], 17)


@graph
def all_elements_of_size_one(net: Net) -> onnx.ModelProto:
    product = net("MatMul", "x", net("Transpose", "x", perm=[0, 2, 1]))
    return net.model({"x": (1, 1, 1)}, [net("Softmax", net("Add", product, "x"))], 17)


@graph
def an_empty_part_is_left_out(net: Net) -> onnx.ModelProto:
    nothing = net("Slice", "x", np.array([2]), np.array([2]), np.array([0]))
    return net.model({"x": (3, 5)}, [net("Concat", nothing, same(net, "Relu"), axis=0)], 17)


# Who else reads


@graph
def a_residual_has_many_readers(net: Net) -> onnx.ModelProto:
    first = net("MatMul", "x", net.normal(24, 24, scale=0.2))
    second = net("Add", net("MatMul", net("Relu", first), net.normal(24, 24, scale=0.2)), first)
    third = net("Add", net("LayerNormalization", second, net.normal(24)), second)
    return net.model({"x": (2, 9, 24)}, [net("Add", third, first), second], 17)


@graph
def a_normalised_value_is_read_twice(net: Net) -> onnx.ModelProto:
    total = net("Add", "x", "y")
    norm = net("LayerNormalization", total, net.normal(17), net.normal(17))
    return net.model({"x": (9, 17), "y": (9, 17)}, [net("Add", norm, total), norm], 17)


@graph
def softmax_and_its_scores_are_read(net: Net) -> onnx.ModelProto:
    scores = net("MatMul", "q", "k")
    value = net("MatMul", net("Softmax", scores), "v")
    shapes = {"q": (2, 9, 16), "k": (2, 16, 11), "v": (2, 11, 8)}
    return net.model(shapes, [value, scores], 17)


@graph
def both_sides_of_a_product_are_the_same(net: Net) -> onnx.ModelProto:
    return net.model({"x": (17, 17)}, [net("MatMul", "x", "x")], 17)


# Which order


def _conv(net: Net, x: str = "x", channels: int = 6) -> str:
    weights = net.normal(channels, channels, 3, 3, scale=0.3)
    return str(net("Conv", x, weights, net.normal(channels), pads=[1, 1, 1, 1]))


def _batch_norm(net: Net, x: str, channels: int = 6) -> str:
    numbers = [net.normal(channels) for _ in range(3)]
    return str(net("BatchNormalization", x, *numbers, np.abs(net.normal(channels)) + 0.5))


@graph
def relu_stands_before_batch_norm(net: Net) -> onnx.ModelProto:
    return net.model({"x": (1, 6, 7, 9)}, [_batch_norm(net, net("Relu", _conv(net)))], 17)


@graph
def two_batch_norms_read_a_convolution(net: Net) -> onnx.ModelProto:
    conv = _conv(net)
    return net.model({"x": (1, 6, 7, 9)}, [_batch_norm(net, conv), _batch_norm(net, conv)], 17)


@graph
def differences_keep_their_order(net: Net) -> onnx.ModelProto:
    product = net("MatMul", "x", net.normal(13, 13))
    forth, back = net("Sub", product, "x"), net("Sub", "x", net("MatMul", "x", net.normal(13, 13)))
    norm = net("LayerNormalization", "x", net.normal(13))
    outs = [forth, back, net("Sub", "x", norm), net("Div", net("Abs", "x"), net("Exp", "x"))]
    return net.model({"x": (9, 13)}, outs, 17)


@graph
def an_input_is_added_five_times(net: Net) -> onnx.ModelProto:
    value = net("MatMul", "x", net.normal(13, 13))
    for _ in range(5):
        value = net("Add", value, "x")
    return net.model({"x": (13, 13)}, [value], 17)


@graph
def a_value_is_added_to_itself(net: Net) -> onnx.ModelProto:
    relu = net("Relu", net("MatMul", "x", net.normal(13, 13)))
    return net.model({"x": (9, 13)}, [net("Add", relu, relu), net("Mul", "x", "x")], 17)


# Element types


def _all(kind: int, shapes: dict[str, Any]) -> dict[str, int]:
    return dict.fromkeys(shapes, kind)


@graph
def integers_are_exact(net: Net) -> onnx.ModelProto:
    shapes = {"x": (5, 1, 7), "y": (3, 7)}
    large = net("Mul", net("Add", "x", "y"), np.int32(3_000_001))
    outs = [large, net("Sub", "y", "x"), net("Max", "x", "y"), net("Abs", net("Neg", "x"))]
    outs.append(net("ReduceSum", large, np.array([0, 2]), keepdims=0))
    return net.model(shapes, outs, 17, _all(TensorProto.INT32, shapes))


@graph
def truth_is_computed(net: Net) -> onnx.ModelProto:
    shapes = {"p": (5, 1), "q": (1, 7)}
    both = net("And", "p", "q")
    outs = [both, net("Not", net("Or", "p", "q")), net("Xor", both, "q")]
    chosen = net("Where", net("Not", both), net.normal(5, 7), net.normal(7))
    return net.model(shapes, [*outs, chosen], 17, _all(TensorProto.BOOL, shapes))


@graph
def types_change_inside_a_chain(net: Net) -> onnx.ModelProto:
    half = net("Cast", "x", to=TensorProto.FLOAT16)
    whole = net("Cast", net("Mul", half, np.float16(3)), to=TensorProto.INT32)
    truth = net("Greater", "x", np.float32(0))
    outs = [half, whole, net("Cast", whole, to=TensorProto.FLOAT)]
    outs += [net("Cast", truth, to=TensorProto.FLOAT), net("Cast", "x", to=TensorProto.BOOL)]
    return net.model({"x": (5, 7)}, outs, 17)


@pytest.mark.parametrize("name", GRAPHS)
def test_graph(name: str) -> None:
    check(GRAPHS[name](Net(3)), TINY)


SWITCHES = {
    "no_fuse": Options(target="tiny", fuse=False),
    "no_pipeline": Options(target="tiny", pipeline=False),
    "no_memory_reuse": Options(target="tiny", memory_reuse=False),
    "no_native": Options(target="tiny", native=False),
    "eager": Options(target="tiny").eager(),
    "one_core": Options(target="tiny", cores=1),
}
SWITCHED = ("matmul", "conv_norm_add", "layer_norm", "attention", "views", "elementwise")


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("name", SWITCHED)
def test_switches_keep_the_numbers(name: str, switch: str) -> None:
    check(FAMILIES[name](RandomNet(5, TensorProto.FLOAT)), SWITCHES[switch])


@pytest.mark.parametrize("switch", SWITCHES)
def test_switches_keep_the_numbers_of_a_graph(switch: str) -> None:
    check(GRAPHS["a_residual_has_many_readers"](Net(3)), SWITCHES[switch])


@graph
def what_has_no_elements(net: Net) -> onnx.ModelProto:
    nothing = net("Slice", "x", np.array([2]), np.array([2]), np.array([0]))
    outputs = [nothing, net("ReduceSum", nothing, keepdims=0), net("Relu", "x")]
    return net.model({"x": (3, 5)}, outputs, 17)


@graph
def powers_are_known(net: Net) -> onnx.ModelProto:
    powers = [0.0, 1.0, -1.0, 2.0, 8.0, 9.0, -9.0, 16.0, 17.0]
    outs = [net("Pow", "x", np.float32(p)) for p in powers]
    outs += [net("Pow", net("Abs", "x"), np.float32(p)) for p in (0.5, -0.5, 2.5)]
    whole = net("Cast", "x", to=TensorProto.INT32)
    outs += [net("Pow", whole, np.int32(p)) for p in (0, 2, 9)]
    return net.model({"x": (5, 7)}, outs, 17)


@graph
def places_to_write_at_are_all_known(net: Net) -> onnx.ModelProto:
    outs = [
        net("ScatterND", "x", np.array([[-1]]), net.normal(1, 5)),
        net("ScatterElements", "x", np.array([[0] * 5]), net.normal(1, 5), axis=0),
        net("Gather", "x", np.array([-2])),
    ]
    return net.model({"x": (3, 5)}, outs, 17)


NUMBERS = {
    "less": ("i32", "i1", 7 < 2),
    "max": ("i32", "i32", 7),
    "div": ("i32", "i32", 3),
    "mod": ("i32", "i32", 1),
    "and": ("i1", "i1", 0),
    "or": ("i1", "i1", 1),
    "xor": ("i1", "i1", 1),
}
"""What a kernel computes of 7 and 2, or of true and false: types in and out, and the result."""


@pytest.mark.parametrize("op", NUMBERS)
def test_what_a_kernel_computes_of_numbers_is_a_number(op: str, tmp_path: Path) -> None:
    given, made, wanted = NUMBERS[op]
    numbers = np.array([7, 2], np.int32) if given == "i32" else np.array([True, False])
    a, b = (f'graph.constant <"0x{n.tobytes().hex()}"> : tensor<1x{given}>' for n in numbers)
    path = tmp_path / "m.mlir"
    path.write_text(f"""
func.func @main(%x: tensor<5x1xi32>) -> tensor<5x1xi32> {{
  %y = fused.rowwise "Add"(%x) attributes {{sources = ["a"]}} {{
  ^bb0(%v: tensor<5x1xi32>):
    %a = {a}
    %b = {b}
    %c = graph.{op} %a, %b : (tensor<1x{given}>, tensor<1x{given}>) -> tensor<1x{made}>
    %d = graph.cast %c {{to = i32}} : (tensor<1x{made}>) -> tensor<1xi32>
    %e = graph.add %v, %d : (tensor<5x1xi32>, tensor<1xi32>) -> tensor<5x1xi32>
    fused.yield %e : tensor<5x1xi32>
  }} : (tensor<5x1xi32>) -> tensor<5x1xi32>
  func.return %y : tensor<5x1xi32>
}}
""")
    (y,) = ge.compile(path, target="tiny").run({"in0": np.zeros((5, 1), np.int32)}).values()
    assert (y == wanted).all()


@pytest.mark.parametrize("length", [127, 128, 160, 192, 223, 300, 500])
@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceSum", "Softmax", "LayerNormalization"])
def test_long_rows_are_folded_before_they_are_reduced(kind: str, length: int) -> None:
    net = Net()
    if kind == "LayerNormalization":
        y = net(kind, "x", net.normal(length), net.normal(length))
    elif kind == "ReduceSum":
        y = net(kind, "x", np.array([1]))
    else:
        y = net(kind, "x", **({"axes": [1]} if kind == "ReduceMax" else {"axis": 1}))
    check(net.model({"x": (5, length)}, [y], 17), TINY)
