"""What holds for the repository as a whole: links, sizes, directions, words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository.files import FOLDERS, ROOT, files, name_of

MOST_LINES = 400
MOST_TABLE_LINES = 500
TABLES = ("dialects/npu/isa/", "dialects/graph/ops/")
RANK = {
    "dialects": 0,
    "frontend": 1,
    "timing": 1,
    "lowering": 2,
    "codegen": 3,
    "runtime": 4,
    "tools": 5,
}
MACHINE_PATH = re.compile(r"(?<![\w.~*])/(?:work|tmp|home|root|Users)/")


@pytest.mark.parametrize("name", FOLDERS)
def test_each_part_is_linked_into_the_package(name: str) -> None:
    link = ROOT / "src" / "ge" / name
    assert link.is_symlink()
    assert link.resolve() == ROOT / name
    first = (ROOT / name / "__init__.py").read_text("utf-8")
    assert f'if __name__ != "ge.{name}":' in first


def test_every_folder_is_a_package() -> None:
    """Packaging leaves out folders that have no `__init__.py`."""
    folders = {p.parent for p in files() if p.suffix == ".py" and name_of(p).split("/")[0] in RANK}
    folders |= {p.parent for p in files() if p.suffix == ".py" and name_of(p).startswith("tests/")}
    assert [name_of(d) for d in sorted(folders) if not (d / "__init__.py").is_file()] == []


def test_no_file_is_too_long() -> None:
    too_long = []
    for path in files():
        if path.suffix in (".py", ".lark"):
            lines = len(path.read_text("utf-8").splitlines())
            most = MOST_TABLE_LINES if name_of(path).startswith(TABLES) else MOST_LINES
            if lines > most:
                too_long.append(f"{name_of(path)}: {lines} lines, at most {most}")
    assert too_long == []


def _imported(path: Path) -> Iterator[str]:
    """The parts of the package that a file imports, wherever in it and for whatever purpose."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: imports must be absolute"
            names = [node.module or ""]
            if node.module == "ge":
                names = [f"ge.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("ge."))


def test_imports_run_one_way() -> None:
    """dialects <- frontend, timing <- lowering <- codegen <- runtime <- tools."""
    wrong = []
    for path in files():
        name = name_of(path)
        part = name.split("/")[0]
        if part not in RANK or path.suffix != ".py":
            continue
        for other in sorted(set(_imported(path)) - {part}):
            if RANK.get(other, max(RANK.values())) >= RANK[part]:
                wrong.append(f"{name} imports ge.{other}")
    assert wrong == []


def test_no_file_names_a_place_of_one_machine() -> None:
    found = []
    for path in files():
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if MACHINE_PATH.search(line):
                found.append(f"{name_of(path)}:{number}: {line.strip()}")
    assert found == []
