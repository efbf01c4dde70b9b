"""The ge-opt tool: statuses, messages, options, and how little it imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ge.lowering.pipelines import PASSES, PIPELINES, load_pass
from ge.tools.ge_opt import main

TEXT = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.identity %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %a : tensor<4xf32>
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.mlir"
    path.write_text(TEXT)
    return path


def test_passes_run_in_order(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(file), "-p", "simplify,dce", "--print-ir-after", "simplify"]) == 0
    out, err = capsys.readouterr()
    assert "identity" not in out
    assert err.startswith("// IR after simplify:\nbuiltin.module")
    assert "after dce" not in err


def test_output_goes_to_a_file(file: Path) -> None:
    out = file.with_name("out.mlir")
    assert main([str(file), "-p", "simplify-graph", "-o", str(out)]) == 0
    assert "func.return %x" in out.read_text()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-p", "simplfy"], "got 'simplfy'; did you mean 'simplify'?"),
        (["-p", "simplify{"], "passes must be NAME or NAME{OPTION=VALUE}, got 'simplify{'"),
        (["-p", "simplify{a=1}"], "options of 'simplify'"),
        (["-o", "/nowhere/at/all.mlir"], "must be writable, No such file or directory"),
    ],
)
def test_mistakes_are_said_in_one_line(
    file: Path, args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(file), *args]) == 3
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_errors_in_the_text_have_a_place(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace("graph.identity", "graph.identty"))
    assert main([str(file)]) == 3
    assert capsys.readouterr().err.splitlines()[:2] == [
        f"{file}:2:8: error: Operation graph.identty is not registered",
        "  %a = graph.identty %x : (tensor<4xf32>) -> tensor<4xf32>",
    ]
    assert main([str(file.with_name("none.mlir"))]) == 3
    assert "must be a readable file" in capsys.readouterr().err


def test_arguments_that_do_not_parse_are_status_2() -> None:
    with pytest.raises(SystemExit) as e:
        main(["--no-such-option"])
    assert e.value.code == 2


def test_help_lists_all_passes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert "example:" in out
    assert all(name in out for name in [*PASSES, *PIPELINES])


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom ge.tools.ge_opt import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'numpy', 'xdsl', 'onnx', 'lark'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", PASSES)
def test_rows_say_what_the_pass_says(name: str) -> None:
    cls = load_pass(name)
    assert cls.name == name
    if cls.__module__.startswith("ge."):
        assert (cls.__doc__ or "").splitlines()[0].strip() == PASSES[name].does
        assert cls.__module__.rpartition(".")[2] == name.replace("-", "_")


def test_pipelines_are_made_of_passes() -> None:
    assert {p for row in PIPELINES.values() for p in row} <= set(PASSES)
