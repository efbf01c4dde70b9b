"""The README's tour works as it is written."""

import importlib
import re
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.repository.files import ROOT

README = (ROOT / "README.md").read_text("utf-8")
TOOLS = ("ge-compile", "ge-opt", "ge-as", "ge-objdump", "ge-run")
COMMANDS = [line for line in README.splitlines() if line.startswith(tuple(f"{t} " for t in TOOLS))]
SHAPE = (1, 3, 224, 224)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the tour takes for granted."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Add", ["r", "x"], ["y"])]
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opset)
    onnx.save(model, tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", _array())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _array() -> np.ndarray:
    return np.random.default_rng(0).standard_normal(SHAPE, np.float32)


def test_every_tool_is_shown() -> None:
    assert {command.split()[0] for command in COMMANDS} == set(TOOLS)


def test_the_commands_run_in_order(here: Path) -> None:
    for command in COMMANDS:
        name, *words = shlex.split(command)
        tool = importlib.import_module(f"ge.tools.{name.replace('-', '_')}")
        assert tool.main(words) == 0, command
    x = _array()
    np.testing.assert_allclose(np.load(here / "out" / "y.npy"), np.maximum(x, 0) + x, atol=0.01)


def test_the_python_runs(here: Path) -> None:
    (block,) = (b for b in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "ge.load" in b)
    names = {"array": _array()}
    exec(block, names)
    assert set(names["outputs"]) == {"y"}
    assert (here / "model.o").is_file()
