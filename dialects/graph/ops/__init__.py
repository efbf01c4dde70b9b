"""All operators, by family. A new family is named here; a new operator only in its family."""

from ge.dialects.graph.base import GraphOp
from ge.dialects.graph.ops import (
    activation,
    attention,
    binary,
    bitwise,
    bounded,
    conv,
    host,
    index,
    layout,
    linear,
    norm,
    pool,
    quantize,
    reduce,
    resize,
    trigonometry,
    unary,
)

FAMILIES = (
    binary,
    bitwise,
    unary,
    trigonometry,
    activation,
    linear,
    conv,
    norm,
    pool,
    quantize,
    reduce,
    layout,
    host,
    bounded,
    index,
    resize,
    attention,
)


def _operators() -> dict[str, type[GraphOp]]:
    rows: dict[str, type[GraphOp]] = {}
    for family in FAMILIES:
        for cls in vars(family).values():
            mine = isinstance(cls, type) and cls.__module__ == family.__name__
            if mine and issubclass(cls, GraphOp) and cls.ONNX:
                if cls.ONNX in rows:
                    raise ValueError(f"two operators are called {cls.ONNX} in ONNX")
                rows[cls.ONNX] = cls
    return rows


OPS = _operators()
"""Operators by their name in ONNX."""
