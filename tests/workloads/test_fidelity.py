"""The clock beside measured kernels: rows are built as measured, judged, and fitted to."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest

from bench import fidelity, fit
from bench.kernels import FOLDER, NotEmitted, described, prepare, structures
from ge.dialects.diagnostics import InputError, UnsupportedError

ROWS = {row["id"]: row for row in fidelity.read_rows(fidelity.CALIBRATION)}
QUICK = ("t4", "t7", "pto1", "add3", "dc_l1")


@pytest.mark.parametrize("name", QUICK)
def test_skipping_changes_no_figure_of_a_measured_kernel(name: str) -> None:
    prepared = prepare(ROWS[name], structures())
    skipped = fidelity.timed(prepared, structures())
    assert skipped == fidelity.timed(prepared, structures(), skip=False)


@pytest.mark.parametrize("name", QUICK)
def test_the_clock_is_near_what_was_measured(name: str) -> None:
    found = fidelity.outcome(ROWS[name], structures())
    assert found.counts
    assert found.error is not None
    assert abs(found.error) <= 12


def test_every_row_is_understood() -> None:
    for row in ROWS.values():
        kernel = described(row, structures())
        assert bool(kernel.apart) == row["id"].startswith("fa")


def _table(folder: Path, *rows: str) -> Path:
    head = "id,chip,kernel,shape,dtype,cores,config,total_us,source"
    path = folder / "rows.csv"
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def test_rows_that_are_not_understood_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _table(
        tmp_path,
        "new1,A2,matmul,128x30720x64,fp16,24,const tiling,8,asc-devkit guide",
        "new2,A2,sort,128x64,fp16,24,,8,catlass",
        "new3,H100,matmul,128x128x64,fp16,24,,8,catlass",
        "new4,A2,matmul,many,fp16,24,,8,catlass",
        "new5,A2,matmul,128x128x64,fp16,24,,8,somewhere",
        "new6,A2,matmul,128x128x64,fp16,99,,8,catlass",
        "new7,A2,matmul,128x128x64,fp16,24,,soon,catlass",
    )
    out = tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", ["fidelity", "--csv", str(path), "--json", str(out)])
    assert fidelity.main() == 0
    text = capsys.readouterr().out
    assert "1 of 7 rows count" in text
    assert "no kernel like 'sort'" in text
    assert "no target stands for chip 'H100'" in text
    assert "a shape must be like" in text
    assert "for source 'somewhere'" in text
    assert "must have the cores of the row, 99" in text
    assert "total_us must be a time" in text
    found = json.loads(out.read_text())
    assert [bar["most"] for bar in found["bars"]] == [6, 20]
    assert len(found["rows"]) == 7
    assert found["rows"][-1]["measured"] is None


def test_a_missed_bar_is_an_exit_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _table(tmp_path, "new1,A2,matmul,128x30720x64,fp16,24,const tiling,80,asc-devkit guide")
    monkeypatch.setattr(sys, "argv", ["fidelity", "--csv", str(path)])
    assert fidelity.main() == 1


def test_a_table_must_have_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,chip\n1,2\n")
    with pytest.raises(InputError, match="must have a column 'kernel'"):
        fidelity.read_rows(path)
    with pytest.raises(InputError, match="must be a readable table"):
        fidelity.read_rows(tmp_path / "none.csv")


def test_a_plot_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.plot import scatter

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'ge-npu\[plot\]'"):
        scatter([], Path("x.png"))


def test_products_with_an_epilogue_nobody_describes_are_not_guessed() -> None:
    with pytest.raises(NotEmitted):
        prepare({**ROWS["mmg"], "config": "CV"}, structures())


# The fit


def test_a_fit_finds_what_makes_the_errors_small() -> None:
    searched = [p for p in fit.parameters() if p.name in ("launch_pto", "launch_guide")]
    search = fit.Search([ROWS["t4"], ROWS["pto1"]], searched)
    order = list(range(len(searched)))
    best = fit.descend(search, order)
    assert fit.loss(search.errors(best)) < 3
    assert all(p.low <= v <= p.high for p, v in zip(searched, best, strict=True))
    assert fit.descend(fit.Search([ROWS["t4"], ROWS["pto1"]], searched), order) == best
    # Nothing says what a source calls launch when its rows are left out: the middle is taken.
    alone = fit.descend(search, order, frozenset({"pto1"}))
    assert alone[0] == searched[0].rounded((searched[0].low + searched[0].high) / 2)


def test_the_fit_searches_twelve_parameters_at_most_each_within_its_range() -> None:
    searched = fit.parameters()
    assert len(searched) <= 12
    found = json.loads(fit.RESULT.read_text("utf-8"))["parameters"]
    assert list(found) == [p.name for p in searched]
    for p in searched:
        assert p.low <= found[p.name] <= p.high
        assert [fit.look_up(key) for key in p.keys] == [found[p.name]] * len(p.keys)


def test_a_number_is_replaced_where_it_stands() -> None:
    text = "[a]\nx = 1 # one\n[rate.a]\nx = 1.25  # [F] two\ny = 2\n"
    found = fit.replaced(text, "rate.a.x", "13")
    assert found == text.replace("1.25  # [F]", "13    # [F]")
    with pytest.raises(KeyError):
        fit.replaced(text, "rate.b.x", "1")


def test_the_structures_of_the_kernels_are_tables() -> None:
    table = tomllib.loads((FOLDER / "configs.toml").read_text("utf-8"))
    assert set(table["launch_us"]) == {row["source"].partition(" (")[0] for row in ROWS.values()}
    for family in ("matmul", "gemm", "add"):
        assert all(set(entry) == {"words", "use"} for entry in table[family])
