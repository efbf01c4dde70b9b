"""Every level is text that compiles to the same bytes as the model itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ge
from ge.codegen.objects import write_object
from ge.tools import ge_as, ge_opt
from ge.tools.ge_compile import main

TINY = ["--target", "tiny"]
NAMES = ("mlp", "convolutions", "transformer")


@pytest.fixture(params=NAMES)
def model(request: pytest.FixtureRequest, models: dict[str, Path]) -> Path:
    return models[request.param]


def test_the_text_of_every_level_gives_the_same_object(model: Path, tmp_path: Path) -> None:
    whole, temps = tmp_path / "whole.o", tmp_path / "temps"
    assert main([str(model), *TINY, "-o", str(whole), "--save-temps", str(temps)]) == 0
    for level in ("graph", "fused", "npu"):
        text = temps / f"{model.stem}.{level}.mlir"
        assert main([str(text), *TINY, "-o", str(tmp_path / "again.o")]) == 0
        assert (tmp_path / "again.o").read_bytes() == whole.read_bytes(), level
    tree = temps / "tree.mlir"
    fused = str(temps / f"{model.stem}.fused.mlir")
    assert ge_opt.main([fused, *TINY, "-p", "fused-to-npu", "-o", str(tree)]) == 0
    assert main([str(tree), *TINY, "-o", str(tmp_path / "again.o")]) == 0
    assert (tmp_path / "again.o").read_bytes() == whole.read_bytes(), "tree"
    assembly = temps / f"{model.stem}.s"
    assert ge_as.main([str(assembly), "-o", str(tmp_path / "again.o")]) == 0
    assert (tmp_path / "again.o").read_bytes() == whole.read_bytes()


def test_texts_and_objects_know_what_a_target_file_said(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine, obj = tmp_path / "mine.toml", tmp_path / "a.o"
    machine.write_text('inherits = "tiny"\n')
    how = ["--target", str(machine)]
    assert main([str(models["mlp"]), *how, "-o", str(obj), "--save-temps", str(tmp_path)]) == 0
    for text, tool in (("mlp.npu.mlir", main), ("mlp.s", ge_as.main)):
        given = how if tool is main else []
        assert tool([str(tmp_path / text), *given, "-o", str(tmp_path / "b.o")]) == 0
        assert (tmp_path / "b.o").read_bytes() == obj.read_bytes()
    fused, tree = str(tmp_path / "mlp.fused.mlir"), str(tmp_path / "tree.mlir")
    assert ge_opt.main([fused, *how, "-p", "fused-to-npu", "-o", tree]) == 0
    assert f'"{machine}@' in Path(tree).read_text("utf-8")
    machine.write_text('inherits = "tiny"\n[sync]\ncall = 77\n')
    assert main([str(tmp_path / "mlp.npu.mlir"), *how]) == 3
    assert "must be compiled for those" in capsys.readouterr().err


def test_the_api_gives_the_same_object(model: Path, tmp_path: Path) -> None:
    assert main([str(model), *TINY, "--precision", "fp16", "-o", str(tmp_path / "a.o")]) == 0
    ge.compile(model, target="tiny", precision="fp16").save(tmp_path / "b.o")
    assert (tmp_path / "a.o").read_bytes() == (tmp_path / "b.o").read_bytes()


@pytest.mark.parametrize("precision", ["fp16", "mixed"])
def test_a_graph_that_has_its_precision_keeps_it(
    models: dict[str, Path], tmp_path: Path, precision: str
) -> None:
    how = [*TINY, "--precision", precision]
    model, text = str(models["transformer"]), str(tmp_path / "t.mlir")
    assert main([model, *how, "-o", str(tmp_path / "a.o")]) == 0
    assert main([model, *how, "--emit", "graph", "-o", text]) == 0
    assert main([text, *how, "-o", str(tmp_path / "b.o")]) == 0
    assert (tmp_path / "a.o").read_bytes() == (tmp_path / "b.o").read_bytes()


@pytest.mark.parametrize("level", ["graph", "fused", "npu", "asm"])
def test_what_is_emitted_is_what_is_saved_on_the_way(
    models: dict[str, Path], tmp_path: Path, level: str
) -> None:
    out = tmp_path / "out"
    arguments = ["--emit", level, "-o", str(out), "--weights", str(tmp_path / "mlp.weights")]
    assert main([str(models["mlp"]), *TINY, *arguments, "--save-temps", str(tmp_path)]) == 0
    saved = tmp_path / ("mlp.s" if level == "asm" else f"mlp.{level}.mlir")
    beside = saved.with_suffix(".weights").name
    assert out.read_text() == saved.read_text().replace(f'"{beside}"', '"mlp.weights"')


def test_text_to_standard_output_has_its_weights_in_a_file(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = [str(models["mlp"]), *TINY, "--emit", "fused"]
    assert main(how) == 3
    assert "give --weights FILE or -o OUT" in capsys.readouterr().err
    assert main([*how, "--weights", str(tmp_path / "w.weights")]) == 0
    (tmp_path / "m.mlir").write_text(capsys.readouterr().out)
    assert main([str(tmp_path / "m.mlir"), *TINY, "-o", str(tmp_path / "a.o")]) == 0
    assert main([str(models["mlp"]), *TINY, "-o", str(tmp_path / "b.o")]) == 0
    assert (tmp_path / "a.o").read_bytes() == (tmp_path / "b.o").read_bytes()


def test_weights_of_a_text_lie_in_its_folder(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").mkdir()
    where = ["-o", str(tmp_path / "a" / "m.mlir"), "--weights", str(tmp_path / "m.weights")]
    assert main([str(models["mlp"]), *TINY, "--emit", "graph", *where]) == 3
    assert "weights must lie in the folder of the text" in capsys.readouterr().err


def test_a_text_may_be_written_over_the_one_it_came_from(
    models: dict[str, Path], tmp_path: Path
) -> None:
    text = tmp_path / "m.mlir"
    assert main([str(models["mlp"]), *TINY, "--emit", "graph", "-o", str(text)]) == 0
    before = text.read_text(), text.with_suffix(".weights").read_bytes()
    assert main([str(text), *TINY, "--emit", "graph", "-o", str(text)]) == 0
    assert (text.read_text(), text.with_suffix(".weights").read_bytes()) == before


def test_an_object_may_have_its_weights_outside(
    models: dict[str, Path], tmp_path: Path, x: object
) -> None:
    path = tmp_path / "m.o"
    weights = ["--weights", str(tmp_path / "m.weights")]
    assert main([str(models["mlp"]), *TINY, "-o", str(path), *weights]) == 0
    inside = ge.compile(models["mlp"], target="tiny")
    assert path.stat().st_size < len(write_object(inside.program))
    # Loading finds the file, and then all is as if they had been inside.
    assert write_object(ge.load(path).program) == write_object(inside.program)


@pytest.mark.parametrize("seed", ["1", "2"])
def test_two_processes_give_the_same_bytes(
    models: dict[str, Path], tmp_path: Path, seed: str
) -> None:
    out = tmp_path / "m.o"
    tool = "import sys; from ge.tools.ge_compile import main; sys.exit(main())"
    command = [sys.executable, "-c", tool, str(models["mlp"]), *TINY, "-o", str(out)]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(command, env=environment, check=True)
    assert out.read_bytes() == write_object(ge.compile(models["mlp"], target="tiny").program)
