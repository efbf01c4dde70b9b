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
    ".onnx": [(ge_compile.main, ("-o", "out.o"))],
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
