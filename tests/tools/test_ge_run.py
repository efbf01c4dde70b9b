import json
from pathlib import Path

import numpy as np
import pytest

from ge.codegen.objects import write_object
from ge.codegen.parse_asm import parse_asm
from ge.tools.ge_run import RUNS, main
from tests.runtime.test_simulator import DOUBLE, X

NEXT_TO_EACH_OTHER = """
 la x1, in0
 ld.ub ub[0], gm[x1], size=[4], strides=[1], i32
 la x2, out0
 st.gm gm[x2], ub[0], size=[4], ds=[1], ss=[1], i32
 halt
"""


@pytest.fixture
def obj(tmp_path: Path) -> Path:
    path = tmp_path / "double.o"
    path.write_bytes(write_object(parse_asm(DOUBLE)))
    np.save(tmp_path / "x.npy", X)
    return path


def test_outputs_figures_and_trace_are_written(
    obj: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = obj.parent
    files = [f"--stats={folder / 's.json'}", f"--trace={folder / 't.json'}"]
    given = ["--input", f"x={folder / 'x.npy'}", "--output-dir", str(folder / "out")]
    assert main([str(obj), *given, *files, "--check-hazards"]) == 0
    np.testing.assert_array_equal(np.load(folder / "out" / "y.npy"), 2 * X)
    assert json.loads((folder / "s.json").read_text())["hazards"] == 0
    assert json.loads((folder / "t.json").read_text())["traceEvents"]
    shown = capsys.readouterr().out
    assert "tiny (not calibrated), 2 cores" in shown
    assert "hazards: 0" in shown


def test_inputs_that_are_not_given_are_random_and_said_to_be(
    obj: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = obj.parent
    outputs = []
    for name, given in (
        ("a", []),
        ("b", ["--input", "x=random:0"]),
        ("c", ["--input", "x=random:3"]),
    ):
        assert main([str(obj), *given, "--output-dir", str(folder / name)]) == 0
        outputs.append(np.load(folder / name / "y.npy"))
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert not np.array_equal(outputs[0], outputs[2])
    shown = capsys.readouterr().out
    assert shown.count("input 'x': random, seed 0") == 2
    assert "input 'x': random, seed 3" in shown


def test_hazards_fail_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = '.target tiny, cores=1\n.input in0, "n", i32, 4\n.output out0, "../m", i32, 4\n'
    program = parse_asm(f"{header}.function main\nmain:\n{NEXT_TO_EACH_OTHER}")
    path = tmp_path / "bad.o"
    path.write_bytes(write_object(program))
    assert main([str(path)]) == 0
    assert main([str(path), "--check-hazards", "--output-dir", str(tmp_path / "out")]) == 6
    # Whatever an output is called, its file lies in the folder.
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["_m.npy"]
    error = capsys.readouterr().err
    assert error.splitlines()[0] == f"{path}: error: no hazards must be found, got 1"
    assert "must be ordered behind core 0 mte2v 'ld.ub" in error


def test_repeated_runs_are_reported(obj: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(obj), "--repeat", "3", "--mode", "timing"]) == 0
    assert "repeated: 3 runs of the same cycles" in capsys.readouterr().out
    # Of many only some are run here: one after the other takes as long as one more each time.
    assert main([str(obj), "--repeat", "99999999", "--mode", "timing"]) == 0
    shown = capsys.readouterr().out
    assert f"repeated: {RUNS} runs of the same cycles" in shown
    assert "in one launch: 99999999 on end" in shown


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--input", "y=random"], 3, "unknown input 'y'; the program's inputs: 'x'"),
        (["--input", "x=random:z"], 3, "the seed of input 'x' must be a number, got 'z'"),
        (["--input", "x=no.npy"], 3, "no.npy: error: must be a readable .npy file"),
        (["--input", "x=random", "--input", "x=random"], 3, "input 'x' must be given once"),
        (["--stats", "no/such/s.json"], 3, "no/such/s.json: error: must be writable"),
    ],
)
def test_mistakes_are_named(
    obj: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, message: str
) -> None:
    assert main([str(obj), *arguments]) == status
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--mode", "fast"],
        ["--repeat", "0"],
        ["--input", "x"],
        ["--mode", "timing", "--check-hazards"],
        ["--mode", "functional", "--trace", "t.json"],
    ],
)
def test_arguments_that_do_not_parse(obj: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as e:
        main([str(obj), *arguments])
    assert e.value.code == 2


def test_a_file_that_is_no_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.o"
    path.write_bytes(b"not an object")
    assert main([str(path)]) == 3
    assert capsys.readouterr().err.startswith(f"{path}: error: ")


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as e:
        main(["--help"])
    assert e.value.code == 0
    assert "ge-run model.o --input x=x.npy" in capsys.readouterr().out
