"""`bench/allocate.py`: a CSV gets offsets that hold, and what is wrong with one is said."""

from __future__ import annotations

import csv
import random
from itertools import combinations
from pathlib import Path

import pytest

from bench.allocate import Buffer, check, main
from ge.dialects.diagnostics import CheckFailed
from tests.lowering.test_pack import cut

HEAD = "id,lower,upper,size\n"
TIGHT = HEAD + "a,0,4,2\nb,0,2,3\nc,2,4,1\nd,2,4,2\ne,-3,0,5\n"


def _run(tmp_path: Path, text: str, *words: str) -> int:
    path = tmp_path / "b.csv"
    path.write_text(text)
    return main([str(path), *words])


def test_offsets_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "places.csv"
    assert _run(tmp_path, TIGHT, "--capacity", "5", "-o", str(out)) == 0
    assert _run(tmp_path, TIGHT, "--capacity", "5") == 0
    assert capsys.readouterr().out == out.read_text()
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [r["id"] for r in rows] == list("abcde")
    spans = [[int(r[k]) for k in ("lower", "upper", "size", "offset")] for r in rows]
    assert all(0 <= at <= 5 - size for _, _, size, at in spans)
    for (l1, u1, s1, o1), (l2, u2, s2, o2) in combinations(spans, 2):
        assert u1 <= l2 or u2 <= l1 or o1 + s1 <= o2 or o2 + s2 <= o1


def test_lives_end_before_upper(tmp_path: Path) -> None:
    assert _run(tmp_path, HEAD + "0,0,1,9\n1,1,2,9\n", "--capacity", "9") == 0


def test_no_buffers_have_no_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path, HEAD, "--capacity", "9") == 0
    assert capsys.readouterr().out == "id,lower,upper,size,offset\n"


FAULTS = {
    "": "b.csv: error: must have columns id,lower,upper,size, lacks 'id'",
    "id,lower,size\n": "b.csv: error: must have columns id,lower,upper,size, lacks 'upper'",
    HEAD + "0,0,1\n": "b.csv:2: error: 'size' must be an integer, got ''",
    HEAD + "0,0,1,x\n": "b.csv:2: error: 'size' must be an integer, got 'x'",
    HEAD + "0,0,1,5\n0,0,1,5\n": "b.csv:3: error: 'id' must be of one buffer, '0' is of two",
    HEAD + "0,2,2,5\n": "b.csv:2: error: 'lower' must be below 'upper', got 2, 2",
    HEAD + "0,0,1,-5\n": "b.csv:2: error: 'size' must be from 1 to the capacity, got -5",
    HEAD + "0,0,1,11\n": "b.csv:2: error: 'size' must be from 1 to the capacity, got 11",
    HEAD + '0,0,1,"5\n': "b.csv: error: must be a CSV: unexpected end of data",
}


@pytest.mark.parametrize("text", FAULTS)
def test_what_is_wrong_with_a_csv_is_said(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(tmp_path, text, "--capacity", "10") == 3
    assert FAULTS[text] in capsys.readouterr().err


def test_what_does_not_fit_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path, TIGHT, "--capacity", "5") == 0
    assert _run(tmp_path, HEAD + "0,0,2,5\n1,1,3,5\n", "--capacity", "9") == 5
    shown = capsys.readouterr().err
    assert "b.csv: error: must fit 9 bytes, 10 are alive at once" in shown


def test_a_search_has_its_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lives = cut(random.Random(10), 16, 16, 160)
    rows = (f"{n},{x.first},{x.last + 1},{x.bytes}\n" for n, x in enumerate(lives))
    text = HEAD + "".join(rows)
    assert _run(tmp_path, text, "--capacity", "160") == 0
    assert _run(tmp_path, text, "--capacity", "160", "--seconds", "0") == 5
    shown = capsys.readouterr().err
    assert "must fit 160 bytes, no plan was found in 0 s; 160 are alive at once" in shown


def test_the_checker_sees_what_is_wrong() -> None:
    buffers = [Buffer("0", 0, 2, 5), Buffer("1", 1, 3, 5)]
    head, first = "id,lower,upper,size,offset\n", "0,0,2,5,0\n"
    check(head + first + "1,1,3,5,5\n", buffers, 10)
    with pytest.raises(CheckFailed, match="rows 1 and 2 must not overlap"):
        check(head + first + "1,1,3,5,4\n", buffers, 10)
    with pytest.raises(CheckFailed, match="must lie from 0 to 9"):
        check(head + first + "1,1,3,5,5\n", buffers, 9)
    with pytest.raises(CheckFailed, match="must hold the buffers"):
        check(head + first, buffers, 10)
