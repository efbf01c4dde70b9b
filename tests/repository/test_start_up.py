"""What the tools import: start-up is short, and no model library is needed behind the compiler."""

import os
import subprocess
import sys
from pathlib import Path

from tests.repository.files import ROOT

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src")}
HEAVY = ("numpy", "lark", "onnx", "onnx_ir", "torch")

MODEL = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""
WITHOUT_MODELS = """
import sys
from ge.tools import ge_as, ge_objdump, ge_opt, ge_run
text, module = sys.argv[1:]
assert ge_as.main([text, "-o", "p.o"]) == 0
assert ge_objdump.main(["p.o", "-d", "-h", "-t", "-r"]) == 0
assert ge_run.main(["p.o"]) == 0
assert ge_opt.main([module, "-p", "simplify-graph"]) == 0
print("loaded:", *sorted({"onnx", "onnx_ir", "torch", "onnxruntime"} & set(sys.modules)))
"""


def _python(*args: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env=ENVIRONMENT,
        check=True,
        capture_output=True,
        text=True,
    )


def _loaded(code: str) -> set[str]:
    log = _python("-X", "importtime", "-c", code).stderr
    return {line.rpartition("|")[2].strip() for line in log.splitlines()}


def test_the_text_tools_start_without_heavy_libraries() -> None:
    loaded = _loaded("import ge, ge.tools.ge_opt, ge.tools.ge_as, ge.tools.ge_objdump")
    assert loaded & set(HEAVY) == set()


def test_assembling_needs_no_compiler() -> None:
    loaded = _loaded("import ge.codegen.parse_asm, ge.codegen.print_asm, ge.codegen.objects")
    assert loaded & {"xdsl", *HEAVY} == set()


def test_the_simulator_knows_no_compiler() -> None:
    loaded = _loaded("import ge.tools.ge_run, ge.runtime.simulator, ge.runtime.report")
    assert loaded & {"xdsl", "ge.frontend", "ge.lowering"} == set()


def test_tools_behind_the_compiler_never_load_model_libraries(tmp_path: Path) -> None:
    (tmp_path / "p.s").write_text(".target tiny, cores=1\n.function main\nmain: halt\n")
    (tmp_path / "p.mlir").write_text(MODEL)
    done = _python("-c", WITHOUT_MODELS, "p.s", "p.mlir", cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "loaded:"
