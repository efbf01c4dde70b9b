"""Pages made from tables are fresh, and the recipe for an instruction does what it says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.files import FOLDERS, ROOT

USE = '''
from io import StringIO

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser
from xdsl.printer import Printer

from ge.codegen.objects import read_object, write_object
from ge.codegen.parse_asm import parse_asm
from ge.codegen.print_asm import print_asm
from ge.dialects.npu import Npu
from ge.runtime.simulator import simulate

LINE = "vhypot ub[0x200], ub[0x0], ub[0x100], size=[64], ds=[1], sa=[1], sb=[1], f32"
TEXT = f"""
.target tiny, cores=1
.input in0, "a", f32, 64
.input in1, "b", f32, 64
.output out0, "y", f32, 64
.function main
main:
  la x1, in0
  la x2, in1
  la x3, out0
  ld.ub ub[0], gm[x1], size=[64], strides=[1], f32
  ld.ub ub[256], gm[x2], size=[64], strides=[1], f32
  barrier
  {LINE}
  barrier
  st.gm gm[x3], ub[512], size=[64], ds=[1], ss=[1], f32
  halt
"""
data = write_object(parse_asm(TEXT))
program = read_object(data)
shown = print_asm(program)
assert LINE in shown.replace("  ", " ").replace("  ", " "), shown
assert write_object(parse_asm(shown)) == data

a, b = np.random.default_rng(0).standard_normal((2, 64), np.float32)
result = simulate(program, {"a": a, "b": b}, check_hazards=True)
np.testing.assert_array_equal(result.outputs["y"], np.hypot(a, b))
assert not result.hazards

context = Context()
context.load_dialect(Builtin)
context.load_dialect(Npu)
module = Parser(context, f"npu.{LINE}").parse_module()
module.verify()
out = StringIO()
Printer(out).print_op(module)
assert f"npu.{LINE}" in out.getvalue()
'''


def _python(*args: str, root: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    return subprocess.run(
        [sys.executable, *args], cwd=root, env=environment, capture_output=True, text=True
    )


def test_pages_made_from_tables_are_fresh() -> None:
    done = _python("docs/generate.py", "--check", root=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture
def copy_with_vhypot(tmp_path: Path) -> Path:
    """A copy of the project to which the recipe of CONTRIBUTING.md has been applied."""
    for folder in (*FOLDERS, "docs", "src", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    recipe = re.search(
        r"```python\n(@instr.*?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.DOTALL
    )
    assert recipe is not None
    with (tmp_path / "dialects/npu/isa/vector.py").open("a", encoding="utf-8") as rows:
        rows.write("\n\n" + recipe[1])
    return tmp_path


def test_one_row_is_a_working_instruction(copy_with_vhypot: Path) -> None:
    used = _python("-c", USE, root=copy_with_vhypot)
    assert used.returncode == 0, used.stderr
    checked = _python("docs/generate.py", "--check", root=copy_with_vhypot)
    assert checked.stdout == "docs/isa.md: stale, run make docs\n"
    _python("docs/generate.py", root=copy_with_vhypot)
    manual = (copy_with_vhypot / "docs/isa.md").read_text("utf-8")
    assert "### `vhypot dst, a, b, size=, ds=, sa=, sb=, dt`" in manual
    tests = "tests/codegen/test_round_trips.py"
    table = _python(
        "-m", "pytest", "-n0", "-pno:cacheprovider", "-kvhypot", tests, root=copy_with_vhypot
    )
    assert table.returncode == 0, table.stdout
    assert "2 passed" in table.stdout


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    broken = [
        f"{page.name}: {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
        if not (page.parent / link).exists()
    ]
    assert broken == []
