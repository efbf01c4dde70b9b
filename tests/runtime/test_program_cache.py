"""Programs on disk: found again, rebuilt when broken, few enough, safe among processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ge
from examples.models import Net
from ge.lowering.pipelines import Options
from ge.runtime.program_cache import ENVIRONMENT, ProgramCache, cache_in, digest, options_parts
from ge.runtime.specialise import SpecialisedModel

X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    net = Net(seed=3)
    y = net("Relu", net("MatMul", "x", net.normal(8, 8)))
    path = tmp_path / "m.onnx"
    onnx.save(net.model({"x": (4, 8)}, [y], 17), path)
    return path


def _engine(model: Path, folder: Path, **how: Any) -> Any:
    engine = ge.GraphEngine(ge.OptimizeConfig(target="tiny", cache_dir=str(folder), **how))
    engine.LoadModel(model)
    return engine


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.ge"))


def test_a_second_engine_compiles_nothing(model: Path, tmp_path: Path, monkeypatch: Any) -> None:
    folder = tmp_path / "cache"
    want = _engine(model, folder).OptimizeGraph()(X)
    (entry,) = _entries(folder)
    with monkeypatch.context() as patch:
        patch.setattr("ge.runtime.engine.begin", None)
        patch.setattr("ge.runtime.engine.finish", None)
        again = _engine(model, folder)
        np.testing.assert_array_equal(again.OptimizeGraph()(X), want)
    # What is saved of the model, and not of its program, is made when it is asked for.
    again.SaveOptimizedModel(tmp_path / "again.onnx")
    assert _entries(folder) == [entry]
    _engine(model, folder, precision_mode="fp16").OptimizeGraph()
    assert len(_entries(folder)) == 2


@pytest.mark.parametrize("damage", ["cut", "flipped", "other"])
def test_broken_entries_are_made_anew(model: Path, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "cache"
    want = _engine(model, folder).OptimizeGraph()(X)
    (entry,) = _entries(folder)
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    broken = {"cut": bytes(data[:-9]), "flipped": bytes(data), "other": b"nothing"}[damage]
    entry.write_bytes(broken)
    np.testing.assert_array_equal(_engine(model, folder).OptimizeGraph()(X), want)
    assert _entries(folder) == [entry]
    assert entry.read_bytes() != broken


def test_what_was_not_used_for_longest_goes_first(model: Path, tmp_path: Path) -> None:
    program = ge.compile(model, target="tiny").program
    kept = ProgramCache(tmp_path / "cache")
    kept.put("a", program, {})
    size = _entries(kept.folder)[0].stat().st_size
    small = ProgramCache(kept.folder, limit_bytes=2 * size)
    for age, key in enumerate("bcd"):
        small.put(key, program, {})
        for name in "a" + "bcd"[: age + 1]:
            path = kept.folder / f"{name}.ge"
            if path.exists():
                os.utime(path, (ord(name), ord(name)))
    assert [path.stem for path in _entries(kept.folder)] == ["c", "d"]


def test_an_unwritable_folder_keeps_nothing_and_says_so_once(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.write_text("")
    said = f"^{folder}: warning: must be a folder that programs can be kept in: File exists$"
    with pytest.warns(UserWarning, match=said):
        assert _engine(model, folder).OptimizeGraph()(X).shape == (4, 8)
    program, cache = ge.compile(model, target="tiny").program, ProgramCache(folder)
    with pytest.warns(UserWarning, match=said):
        cache.put("a", program, {})
    cache.put("a", program, {})


def test_digests_tell_parts_apart(monkeypatch: Any, tmp_path: Path) -> None:
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    assert cache_in("") is None
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    found = cache_in("")
    assert found is not None
    assert found.folder == tmp_path


WRITER = """
import sys, ge
engine = ge.GraphEngine(ge.OptimizeConfig(target="tiny", cache_dir=sys.argv[2]))
engine.LoadModel(sys.argv[1])
engine.OptimizeGraph()
"""


def test_processes_may_write_at_once(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    command = [sys.executable, "-c", WRITER, str(model), str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    writers = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert len(list(folder.iterdir())) == 1
    assert ProgramCache(folder).get(_entries(folder)[0].stem) is not None


def test_a_second_process_compiles_no_shapes_and_values_again(
    tmp_path: Path, monkeypatch: Any
) -> None:
    net = Net(seed=5)
    y = net("Relu", net("MatMul", "x", net.normal(8, 8)))
    many = net("Range", np.asarray(0, np.int64), "n", np.asarray(1, np.int64))
    open_model = net.model(
        {"x": ("rows", 8), "n": ()}, [y, many], 17, {"n": onnx.TensorProto.INT64}
    )
    cache = ProgramCache(tmp_path / "cache")
    inputs: list[dict[str, Any]] = [
        {"x": X[:rows], "n": np.asarray(count, np.int64)}
        for rows, count in ((2, 3), (4, 3), (4, 5))
    ]
    options = Options(target="tiny")
    first = SpecialisedModel(open_model, options, cache)
    want = [first.run(given) for given in inputs]
    assert len(_entries(cache.folder)) == 3
    monkeypatch.setattr("ge.runtime.specialise.finish", None)
    again = SpecialisedModel(open_model, options, cache)
    for given, outputs in zip(inputs, want, strict=True):
        for got, known in zip(again.run(given).values(), outputs.values(), strict=True):
            np.testing.assert_array_equal(got, known)


def test_another_machine_under_the_same_name_is_another_entry(tmp_path: Path) -> None:
    file = tmp_path / "m.toml"
    options = Options(target=str(file))
    file.write_text("a = 1")
    one = digest(options_parts(options))
    file.write_text("a = 2")
    assert digest(options_parts(options)) != one
