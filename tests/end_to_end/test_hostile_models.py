"""Models that are valid and odd: enormous, very long, or with names that no file may have."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from ge.tools import ge_as, ge_objdump
from ge.tools.ge_compile import main
from ge.tools.ge_run import main as run

FLOAT = onnx.TensorProto.FLOAT


def _save(
    path: Path,
    nodes: list[onnx.NodeProto],
    x: tuple[str, list[int]],
    y: str,
    weights: dict[str, np.ndarray] | None = None,
) -> None:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(x[0], FLOAT, x[1])],
        [helper.make_tensor_value_info(y, FLOAT, None)],
        [numpy_helper.from_array(a, name) for name, a in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


N = np.int64
HUGE = {
    "input": ([helper.make_node("Relu", ["x"], ["y"])], [1 << 40, 1 << 20], {}),
    "input of fitting bytes": ([helper.make_node("Relu", ["x"], ["y"])], [1 << 20, 1 << 13], {}),
    "expansion": (
        [helper.make_node("Expand", ["x", "s"], ["y"])],
        [1],
        {"s": np.array([1 << 40], N)},
    ),
    "sum of an expansion": (
        [
            helper.make_node("Expand", ["x", "s"], ["e"]),
            helper.make_node("ReduceSum", ["e"], ["y"]),
        ],
        [1],
        {"s": np.array([1 << 40], N)},
    ),
    "constant": (
        [
            helper.make_node("ConstantOfShape", ["s"], ["c"]),
            helper.make_node("Add", ["x", "c"], ["y"]),
        ],
        [1],
        {"s": np.array([1 << 36], N)},
    ),
    "range": (
        [
            helper.make_node("Range", ["a", "b", "c"], ["r"]),
            helper.make_node("Cast", ["r"], ["f"], to=FLOAT),
            helper.make_node("Add", ["x", "f"], ["y"]),
        ],
        [1],
        {"a": np.array(0, N), "b": np.array(1 << 40, N), "c": np.array(1, N)},
    ),
    "padding": (
        [helper.make_node("Pad", ["x", "p"], ["y"])],
        [2],
        {"p": np.array([1 << 40, 0], N)},
    ),
    "tile": ([helper.make_node("Tile", ["x", "p"], ["y"])], [2], {"p": np.array([1 << 40], N)}),
}


@pytest.mark.parametrize("what", HUGE)
def test_sizes_that_no_machine_has_get_a_message(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes, shape, weights = HUGE[what]
    path = tmp_path / "huge.onnx"
    _save(path, nodes, ("x", shape), "y", weights)
    start = time.process_time()
    assert main([str(path), "--target", "tiny"]) in (3, 4, 5)
    assert time.process_time() - start < 10
    assert "error: " in capsys.readouterr().err.partition("\n")[0]


def test_what_is_too_large_is_said_of_its_own_node(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "huge.onnx"
    _save(path, *HUGE["range"][:1], ("x", [1]), "y", HUGE["range"][2])
    assert main([str(path), "--target", "tiny"]) == 4
    err = capsys.readouterr().err
    assert "x Range-17, first 'r': a constant must have at most 268435456 elements" in err


def test_shapes_have_a_most_of_dimensions(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "deep.onnx"
    _save(path, [helper.make_node("Relu", ["x"], ["y"])], ("x", [1] * 33), "y")
    assert main([str(path), "--target", "tiny"]) == 4
    assert "at most 32 dimensions" in capsys.readouterr().err


ODD: dict[str, tuple[list[onnx.NodeProto], dict[str, Any], str]] = {
    "range of steps of 0": (
        [
            helper.make_node("Range", ["a", "b", "c"], ["r"]),
            helper.make_node("Cast", ["r"], ["y"], to=1),
        ],
        {"a": np.array(0, N), "b": np.array(5, N), "c": np.array(0, N)},
        "a range must end",
    ),
    "endless range": (
        [helper.make_node("Range", ["a", "b", "c"], ["y"])],
        {n: np.array(v, np.float32) for n, v in (("a", 0), ("b", np.inf), ("c", 1))},
        "a range must end",
    ),
    "resize to nothing": (
        [helper.make_node("Resize", ["x", "", "s"], ["y"])],
        {"s": np.array([1, np.nan], np.float32)},
        "'scales' must be positive",
    ),
    "resize to too much": (
        [helper.make_node("Resize", ["x", "", "s"], ["y"])],
        {"s": np.array([1e7, 1e7], np.float32)},
        "Resize",
    ),
    "parts of less than nothing": (
        [helper.make_node("Split", ["x", "s"], ["y", "z"], axis=1)],
        {"s": np.array([9, -5], N)},
        "'split' must add up to 4",
    ),
    "constant of less than nothing": (
        [helper.make_node("ConstantOfShape", ["s"], ["y"])],
        {"s": np.array([-5], N)},
        "dims must be 0 or more",
    ),
    "places that are not there": (
        [helper.make_node("Gather", ["x", "s"], ["y"])],
        {"s": np.array([2], N)},
        "indices must be in [-2, 1], got 2",
    ),
    "numbers that are words": (
        [helper.make_node("Flatten", ["x"], ["y"], axis="one")],
        {},
        "the attribute 'axis' must be INT, got STRING",
    ),
    "a tensor of no type": (
        [helper.make_node("Constant", [], ["y"], value=onnx.TensorProto(dims=[2]))],
        {},
        "the attribute 'value' must be readable",
    ),
    "no type to cast to": (
        [helper.make_node("Cast", ["x"], ["y"])],
        {},
        "needs the attribute 'to'",
    ),
    "too few sizes": (
        [helper.make_node("Resize", ["x", "", "", "s"], ["y"])],
        {"s": np.array([4], N)},
        "must have a size for each of 2 axes",
    ),
    "a loop without a body": (
        [helper.make_node("Loop", ["n", "", "x"], ["y"])],
        {},
        "needs the attribute",
    ),
    "a choice without branches": (
        [helper.make_node("If", ["n"], ["y"])],
        {},
        "needs the attribute",
    ),
    "a scan of nothing": ([helper.make_node("Scan", ["x"], ["y"])], {}, "needs the attribute"),
    "a body that takes other values": (
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=helper.make_graph([], "b", [], []))],
        {},
        "Loop",
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_odd_nodes_get_a_message(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes, weights, message = ODD[what]
    path = tmp_path / "odd.onnx"
    _save(path, nodes, ("x", [2, 4]), "y", {"n": np.array(40, N), **weights})
    assert main([str(path), "--target", "tiny"]) in (3, 4)
    assert message in capsys.readouterr().err.partition("\n")[0]


def _functions(calls: dict[str, list[str]]) -> onnx.ModelProto:
    """A model that calls `f0`, of functions that call others one after the other."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = []
    for name, inner in calls.items():
        nodes = [
            helper.make_node(
                called, [f"v{i}"], [f"v{i + 1}"], domain="own" if called in calls else ""
            )
            for i, called in enumerate(inner)
        ]
        last = [f"v{len(inner)}"]
        functions.append(helper.make_function("own", name, ["v0"], last, nodes, opsets))
    x, y = (helper.make_tensor_value_info(n, FLOAT, [4]) for n in "xy")
    call = helper.make_node("f0", ["x"], ["y"], domain="own")
    graph = helper.make_graph([call], "g", [x], [y])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions)


