"""`ge-as` and `ge-objdump` as a user runs them."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from ge.dialects.diagnostics import DoesNotFit
from ge.dialects.weights_file import digest_of, write_weights
from ge.tools import console, ge_as, ge_objdump

TEXT = """.target tiny, cores=2
.function main
main: la x5, weights
  halt
.section .rodata
weights: .incbin "p.weights", sha256:{digest}, 2048
"""
DATA = bytes(2048)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_weights(tmp_path / "p.weights", [(digest_of(DATA), DATA)])
    (tmp_path / "p.s").write_text(TEXT.format(digest=digest_of(DATA)))
    return tmp_path / "p.s"


def test_disassembly_assembles_to_the_same_bytes(source: Path) -> None:
    again = source.parent / "sub"
    again.mkdir()
    assert ge_as.main([str(source)]) == 0
    assert ge_objdump.main(["-d", str(source.with_suffix(".o")), "-o", str(again / "q.s")]) == 0
    assert ge_as.main([str(again / "q.s"), "-o", str(again / "r.o")]) == 0
    assert (again / "r.o").read_bytes() == source.with_suffix(".o").read_bytes()


def test_tables_beside_code_are_comments(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ge_as.main([str(source)])
    assert ge_objdump.main(["-d", "-h", "-t", "-r", str(source.with_suffix(".o"))]) == 0
    shown = capsys.readouterr().out
    assert "; SECTIONS:" in shown
    assert f".absent sha256:{digest_of(DATA)}, 2048" in shown
    source.with_name("again.s").write_text(shown)
    assert ge_as.main([str(source.with_name("again.s"))]) == 0
    assert ge_objdump.main(["-r", str(source.with_suffix(".o"))]) == 0
    assert "0000000000000000 weights+0x0" in capsys.readouterr().out


def test_errors_have_statuses(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = source.with_name("bad.s")
    bad.write_text(".target tiny, cores=2\nmain: hlat\n")
    assert ge_as.main([str(bad)]) == 3
    assert capsys.readouterr().err.split("\n")[0] == (
        f"{bad}:2:7: error: unknown mnemonic 'hlat'; did you mean 'halt'?"
    )
    assert ge_as.main([str(source.with_name("none.s"))]) == 3
    assert ge_as.main([str(source), "-o", str(source / "no" / "p.o")]) == 3
    assert ge_objdump.main([str(bad)]) == 3
    assert "must be a 64-bit little-endian ELF file" in capsys.readouterr().err
    bad.write_bytes(b"\xff")
    assert ge_as.main([str(bad)]) == 3
    with pytest.raises(SystemExit) as caught:
        ge_as.main(["--no-such-option"])
    assert caught.value.code == 2


def test_faults_of_ours_show_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(_argv: object) -> int:
        raise KeyError("x")

    def too_big(_argv: object) -> int:
        raise DoesNotFit("must fit", "k0")

    assert console.run_tool(broken, []) == 70
    err = capsys.readouterr().err
    assert err.startswith("error: a fault of this program")
    assert "Traceback" in err
    assert console.run_tool(too_big, []) == 5


def test_a_message_can_say_where_it_comes_from(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none = str(source.with_name("none.s"))
    assert ge_as.main([none, "--traceback"]) == 3
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert err.endswith(f"{none}: error: must be a readable file: No such file or directory\n")


def test_text_may_come_from_standard_input(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def assemble(text: str, *args: str) -> int:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return ge_as.main(["-", *args])

    out = source.with_name("p.o")
    assert assemble(".target tiny, cores=1\nmain: halt\n", "-o", str(out)) == 0
    assert ge_objdump.main([str(out)]) == 0
    assert "halt" in capsys.readouterr().out
    assert assemble(".target tiny, cores=1\nmain: hlat\n", "-o", str(out)) == 3
    assert capsys.readouterr().err.startswith("<stdin>:2:7: error: unknown mnemonic 'hlat'")
    with pytest.raises(SystemExit):
        assemble("")
    assert "needs -o OUT.o" in capsys.readouterr().err


@pytest.mark.parametrize("tool", [ge_as, ge_objdump])
def test_help_has_an_example(tool: object, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        tool.main(["--help"])  # type: ignore[attr-defined]
    assert caught.value.code == 0
    assert "example:" in capsys.readouterr().out


def test_assembling_loads_nothing_heavy(source: Path) -> None:
    script = (
        "import sys; from ge.tools.ge_as import main; assert main(sys.argv[1:]) == 0; "
        "print([m for m in ('numpy', 'xdsl', 'lark', 'onnx') if m in sys.modules])"
    )
    run = [sys.executable, "-c", script, str(source)]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_closed_pipe_is_no_error(source: Path) -> None:
    ge_as.main([str(source)])
    script = "import sys; from ge.tools.ge_objdump import main; sys.exit(main(sys.argv[1:]))"
    run = [sys.executable, "-c", script, str(source.with_suffix(".o"))]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait() == 0
