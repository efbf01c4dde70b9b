"""A user's target file: what it may change, and how what is wrong with it is named."""

from pathlib import Path

import pytest

from ge.dialects.diagnostics import InputError
from ge.dialects.npu import target as targets
from ge.dialects.npu.places import Space


def described(folder: Path, text: str) -> targets.Target:
    path = folder / "mine.toml"
    path.write_text(f'inherits = "ascend910b1"\n{text}\n')
    return targets.load(str(path))


def test_a_file_inherits_and_overrides(tmp_path: Path) -> None:
    mine = described(tmp_path, 'name = "mine"\n[chip]\ncores = 4\n[rate.gm_l1]\nrow = 2.5')
    base = targets.load("ascend910b1")
    assert (mine.name, mine.cores, mine.rates["gm_l1"].row) == ("mine", 4, 2.5)
    assert mine.rates["gm_l1"].bytes_per_cycle == base.rates["gm_l1"].bytes_per_cycle
    assert mine.bytes_of == base.bytes_of


def test_numbers_can_be_varied_without_a_file() -> None:
    one = targets.varied("ascend910b1", {"chip": {"vector_units": 1}})
    assert one.bytes_of[Space.UB] * 2 == targets.load("ascend910b1").bytes_of[Space.UB]
    with pytest.raises(InputError, match="unknown key 'core'; did you mean 'cores'"):
        targets.varied("ascend910b1", {"chip": {"core": 1}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[chip]\ncoers = 4", "chip: error: unknown key 'coers'; did you mean 'cores'"),
        ("[memry]\nl1 = 512", "unknown key 'memry'; did you mean 'memory'"),
        ("[rate.gm_l1]\nrows = 3", "rate.gm_l1: error: unknown key 'rows'; did you mean 'row'"),
        ("[rate.gm_l1x]\nrow = 3", "unknown key 'gm_l1x'; did you mean 'gm_l1'"),
        ("[limit.hmb]\nbytes_per_second = 1e12", "unknown key 'hmb'; did you mean 'hbm'"),
        (
            '[chip]\nclock_mhz = "1.8 GHz"',
            "chip.clock_mhz: error: must be a whole number, got '1.8 G",
        ),
        ("[chip]\nclock_mhz = 1.85", "chip.clock_mhz: error: must be a whole number, got 1.85"),
        ("[chip]\nclock_mhz = 1850000000", "chip.clock_mhz: error: must be 1 to 100000 MHz, got"),
        ("[chip]\ncores = 0", "chip.cores: error: must be 1 to 4096, got 0"),
        ("[memory]\nl1 = 100", "memory.l1: error: must be a multiple of 32 bytes, got 100"),
        (
            "[memory]\nub = 192000000000000",
            "memory.ub: error: must be 32 to 1.07374e+09 bytes, got",
        ),
        (
            "[limit.hbm]\nbytes_per_second = 1460",
            "limit.hbm.bytes_per_second: error: must be 1e+09",
        ),
        ("[limit.hbm]\nbytes_per_second = 2e12", "at most the peak of 1.8e+12, got 2e+12"),
        ("[rate.gm_l1]\nbytes_per_cycle = -1", "must be 0 to 1e+06 bytes, got -1"),
        ("[rate.gm_l1]\nbytes_per_cycle = inf", "must be 0 to 1e+06 bytes, got inf"),
        ("[rate.gm_l1]\nbytes_per_cycle = nan", "must be 0 to 1e+06 bytes, got nan"),
        ('[rate.gm_l1]\nlimits = ["hmb"]', "rate.gm_l1.limits: error: unknown limit 'hmb'"),
        ("[rate.gm_l1]\nlimits = [1]", "rate.gm_l1.limits: error: must be a list of strings"),
        ("[host]\nlaunch_us = true", "host.launch_us: error: must be a number, got True"),
        ('chip = "big"', "chip: error: must be a table"),
        ("calibrated = 1", "calibrated: error: must be true or false, got 1"),
        ("[rate", "must be a readable TOML file"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as e:
        described(tmp_path, text)
    assert message in str(e.value)
    assert str(tmp_path / "mine.toml") in str(e.value)


def test_a_file_that_inherits_from_itself_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('inherits = "b.toml"\n')
    (tmp_path / "b.toml").write_text('inherits = "a.toml"\n')
    with pytest.raises(InputError, match="must not inherit from itself"):
        targets.load(str(tmp_path / "a.toml"))


def test_a_file_that_was_edited_is_another_machine(tmp_path: Path) -> None:
    one = described(tmp_path, 'name = "mine"\n[chip]\ncores = 4')
    known = targets.pinned(str(tmp_path / "mine.toml"))
    two = described(tmp_path, 'name = "mine"\n[chip]\ncores = 5')
    assert (one.cores, two.cores) == (4, 5)
    assert targets.load(known).cores == 4, "what was read stays"
    base = tmp_path / "base.toml"
    base.write_text('inherits = "ascend910b1"\n')
    (tmp_path / "above.toml").write_text('inherits = "base.toml"\n')
    above = targets.pinned(str(tmp_path / "above.toml"))
    base.write_text('inherits = "ascend910b1"\n[chip]\ncores = 3\n')
    with pytest.raises(InputError, match=r"above.toml: error: must say what it said when"):
        targets.load(above)


@pytest.mark.parametrize("name", targets.names())
def test_every_number_has_a_source(name: str) -> None:
    """A number of a machine that exists says in its line, or its neighbours', where it is from."""
    if name == "tiny":
        return
    text = (targets.FOLDER / f"{name}.toml").read_text("utf-8")
    for line in text.splitlines():
        key, is_value, rest = line.partition(" = ")
        if is_value and rest[0].isdigit():
            assert "#" in rest, f"{name}: '{key}' must have a source beside it"