@pytest.mark.parametrize(
    ("calls", "status", "message"),
    [
        ({"f0": ["f0"]}, 3, "functions must call each other 64 deep at most, and never themselves"),
        ({"f0": ["Relu", "f1"], "f1": ["f0"]}, 3, "never themselves, got 'f0'"),
        (
            {**{f"f{i}": [f"f{i + 1}"] * 4 for i in range(12)}, "f12": ["Relu"]},
            4,
            "functions must come to at most 262144 nodes, got 16777216",
        ),
    ],
    ids=["itself", "each other", "very many"],
)
def test_functions_that_come_to_too_much_get_a_message(
    calls: dict[str, list[str]], status: int, message: str, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "functions.onnx"
    onnx.save(_functions(calls), path)
    assert main([str(path), "--target", "tiny"]) == status
    assert message in capsys.readouterr().err.partition("\n")[0]


def test_a_long_chain_becomes_several_kernels(tmp_path: Path) -> None:
    path, n = tmp_path / "long.onnx", 400
    nodes = [
        helper.make_node("Relu" if i % 2 else "Neg", [f"t{i}"], [f"t{i + 1}"]) for i in range(n)
    ]
    _save(path, nodes, ("t0", [3]), f"t{n}")
    start = time.process_time()
    assert main([str(path), "--target", "tiny"]) == 0
    assert time.process_time() - start < 10


NAMES = ["a/../b", "../../up", "/x/y", 'q"\n\\;', "名前\u2028é", "\0", "..", " ", "%s", "-"]


@pytest.mark.parametrize("name", NAMES)
def test_names_stay_names(name: str, tmp_path: Path) -> None:
    """Through every text, and no output leaves its folder."""
    inside = tmp_path / "inside"
    inside.mkdir()
    path = inside / "m.onnx"
    node = helper.make_node("Relu", [f"{name}in"], [name], name=name)
    _save(path, [node], (f"{name}in", [3]), name)
    assert main([str(path), "--target", "tiny", "-o", str(inside / "m.o")]) == 0
    for level in ("graph", "fused", "npu"):
        text = inside / f"{level}.mlir"
        assert main([str(path), "--target", "tiny", "--emit", level, "-o", str(text)]) == 0
        assert main([str(text), "--target", "tiny", "-o", str(inside / f"{level}.o")]) == 0
        assert (inside / f"{level}.o").read_bytes() == (inside / "m.o").read_bytes()
    out = inside / "out"
    assert run([str(inside / "m.o"), "--output-dir", str(out)]) == 0
    assert len(list(out.iterdir())) == 1
    assert list(tmp_path.iterdir()) == [inside]


def test_no_output_overwrites_an_input_or_another_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _save(Path("m.onnx"), [helper.make_node("Relu", ["x"], ["y"])], ("x", [3]), "y")
    assert main(["m.onnx", "--target", "tiny"]) == 0
    assert main(["m.onnx", "--target", "tiny", "--emit", "asm", "-o", "m.s"]) == 0
    before = {path: path.read_bytes() for path in Path().iterdir()}
    for tool, words in [
        (main, ["m.onnx", "-o", "m.onnx"]),
        (main, ["m.onnx", "-o", "n.o", "--weights", "./n.o"]),
        (main, ["m.onnx", "-o", "n.o", "--report", "m.onnx"]),
        (ge_as.main, ["m.s", "-o", "m.s"]),
        (ge_objdump.main, ["m.o", "-d", "-o", "m.o"]),
        (run, ["m.o", "--stats", "m.o"]),
        (run, ["m.o", "--stats", "s.json", "--trace", "s.json"]),
    ]:
        assert tool(words) == 3
        assert "must be a file of its own, is also" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.parametrize("words", [["--weights", "."], ["--shape", f"x:{10**20}"]])
def test_odd_arguments_get_a_message(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _save(Path("m.onnx"), [helper.make_node("Relu", ["x"], ["y"])], ("x", [3]), "y")
    assert main(["m.onnx", "--target", "tiny", *words]) == 3
