"""Modules as text: reading with errors that say where, writing with weights beside the text."""

from __future__ import annotations

import importlib
import re
from bisect import bisect_right
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Dialect, Operation, Region, SSAValue
from xdsl.parser import Parser, ParserState
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

from ge.dialects.diagnostics import InputError, pointed
from ge.dialects.weights import Blob, WeightsAttr, WeightStore, make_weights_dialect, write_weights
from ge.dialects.weights_file import INLINE_BYTES

Parsed = TypeVar("Parsed")

WEIGHTS_FILE = "ge.weights"
"""The module attribute that names the weights file, relative to the text's folder."""

DIALECTS = {
    "builtin": "xdsl.dialects.builtin:Builtin",
    "func": "xdsl.dialects.func:Func",
    "test": "xdsl.dialects.test:Test",
    "graph": "ge.dialects.graph:Graph",
    "fused": "ge.dialects.fused:Fused",
    "npu": "ge.dialects.npu:Npu",
}


def make_context() -> Context:
    """A context that knows all dialects and imports each when it is first met."""
    ctx = Context()
    for name, where in DIALECTS.items():
        ctx.register_dialect(name, _lazy(where))
    ctx.register_dialect("ge", make_weights_dialect)
    return ctx


def _lazy(where: str) -> Callable[[], Dialect]:
    module, _, attribute = where.partition(":")

    def load() -> Dialect:
        dialect = getattr(importlib.import_module(module), attribute)
        assert isinstance(dialect, Dialect)
        return dialect

    return load


class _Lexer(MLIRLexer):
    """xDSL's expression for a string takes exponential time when the closing quote is missing.

    It also prints names beyond ASCII as escaped bytes, and reads those as no string. What begins
    with a point is nothing to it but `...`; here the operands of a branch may.
    """

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    _label_regex = re.compile(r"\.L\w+")

    def lex(self) -> MLIRToken:
        self._consume_whitespace()
        start = self.pos
        if self._consume_regex(self._label_regex) is not None:
            return self._form_token(MLIRTokenKind.BARE_IDENT, start)
        token = super().lex()
        if token.kind is not MLIRTokenKind.BYTES_LIT:
            return token
        try:
            StringLiteral.from_span(token.span).bytes_contents.decode()
        except UnicodeDecodeError:
            return token
        return Token(MLIRTokenKind.STRING_LIT, token.span)


class _LocatedParser(Parser):
    """A parser that notes on every operation the line and column where it starts."""

    def __init__(self, ctx: Context, text: str, name: str) -> None:
        super().__init__(ctx, "", name)
        self._parser_state = ParserState(_Lexer(Input(text, name)))
        self._file = StringAttr(name)
        self._starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]

    def parse_operation(self) -> Operation:
        start = self.pos
        op = super().parse_operation()
        line = bisect_right(self._starts, start)
        column = start - self._starts[line - 1] + 1
        op.location = FileLineColLoc(self._file, IntAttr(line), IntAttr(column))
        return op


def parse_module(text: str, name: str, ctx: Context) -> ModuleOp:
    """The module of a text; InputError names the place of what does not parse."""
    return _parsed(text, name, ctx, Parser.parse_module)


def _parsed(text: str, name: str, ctx: Context, read: Callable[[Parser], Parsed]) -> Parsed:
    parser = None
    try:
        parser = _LocatedParser(ctx, text, name)
        return read(parser)
    except RecursionError:
        raise InputError("must not be nested so deeply", name) from None
    except ValueError as e:
        # xDSL says so of names of blocks that are none.
        at = 0 if parser is None else parser.pos
        message = str(e.args[0] if e.args else e)
        raise _error_at(message, text, name, *_line_column(text, at)) from None
    except VerifyException as e:
        raise InputError(_first_line(e), name) from None
    except ParseError as e:
        message, at = e.msg.strip(), e.span.start
        if (unknown := re.match(r"Operation (\S+) is not registered", message)) is not None:
            # xDSL's position is one token late here.
            at = text.rfind(unknown[1], 0, at)
        raise _error_at(message, text, name, *_line_column(text, at)) from None


def parse_operation(text: str, name: str, ctx: Context) -> Operation:
    """The one operation of a text, verified; its operands are defined elsewhere.

    Raises InputError.
    """

    def read(parser: Parser) -> Operation:
        op = parser.parse_operation()
        if parser._current_token.kind is not MLIRTokenKind.EOF:
            parser.raise_error("must end behind one operation")
        op.verify()
        return op

    return _parsed(text, name, ctx, read)


