"""Models of every opset in, out again, and equal in onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import helper, numpy_helper

from ge.dialects.diagnostics import InputError, UnsupportedError
from ge.dialects.graph.module import input_names, main_of, output_names
from ge.frontend.onnx_export import export_onnx, save_onnx
from ge.frontend.onnx_import import import_onnx
from tests.models import Net, convolutional, model, transformer
from tests.onnx_oracle import close, run

NEWEST = 23
OPSETS = (7, 11, 13, 17, NEWEST)


def check(proto: onnx.ModelProto, **shapes: tuple[int, ...]) -> Any:
    """Import, export, and compare on random inputs; returns the module."""
    module = import_onnx(proto, shapes)
    module.verify()
    rng = np.random.default_rng(1)
    arrays = {
        name: rng.standard_normal(arg.type.get_shape()).astype(np.float32)  # type: ignore[attr-defined]
        for name, arg in zip(
            input_names(main_of(module)), main_of(module).body.block.args, strict=True
        )
    }
    exported = export_onnx(module)
    onnx.checker.check_model(exported, full_check=True)
    for got, want in zip(run(exported, arrays), run(proto, arrays), strict=True):
        close(got, want, 1e-5)
    return module


def names_of(module: Any) -> list[str]:
    return [op.name for op in module.walk()]


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_transformer(opset: int) -> None:
    module = check(transformer(opset, batch="N"), x=(3, 5, 24))
    assert output_names(main_of(module)) == [transformer(opset).graph.output[0].name]
    assert "graph.gather" not in names_of(module), "shape arithmetic must be folded away"


@pytest.mark.parametrize("opset", OPSETS)
def test_convolutional(opset: int) -> None:
    check(convolutional(opset))


def pad(net: Net, opset: int) -> str:
    if opset < 11:
        return str(net("Pad", "x", pads=[0, 0, 1, 2, 0, 0, 0, 1], value=1.5))
    return str(net("Pad", "x", np.array([0, 0, 1, 2, 0, 0, 0, 1]), np.float32(1.5)))


def slice_(net: Net, opset: int) -> str:
    if opset < 10:
        return str(net("Slice", "x", starts=[1, -3], ends=[9, -1], axes=[1, 2]))
    return str(net("Slice", "x", *map(np.array, ([1, -1], [9, -9], [1, 2], [1, -2]))))


def top_k(net: Net, opset: int) -> str:
    if opset < 10:
        return str(net("TopK", "x", k=2, axis=2, outputs=2)[0])
    return str(net("TopK", "x", np.array([2]), axis=2, outputs=2)[0])


def reduce(net: Net, opset: int) -> str:
    if opset < 18:
        return str(net("ReduceMax", "x", axes=[1, -1], keepdims=0))
    return str(net("ReduceMax", "x", np.array([1, -1]), keepdims=0))


def squeeze(net: Net, opset: int) -> str:
    if opset < 13:
        return str(net("Squeeze", net("Unsqueeze", "x", axes=[0, 3]), axes=[0]))
    return str(net("Squeeze", net("Unsqueeze", "x", np.array([0, -1])), np.array([0])))


def split(net: Net, opset: int) -> str:
    if opset < 13:
        a, b = net("Split", "x", axis=1, split=[1, 2], outputs=2)
    else:
        a, b = net("Split", "x", np.array([1, 2]), axis=1, outputs=2)
    return str(net("Mul", a, b))


def upsample(net: Net, opset: int) -> str:
    scales = np.array([1, 1, 2, 1.5], np.float32)
    if opset < 9:
        return str(net("Upsample", "x", scales=scales.tolist(), mode="nearest"))
    if opset < 10:
        return str(net("Upsample", "x", scales, mode="nearest"))
    return str(net("Resize", "x", np.array([], np.float32), scales, mode="linear"))


def softmax(net: Net, opset: int) -> str:
    return str(net("Softmax", "x", axis=1))


def log_softmax(net: Net, opset: int) -> str:
    return str(net("LogSoftmax", "x"))


def dropout(net: Net, opset: int) -> str:
    return str(net("Dropout", "x", outputs=2)[0])


def n_ary(net: Net, opset: int) -> str:
    return str(
        net(
            "Sum",
            "x",
            net("Max", "x", "x", np.zeros((2, 3, 4, 5), np.float32)),
            net("Mean", "x", "x", "x"),
        )
    )


def averages(net: Net, opset: int) -> str:
    pooled = net("AveragePool", "x", kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_LOWER")
    w = net.normal(3, 2, 3, 3)
    return str(net("ConvTranspose", pooled, w, strides=[2, 2], output_shape=[6, 8]))


def shapes(net: Net, opset: int) -> str:
    filled = net("ConstantOfShape", net("Shape", "x"))
    return str(net("Add", "x", net("Expand", net("Cast", filled, to=1), net("Shape", "x"))))


CASES: list[Callable[[Net, int], str]] = [
    pad, slice_, top_k, reduce, squeeze, split, upsample,
    softmax, log_softmax, dropout, n_ary, averages, shapes,
]  # fmt: skip


# ConstantOfShape came with opset 9.
PAIRS = [(case, opset) for case in CASES for opset in OPSETS if case is not shapes or opset >= 9]


@pytest.mark.parametrize(("case", "opset"), PAIRS)
def test_operator_versions_mean_what_they_meant(
    case: Callable[[Net, int], str], opset: int
) -> None:
    net = Net()
    check(net.model({"x": (2, 3, 4, 5)}, [case(net, opset)], opset))


def test_function_bodies_are_used_where_there_is_no_operator() -> None:
    net = Net()
    x = net("MeanVarianceNormalization", "x", axes=[0, 2])
    y, mean = net("LayerNormalization", x, net.normal(5), outputs=2)
    check(net.model({"x": (2, 3, 5)}, [y, mean], 17))


def test_outputs_may_be_inputs_constants_and_repeated() -> None:
    nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["b"])]
    proto = model(nodes, {"x": (2,)}, ["a", "b"], {}, 17)
    assert len(main_of(check(proto)).body.block.args) == 1
    nodes = [helper.make_node("Identity", ["c"], ["y"])]
    check(model(nodes, {"x": (2,)}, ["y"], {"c": np.ones(3, np.float32)}, 17))


def test_every_operation_names_its_node() -> None:
    module = import_onnx(convolutional(17))
    sources = [op.source for op in main_of(module).body.block.ops if hasattr(op, "source")]
    assert all(sources)
    assert "Conv_0" in sources


def test_other_forms_of_a_model_are_taken(tmp_path: Path) -> None:
    proto = convolutional(13)
    onnx.save_model(proto, tmp_path / "m.onnx")
    text = str(import_onnx(proto))
    assert str(import_onnx(tmp_path / "m.onnx")) == text
    assert str(import_onnx(str(tmp_path / "m.onnx"))) == text
    assert str(import_onnx(onnx_ir.from_proto(proto))) == text


def test_external_data_is_read_and_kept_in_its_folder(tmp_path: Path) -> None:
    proto = convolutional(13)
    want = str(import_onnx(proto))
    file = tmp_path / "m.onnx"
    onnx.save_model(proto, file, save_as_external_data=True, location="m.data", size_threshold=0)
    assert str(import_onnx(file)) == want
    data = tmp_path / "m.data"
    data.write_bytes(data.read_bytes()[:-8])
    with pytest.raises(InputError, match=r"m\.onnx: error: 'm\.data' must have \d+ bytes for"):
        import_onnx(file)
    data.unlink()
    with pytest.raises(InputError, match=r"must be there, no file 'm\.data'"):
        import_onnx(file)
    outside = onnx.load(file, load_external_data=False)
    outside.graph.initializer[0].external_data[0].value = "../m.data"
    onnx.save_model(outside, tmp_path / "n.onnx")
    with pytest.raises(InputError, match=r"must lie in the model's folder, got '\.\./m\.data'"):
        import_onnx(tmp_path / "n.onnx")


def test_saved_models_run(tmp_path: Path) -> None:
    module = import_onnx(convolutional(13))
    save_onnx(module, tmp_path / "out.onnx")
    assert (
        onnx.load(tmp_path / "out.onnx").SerializeToString()
        == export_onnx(module).SerializeToString()
    )


@pytest.mark.parametrize("content", [b"", b"not a model at all", b"\x08\x07\x12\xff"])
def test_what_is_no_model_is_said_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.onnx").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.onnx: error: must be an ONNX model") as e:
        import_onnx(tmp_path / "x.onnx")
    assert "\n" not in str(e.value)
    with pytest.raises(InputError, match="must be a readable file, No such file"):
        import_onnx(tmp_path / "none.onnx")


def test_open_dims_are_named() -> None:
    proto = transformer(13, batch="N")
    with pytest.raises(InputError, match=r"got \[N, 5, 24\] with 'N' open; give --shape x:1,5,24"):
        import_onnx(proto)
    with pytest.raises(InputError, match=r"for 'X', the model has 'x'|did you mean 'x'"):
        import_onnx(proto, {"X": (1, 5, 24)})
    with pytest.raises(InputError, match=r"must fit \[N, 5, 24\], got \[1, 6, 24\]"):
        import_onnx(proto, {"x": (1, 6, 24)})


def test_all_that_is_unsupported_is_said_at_once() -> None:
    net = Net()
    a = net("Softplus", net("RandomNormalLike", "x"))
    b = net("Dropout", "x", np.float32(0.5), np.array(True))
    c = net("RandomNormalLike", "x")
    with pytest.raises(UnsupportedError) as e:
        import_onnx(net.model({"x": (2, 3)}, [a, b, c], 18))
    assert e.value.status == 4
    assert str(e.value).splitlines() == [
        "model: error: 3 nodes must be of supported operators, got RandomNormalLike, Dropout",
        "  2 x RandomNormalLike-18, first 'RandomNormalLike_0': no such operator here",
        "  1 x Dropout-18, first 'Dropout_2': 'training_mode' must be false, or the ratio 0; "
        "works: inference",
    ]


def test_a_shape_that_is_only_known_at_run_time_is_said() -> None:
    proto = model(
        [helper.make_node("Reshape", ["x", "s"], ["y"], "r")], {"x": (2, 3), "s": (1,)}, [], {}, 17
    )
    proto.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.INT64
    proto.graph.output.append(onnx.ValueInfoProto(name="y"))
    with pytest.raises(UnsupportedError, match="'shape' must be known when compiling"):
        import_onnx(proto)


def test_operands_that_do_not_fit_name_the_node() -> None:
    proto = model([helper.make_node("Add", ["x", "w"], ["y"], "sum")], {"x": (2, 3)}, [], {}, 17)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "w"))
    proto.graph.output.append(onnx.ValueInfoProto(name="y"))
    with pytest.raises(InputError, match=r"node 'sum' \(Add\): graph.add: operands must broadcast"):
        import_onnx(proto)
