"""`ge-run` on models, and programs that the tools keep for each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ge.runtime.program_cache import ENVIRONMENT
from ge.tools import ge_compile, ge_run
from tests.models import Net
from tests.onnx_oracle import close, run

TINY = ["--target", "tiny"]
X = np.random.default_rng(2).standard_normal((3, 6)).astype(np.float32)


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)


@pytest.fixture
def open_model(tmp_path: Path) -> Path:
    net = Net(0)
    y = net("Relu", net("MatMul", "x", net.normal(6, 4)))
    onnx.save(net.model({"x": ("n", 6)}, [y], 17, {}), tmp_path / "open.onnx")
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "open.onnx"


@pytest.fixture
def data_model(tmp_path: Path) -> Path:
    net = Net(0)
    found = net("NonZero", net("Relu", "x"))
    model = net.model({"x": ("n", 6)}, [found], 17, {"x": 1, found: onnx.TensorProto.INT64})
    onnx.save(model, tmp_path / "data.onnx")
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "data.onnx"


def _outputs(folder: Path) -> list[Any]:
    return [np.load(path) for path in sorted(folder.glob("*.npy"))]


def test_a_file_gives_an_open_shape_its_size(open_model: Path, capsys: Any) -> None:
    folder = open_model.parent / "out"
    given = [*TINY, f"--input=x={open_model.parent / 'x.npy'}", f"--output-dir={folder}"]
    assert ge_run.main([str(open_model), *given, "--check-hazards"]) == 0
    (got,) = _outputs(folder)
    close(got, run(onnx.load(open_model), {"x": X})[0], 1e-5)
    assert "hazards: 0" in capsys.readouterr().out


def test_a_shape_that_nothing_gives_is_asked_for(open_model: Path, capsys: Any) -> None:
    assert ge_run.main([str(open_model), *TINY]) == 3
    assert "'n' open; give --shape x:1,6" in capsys.readouterr().err
    assert ge_run.main([str(open_model), *TINY, "--shape", "x:2,6"]) == 0
    assert "input 'x': random, seed 0" in capsys.readouterr().out


def test_what_the_data_decide_runs_in_parts(data_model: Path, capsys: Any) -> None:
    folder = data_model.parent
    given = [*TINY, f"--input=x={folder / 'x.npy'}"]
    more = [f"--output-dir={folder / 'out'}", f"--stats={folder / 's.json'}", "--check-hazards"]
    assert ge_run.main([str(data_model), *given, *more]) == 0
    (got,) = _outputs(folder / "out")
    close(got, run(onnx.load(data_model), {"x": X})[0])
    assert len(json.loads((folder / "s.json").read_text())["parts"]) == 2
    assert "part 2 of 2: tiny" in capsys.readouterr().out
    assert ge_run.main([str(data_model), *given, "--mode", "functional"]) == 0
    assert "ran as 2 programs" in capsys.readouterr().out
    assert ge_run.main([str(data_model), *given, "--mode", "timing"]) == 4


def test_one_object_of_it_is_refused_in_a_line(data_model: Path, capsys: Any) -> None:
    assert ge_compile.main([str(data_model), *TINY, "--shape", "x:3,6"]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("does; ge-run and ge.compile run such a model in parts")


def test_an_object_file_takes_no_options_of_a_compile(open_model: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit) as exit_:
        ge_run.main([str(open_model.with_suffix(".o")), *TINY])
    assert exit_.value.code == 2
    assert "--target is for models" in capsys.readouterr().err


@pytest.mark.parametrize("by", ["option", "environment"])
def test_the_tools_find_each_others_programs(
    open_model: Path, by: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = open_model.parent / "cache"
    kept = ["--cache", str(folder)] if by == "option" else []
    if by == "environment":
        monkeypatch.setenv(ENVIRONMENT, str(folder))
    command = [str(open_model), *TINY, "--shape", "x:3,6", *kept]
    assert ge_compile.main(command) == 0
    data = open_model.with_suffix(".o").read_bytes()
    open_model.with_suffix(".o").unlink()
    assert len(list(folder.glob("*.ge"))) == 1
    monkeypatch.setattr("ge.runtime.driver.begin", None)
    monkeypatch.setattr("ge.runtime.compiled.begin", None)
    assert ge_compile.main(command) == 0
    assert open_model.with_suffix(".o").read_bytes() == data
    assert f"taken as it is from the cache in {folder}" in capsys.readouterr().out
    assert ge_run.main(command) == 0
    assert len(list(folder.glob("*.ge"))) == 1


def test_a_cache_that_cannot_be_written_is_one_line_of_warning(open_model: Path) -> None:
    folder = open_model / "no"
    command = [str(open_model), *TINY, "--shape", "x:3,6", "--cache", str(folder)]
    # In a process of its own nothing catches warnings.
    words = [sys.executable, "-m", "ge.tools.ge_compile", *command]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    why = "must be a folder that programs can be kept in: Not a directory"
    assert (done.returncode, done.stderr) == (0, f"{folder}: warning: {why}\n")


def test_each_part_is_kept(data_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = data_model.parent
    command = [str(data_model), *TINY, f"--input=x={folder / 'x.npy'}", f"--cache={folder / 'c'}"]
    assert ge_run.main(command) == 0
    assert len(list((folder / "c").glob("*.ge"))) == 2
    monkeypatch.setattr("ge.runtime.specialise.finish", None)
    assert ge_run.main(command) == 0
