"""The project's own files, found without git, so that an unpacked archive can be tested too."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("dialects", "frontend", "timing", "lowering", "codegen", "runtime", "tools")
"""The parts of the package, each a folder of the root."""
OTHERS = ("tests", "docs", "examples", "bench", ".ci", "src/ge")
SUFFIXES = {".py", ".lark", ".toml", ".md", ".mlir", ".s", ".cff", ""}


def files() -> list[Path]:
    """Every text file of the project."""
    found = [p for p in ROOT.iterdir() if p.is_file() and p.suffix in SUFFIXES and p.name != ".git"]
    for folder in (*FOLDERS, *OTHERS):
        # Links below src/ge lead to folders that are walked by their own names.
        inside = (ROOT / folder).iterdir() if folder == "src/ge" else (ROOT / folder).rglob("*")
        found += [
            p
            for p in inside
            if p.is_file() and p.suffix in SUFFIXES and "__pycache__" not in p.parts
        ]
    return sorted(found)


def name_of(path: Path) -> str:
    """A file's path from the root."""
    return path.relative_to(ROOT).as_posix()