def verify_module(module: ModuleOp, text: str = "", name: str = "module") -> None:
    """Check every operation and that values are defined before they are read."""
    try:
        module.verify()
        _check_order(module)
    except VerifyException as e:
        message = _first_line(e)
        where = _failing(module)
        if where is None:
            raise InputError(message, name) from None
        raise _error_at(message, text, name, *where) from None


def _first_line(error: VerifyException) -> str:
    """The message: xDSL notes the whole module on the error."""
    first, *more = str(error).removeprefix("Operation does not verify: ").splitlines()
    return f"{first} {more[0]}" if first.endswith(":") and more else first


def read_module(path: Path, ctx: Context) -> ModuleOp:
    """The verified module of a file, with the weights file it names."""
    try:
        text = path.read_text()
    except OSError as e:
        raise InputError(f"must be a readable file, {e.strerror}", str(path)) from None
    except UnicodeDecodeError:
        raise InputError("must be text, got other bytes", str(path)) from None
    module = parse_module(text, str(path), ctx)
    verify_module(module, text, str(path))
    attach_weights(module, path, ctx)
    return module


def attach_weights(module: ModuleOp, path: Path, ctx: Context) -> None:
    """Give the module's constants the bytes of the weights file it names, if it names one."""
    attr = module.attributes.get(WEIGHTS_FILE)
    if attr is None:
        return
    if not isinstance(attr, StringAttr):
        raise InputError(f"'{WEIGHTS_FILE}' must be a file name, got {attr}", str(path))
    folder = path.parent.resolve()
    file = (folder / attr.data).resolve()
    if folder not in file.parents:
        raise InputError(f"weights must lie in the text's folder, got '{attr.data}'", str(path))
    store = ctx.get_dialect("ge").get_interface(WeightStore)
    assert store is not None
    store.attach(file)


def print_module(module: ModuleOp) -> str:
    """The text of a module; constants above 1 KiB are named by their digest."""
    out = StringIO()
    Printer(stream=out).print_op(module)
    return out.getvalue() + "\n"


def write_module(module: ModuleOp, path: Path) -> None:
    """Write the text, and beside it `<stem>.weights` when constants are too large for it."""
    save_weights(module, path.with_suffix(".weights"))
    try:
        path.write_text(print_module(module))
    except OSError as e:
        raise InputError(f"must be writable, {e.strerror}", str(path)) from None


def save_weights(module: ModuleOp, file: Path, name: str = "") -> None:
    """Write the constants that are too large for the text to a file, and name it in the module."""
    module.attributes.pop(WEIGHTS_FILE, None)
    if large := large_weights(module):
        module.attributes[WEIGHTS_FILE] = StringAttr(name or file.name)
        write_weights(file, large)


def large_weights(module: ModuleOp) -> list[Blob]:
    """The constants at hand that are too large for the text."""
    return [b for b in _blobs(module) if not _inline(b) and b.is_here]


def _blobs(module: ModuleOp) -> list[Blob]:
    attrs = (a for op in module.walk() for a in (*op.properties.values(), *op.attributes.values()))
    return [a.data for a in attrs if isinstance(a, WeightsAttr)]


def _inline(blob: Blob) -> bool:
    return blob.nbytes <= INLINE_BYTES


def _line_column(text: str, at: int) -> tuple[int, int]:
    start = text.rfind("\n", 0, at) + 1
    return text.count("\n", 0, at) + 1, at - start + 1


def _error_at(message: str, text: str, name: str, line: int, column: int) -> InputError:
    lines = text.splitlines()
    source = lines[line - 1] if 0 < line <= len(lines) else ""
    detail = pointed(source, column) if source else ""
    return InputError(message.splitlines()[0], f"{name}:{line}:{column}", detail)


def _failing(module: ModuleOp) -> tuple[int, int] | None:
    """Where the first operation stands that does not verify by itself."""
    seen: set[SSAValue] = set()
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
            _check_operands(op, seen)
        except VerifyException:
            loc = op.location
            return (loc.line.data, loc.column.data) if isinstance(loc, FileLineColLoc) else None
        seen.update(op.results)
        seen.update(a for r in op.regions for b in r.blocks for a in b.args)
    return None


def _check_operands(op: Operation, seen: set[SSAValue]) -> None:
    if any(v not in seen for v in op.operands):
        raise VerifyException(f"{op.name}: an operand must be defined before it is read")


def _check_order(module: ModuleOp) -> None:
    """What xDSL does not check: definitions before uses."""
    seen: set[SSAValue] = set()

    def region(r: Region) -> None:
        for block in r.blocks:
            seen.update(block.args)
            for op in block.ops:
                _check_operands(op, seen)
                for inner in op.regions:
                    region(inner)
                seen.update(op.results)

    for r in module.regions:
        region(r)
