"""Runs the `// RUN:` lines of tests/filecheck in this process: ~20 ms a file instead of ~1 s."""

from __future__ import annotations

import importlib
import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

TOOLS = ("ge-opt", "ge-as", "ge-objdump", "ge-run", "ge-compile")
RUN = re.compile(r"(?://|;|#)\s*RUN:\s*(.*)")
SUFFIXES = (".mlir", ".s")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix in SUFFIXES and "filecheck" in file_path.parts:
        return FileCheckFile.from_parent(parent, path=file_path)
    return None


class FileCheckFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        for i, command in enumerate(_commands(self.path.read_text())):
            yield RunLine.from_parent(self, name=f"RUN{i}", command=command)


def _commands(text: str) -> Iterator[str]:
    """The RUN lines, those that end with a backslash joined to the next."""
    start = ""
    for found in RUN.finditer(text):
        start += found[1].strip()
        if start.endswith("\\"):
            start = start[:-1] + " "
        else:
            yield start
            start = ""


class RunLine(pytest.Item):
    """One command: tools joined by `|`; `not` before one that must fail, `2>&1` behind it."""

    def __init__(self, *, command: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = command

    def runtest(self) -> None:
        here = {"%s": str(self.path), "%S": str(self.path.parent), "%t": self._temporary()}
        command = re.sub("%[sSt]", lambda m: here[m[0]], self.command)
        text = ""
        for stage in command.split(" | "):
            text = _stage(shlex.split(stage), text)

    def _temporary(self) -> str:
        factory: Any = self.config._tmp_path_factory  # type: ignore[attr-defined]
        return str(factory.mktemp("filecheck", numbered=True) / "t")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        return f"{self.command}\n{excinfo.value}"

    def reportinfo(self) -> tuple[os.PathLike[str], int | None, str]:
        return self.path, 0, f"{self.path.name}: {self.command}"


def _stage(words: list[str], text: str) -> str:
    fails = words[0] == "not"
    both = words[-1] == "2>&1"
    words = words[fails : len(words) - both]
    if words[0] == "filecheck":
        return _filecheck(words, text)
    if words[0] not in TOOLS:
        raise AssertionError(f"unknown tool {words[0]}")
    tool = importlib.import_module("ge.tools." + words[0].replace("-", "_"))
    out, err = io.StringIO(), io.StringIO()
    stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    with (
        mock.patch.object(sys, "stdin", stdin),
        redirect_stdout(out),
        redirect_stderr(out if both else err),
    ):
        status = tool.main(words[1:])
    if bool(status) is not fails:
        raise AssertionError(f"{words[0]}: status {status}\n{err.getvalue()}{out.getvalue()}")
    return out.getvalue()


def _filecheck(words: list[str], text: str) -> str:
    from filecheck.finput import FInput
    from filecheck.matcher import Matcher
    from filecheck.options import parse_argv_options
    from filecheck.parser import Parser

    options = parse_argv_options(words)
    lines = FInput("-", FInput.canonicalize_line_ends(text))
    matcher = Matcher(options, lines, Parser.from_opts(options))
    matcher.stderr = io.StringIO()
    if matcher.run():
        raise AssertionError(f"{matcher.stderr.getvalue()}\n{text}")
    return ""
