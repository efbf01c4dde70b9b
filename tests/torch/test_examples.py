"""The scripts of users, run as they are written."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import onnx
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from ge.runtime.device import DEVICE
from ge.runtime.torch_npu import autoload
from tests.repository.files import ROOT
from tests.torch.test_generate import llama

EXAMPLES = ROOT / "examples" / "torch"
pytestmark = pytest.mark.filterwarnings("ignore")


def _run(name: str, monkeypatch: Any, folder: Path, *arguments: str) -> None:
    """Run a script in a folder of its own; every one must have started programs."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    launches = DEVICE.launches
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert DEVICE.launches > launches


def _differences(text: str) -> list[float]:
    return [float(d) for d in re.findall(r"difference (\S+?)[,\n]", text)]


@pytest.mark.parametrize(
    ("name", "count", "most"),
    [
        ("export_onnx.py", 2, 1e-5),
        ("script.py", 2, 1e-5),
        ("optimize.py", 1, 2e-2),
        ("onnxruntime_cpu.py", 1, 1e-5),
    ],
)
def test_scripts_give_what_torch_gives(
    name: str, count: int, most: float, monkeypatch: Any, tmp_path: Path, capsys: Any
) -> None:
    _run(name, monkeypatch, tmp_path, "")
    found = _differences(capsys.readouterr().out)
    assert len(found) == count
    assert max(found) <= most
    for path in tmp_path.glob("*_optimized.onnx"):
        assert {i.domain for i in onnx.load(path).opset_import} == {""}


def _save_language_model(folder: Path) -> None:
    words = {w: i for i, w in enumerate(["<pad>", "Once", "upon", "a", "time", "there", "was"])}
    words |= {f"w{i}": len(words) + i for i in range(121)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>")
    fast.save_pretrained(folder)
    llama(num_hidden_layers=1).save_pretrained(folder)


def test_a_language_model_generates_and_is_timed(
    monkeypatch: Any, tmp_path: Path, capsys: Any
) -> None:
    autoload()
    _save_language_model(tmp_path)
    launches = DEVICE.launches
    _run("llama_generate.py", monkeypatch, tmp_path, str(tmp_path), "1", "2")
    out = capsys.readouterr().out
    assert out.startswith("Once upon a time ")
    assert re.search(r"latency \S+ ms, throughput \S+ tokens/s", out)
    # Four calls of a prompt of 4 tokens each up to 50.
    assert DEVICE.launches - launches == 4 * 46


def test_torch_loads_npu_by_itself() -> None:
    assert "ge" in entry_points(group="torch.backends").names
    script = EXAMPLES / "simple_transformer.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, str(script)], check=True, capture_output=True, text=True, env=environment
    )
    assert done.stdout == "(2, 16, 64) 1\n"
