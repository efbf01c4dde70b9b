"""The ge-compile tool: statuses, messages, and what it writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from examples.models import Net
from ge.tools import ge_opt, ge_run
from ge.tools.ge_compile import main

TINY = ["--target", "tiny"]


def save(net: Net, path: Path, inputs: dict[str, Any], output: str) -> Path:
    onnx.save(net.model(inputs, [output], 17), path)
    return path


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    net = Net()
    return save(net, tmp_path / "relu.onnx", {"x": ("batch", 8)}, net("Relu", "x"))


@pytest.fixture
def closed(relu: Path) -> list[str]:
    """The arguments that compile the model `relu`."""
    return [str(relu), *TINY, "--shape", "x:4,8"]


def test_a_model_becomes_an_object_beside_it_with_a_report(
    closed: list[str], relu: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = relu.with_name("report.json")
    assert main([*closed, "--report", str(report), "--ablation"]) == 0
    assert relu.with_suffix(".o").read_bytes()[:4] == b"\x7fELF"
    document = json.loads(report.read_text())
    assert (document["target"], document["launches"]) == ("tiny", 1)
    assert document["kernels"][0]["source_ops"] == ["Relu_0"]
    assert set(document["fusion"]) == {"hits", "misses"}
    assert document["passes"][0]["name"] == "read"
    assert document["ai_cpu"] == []
    assert document["ablation"]["stages"][0]["name"] == "eager"
    shown = capsys.readouterr().out
    assert shown.startswith("compiled from level 'graph' in")
    assert "+memory reuse" in shown


def test_the_object_runs(closed: list[str], relu: Path, tmp_path: Path) -> None:
    assert main(closed) == 0
    x = np.arange(-16, 16, dtype=np.float32).reshape(4, 8)
    np.save(tmp_path / "x.npy", x)
    given = ["--input", f"x={tmp_path / 'x.npy'}", "--output-dir", str(tmp_path / "out")]
    assert ge_run.main([str(relu.with_suffix(".o")), *given, "--check-hazards"]) == 0
    (output,) = (tmp_path / "out").iterdir()
    np.testing.assert_array_equal(np.load(output), np.maximum(x, 0))


def test_reports_keep_out_of_the_way_of_text(
    closed: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = ["--report", str(tmp_path / "r.json")]
    assert main([*closed, "--emit", "graph", *report]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("builtin.module")
    assert "compiled from" not in out
    assert "compiled from" in err


def test_a_value_makes_an_input_a_constant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = Net()
    made = net.model({"x": (4, 6)}, [net("Reshape", "x", "shape")], 17)
    made.graph.input.append(onnx.helper.make_tensor_value_info("shape", 7, [2]))
    onnx.save(made, tmp_path / "m.onnx")
    how = [str(tmp_path / "m.onnx"), *TINY, "--emit", "graph"]
    assert main([*how, "--value", "shape:3,8"]) == 0
    assert "@main(%x: tensor<4x6xf32>) -> tensor<3x8xf32>" in capsys.readouterr().out
    assert main([*how, "--value", "shap:3,8"]) == 3
    assert "got one for 'shap'; did you mean 'shape'?" in capsys.readouterr().err


def test_all_unsupported_operators_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net, path = Net(), tmp_path / "m.onnx"
    made = net.model({"x": (2, 2)}, [net("Relu", net("Abs", net("Relu", "x")))], 17)
    for node in made.graph.node:
        node.domain = "ours"
    onnx.save(made, path)
    assert main([str(path), *TINY]) == 4
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == f"{path}: error: 3 nodes must be of supported operators, got Relu, Abs"
    assert [line.split(",")[0] for line in rest] == ["  2 x ours.Relu-0", "  1 x ours.Abs-0"]


def test_what_is_too_large_for_the_machine_does_not_fit(
    relu: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(relu), *TINY, "--shape", "x:100000000,8"]) == 5
    assert "error: " in capsys.readouterr().err


MISTAKES: list[tuple[Callable[[Path], list[str]], str]] = [
    (lambda relu: [str(relu)], "'batch' open; give --shape x:1,8"),
    (lambda relu: [str(relu), "--shape", "X:4,8"], "got one for 'X'"),
    (lambda relu: [str(relu), "--shape", "x:4,9"], "must fit [batch, 8], got [4, 9]"),
    (lambda relu: [str(relu), *["--shape", "x:4,8"] * 2], "'x' must be given once"),
    (lambda relu: [str(relu.with_name("no.onnx"))], "no.onnx: error: must be a readable file"),
    (lambda relu: [str(relu.with_name("no.mlir"))], "no.mlir: error: must be a readable file"),
    (lambda relu: [str(relu), "--target", "tony"], "unknown target 'tony'; did you mean 'tiny'?"),
    (lambda relu: [str(relu), *TINY, "--cores", "3"], "cores must be 1 to 2 of target 'tiny'"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes_are_named(
    relu: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: Callable[[Path], list[str]],
    message: str,
) -> None:
    assert main(arguments(relu)) == 3
    assert message in capsys.readouterr().err


def test_files_that_are_no_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, status, message in (
        ("broken.onnx", 3, "must be an ONNX model"),
        ("broken.mlir", 3, "broken.mlir:1:1: error: "),
        ("model.pt", 3 if find_spec("torch") else 4, "Torch"),
    ):
        (tmp_path / name).write_bytes(b"\x08 not a model")
        assert main([str(tmp_path / name)]) == status
        assert message in capsys.readouterr().err


HEAD = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
KERNEL = """%a = fused.elementwise "Relu"(%x) attributes {sources = ["r"]} {
  ^bb0(%1: tensor<4xf32>):
    %2 = graph.relu %1 : (tensor<4xf32>) -> tensor<4xf32>
    fused.yield %2 : tensor<4xf32>
} : (tensor<4xf32>) -> tensor<4xf32>
"""
RELU = "%b = graph.relu %a : (tensor<4xf32>) -> tensor<4xf32>\n"
TEXTS = [
    (
        HEAD + KERNEL + RELU + "func.return %b : tensor<4xf32>\n}",
        ":7:1: error: a model of level 'fused' must not hold 'graph.relu'",
    ),
    (
        "func.func @main(%x: f32) -> f32 {\nfunc.return %x : f32\n}",
        ":1:1: error: inputs and outputs must be tensors of concrete shapes, got f32",
    ),
    (
        HEAD
        + '%c = graph.constant <"abcd", 16> : tensor<4xf32>\nfunc.return %c : tensor<4xf32>\n}',
        ": error: a digest must be 32 hexadecimal digits",
    ),
    ('"test.op"() : () -> ()', ": error: a module must have a function 'main' with a body"),
]


@pytest.mark.parametrize(("text", "message"), TEXTS)
def test_texts_that_are_no_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(text)
    assert main([str(path), *TINY]) == 3
    assert message in capsys.readouterr().err


def test_loops_are_scheduled_wholly_or_not_at_all(
    closed: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fused, half = tmp_path / "fused.mlir", tmp_path / "half.mlir"
    assert main([*closed, "--emit", "fused", "-o", str(fused)]) == 0
    passes = ["-p", "fused-to-npu,choose-copies"]
    assert ge_opt.main([str(fused), *TINY, *passes, "-o", str(half)]) == 0
    assert main([str(half), *TINY]) == 3
    assert "kernels must be scheduled wholly or not at all" in capsys.readouterr().err


@pytest.mark.parametrize("emit", ["graph", "fused", "npu", "asm", "obj"])
def test_outputs_that_cannot_be_written(
    closed: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], emit: str
) -> None:
    out = tmp_path / "no" / "such"
    assert main([*closed, "--emit", emit, "-o", str(out)]) == 3
    assert f"{out}: error: must be writable" in capsys.readouterr().err


def test_a_text_goes_down_and_to_its_own_machine_only(
    closed: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "m.mlir"
    assert main([*closed, "--emit", "npu", "-o", str(text)]) == 0
    for arguments, message in (
        (["--emit", "fused", *TINY], "must be asked for at that level or below, got 'fused'"),
        ([], "the text is for 2 cores of 'tiny'"),
        (["--ablation", *TINY], "an ablation must begin with a model of level 'graph'"),
        (["--shape", "x:4,8", *TINY], "a shape must be for an ONNX model, got one"),
    ):
        assert main([str(text), *arguments]) == 3
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["--shape", "x"], ["--shape", "x:a"], ["--value", "x:1,b"], ["--cores", "0"], ["--emit", "o"],
     ["--precision", "fp8"], []],
)  # fmt: skip
def test_arguments_that_do_not_parse(relu: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as e:
        main([str(relu), *arguments] if arguments else [])
    assert e.value.code == 2


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as e:
        main(["--help"])
    assert e.value.code == 0
    assert "ge-compile model.onnx --shape x:1,3,224,224" in capsys.readouterr().out


def test_scalar_inputs_have_empty_shapes(tmp_path: Path) -> None:
    net = Net()
    path = save(net, tmp_path / "m.onnx", {"x": ()}, net("Add", "x", np.float32(1)))
    assert main([str(path), *TINY, "--shape", "x:"]) == 0
