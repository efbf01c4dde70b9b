"""Files that are cut, flipped or edited at random: a message of one line, never a fault of ours."""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

import pytest

from ge.tools import ge_as, ge_compile, ge_objdump, ge_opt, ge_run

MUTATIONS = 40
SECONDS = 10
"""What a tool may take for a small file before it counts as hanging."""
TOKEN = re.compile(rb"[A-Za-z_.]+|-?\d+|[^\sA-Za-z_\d]")
ODD = (b"", b"0", b"-1", b"9223372036854775808", b"1e999", b"nan", b'"', b"[", b"}", b"f16")

Main = Callable[[Sequence[str]], int]
STEPS: dict[str, list[tuple[Main, tuple[str, ...]]]] = {
    ".onnx": [(ge_compile.main, ("-o", "out.o")), (ge_run.main, ())],
    ".graph.mlir": [(ge_opt.main, ("-p", "simplify-graph,fuse")), (ge_compile.main, ())],
    ".fused.mlir": [(ge_opt.main, ("-p", "fused-to-npu,schedule")), (ge_compile.main, ())],
    ".npu.mlir": [(ge_opt.main, ()), (ge_compile.main, ())],
    ".s": [(ge_as.main, ("-o", "out.o"))],
    ".o": [(ge_objdump.main, ("-d", "-h", "-t", "-r")), (ge_run.main, ("--check-hazards",))],
}
"""By kind of file: the tools that read it, and what they are called with."""


def _bytes(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    end = at + rng.randrange(1, 40)
    return rng.choice(
        [
            data[:at],
            data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :],
            data[:at] + data[end:],
            data[:end] + data[at:],
            data[:at] + b"\xff" * 8 + data[at + 8 :],
        ]
    )


def _words(data: bytes, rng: random.Random) -> bytes:
    tokens = list(TOKEN.finditer(data))
    old = rng.choice(tokens)
    new = rng.choice([*ODD, rng.choice(tokens)[0]])
    return data[: old.start()] + new + data[old.end() :]


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("suffix", STEPS)
def test_broken_files_get_a_message(
    suffix: str,
    models: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for level in ("graph", "fused", "npu"):
        assert ge_compile.main([*_of(models), "--emit", level, "-o", f"m.{level}.mlir"]) == 0
    assert ge_compile.main([*_of(models), "--emit", "asm", "-o", "m.s"]) == 0
    assert ge_compile.main([*_of(models), "-o", "m.o"]) == 0
    whole = (models["mlp"] if suffix == ".onnx" else Path(f"m{suffix}")).read_bytes()
    rng = random.Random(suffix)
    for number in range(MUTATIONS):
        mutate = rng.choice([_bytes, _words] if suffix.endswith((".mlir", ".s")) else [_bytes])
        broken = mutate(whole, rng)
        Path(f"broken{suffix}").write_bytes(broken)
        for tool, options in STEPS[suffix]:
            capsys.readouterr()
            signal.alarm(SECONDS)
            status = tool([f"broken{suffix}", *options])
            signal.alarm(0)
            err = capsys.readouterr().err
            assert status in (0, 3, 4, 5, 6), (number, err)
            assert not status or "error: " in err.partition("\n")[0], (number, err)


def _of(models: dict[str, Path]) -> list[str]:
    return [str(models["mlp"])]


def test_a_quote_that_is_not_closed_takes_no_time(tmp_path: Path) -> None:
    path = tmp_path / "open.mlir"
    path.write_text(f'"{"a" * 5000}')
    signal.alarm(SECONDS)
    assert ge_opt.main([str(path)]) == 3


SHORT = """npu.program "tiny" cores 1 native 1 {
  npu.kernel @k0 "Relu" attributes {sources = []} {
    npu.core x1
    core x1 // npu.core
    ret // ret early
  }
}
"""


def test_the_dialect_may_be_left_out_of_an_instruction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "short.mlir"
    path.write_text(SHORT)
    signal.alarm(SECONDS)
    assert ge_opt.main([str(path)]) == 0
    assert capsys.readouterr().out.count("npu.core x1\n") == 2


@pytest.mark.parametrize(
    "text",
    ['"test.op"() ({' * 5000, "[" * 5000, '"test.op"() ({\n^00:\n}) : () -> ()'],
    ids=["regions", "brackets", "names of blocks"],
)
def test_texts_that_xdsl_stumbles_over_get_a_message(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(text)
    assert ge_opt.main([str(path)]) == 3
    assert capsys.readouterr().err.startswith(f"{path}:")


def test_trees_name_dimensions_of_their_kernel(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fused, tree = tmp_path / "m.mlir", tmp_path / "tree.mlir"
    assert ge_compile.main([*_of(models), "--emit", "fused", "-o", str(fused)]) == 0
    assert ge_opt.main([str(fused), "-p", "fused-to-npu", "-o", str(tree)]) == 0
    whole = tree.read_text()
    for old, new in (('#npu.map<"m, n">', '#npu.map<"m, q">'), ("<m = ", "<q = ")):
        loops = whole.index("npu.for")
        tree.write_text(whole[:loops] + whole[loops:].replace(old, new, 1))
        assert ge_compile.main([str(tree), "-o", str(tmp_path / "m.o")]) == 3
        message = capsys.readouterr().err
        assert "a dimension must be of the kernel" in message
        assert "got 'q'" in message


@pytest.mark.parametrize("tool", [ge_opt.main, ge_compile.main])
def test_a_message_shows_a_part_of_a_long_line(
    tool: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "long.mlir"
    path.write_text(" " * 9_000 + "(\x1b[2J" * 9_000)
    assert tool([str(path)]) == 3
    line, shown, caret = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{path}:1:9001: error: ")
    assert len(shown) <= 160
    assert shown[caret.index("^")] == "("
    assert "\x1b" not in shown


def test_texts_for_other_tools_say_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("m.s", "m.o"):
        (tmp_path / name).write_text("main: halt")
        assert ge_compile.main([str(tmp_path / name), "-o", str(tmp_path / "out.o")]) == 3
        assert "assembly is for ge-as, objects are for ge-run" in capsys.readouterr().err
