"""The operators that eager torch runs, as a graph of which each is one kernel.

`eager.json` has them as `record.py` heard them. What only rearranges strides is a view here too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from examples.llama3.model import Geometry
from examples.models import Net

LISTS = Path(__file__).with_name("eager.json")
OPSET = 24
TYPES = {"float16": TensorProto.FLOAT16, "float32": TensorProto.FLOAT}
VIEWS = ("t", "view", "_unsafe_view", "transpose", "expand", "unsqueeze", "slice", "detach")
"""What launches nothing."""
KINDS = {
    "input_ids": TensorProto.INT32,
    "position_ids": TensorProto.INT32,
    "model.rotary_emb.inv_freq": TensorProto.FLOAT,
}
"""Types of inputs; all others are weights or caches."""

Shape = tuple[int, ...]
Row = Mapping[str, Any]


@cache
def lists() -> dict[str, Any]:
    """The lists as they were recorded."""
    found: dict[str, Any] = json.loads(LISTS.read_text("utf-8"))
    return found


def launches(kind: str, layers: int) -> int:
    """Operators of a list that have a kernel."""
    parts = lists()[kind]
    first, layer, last = (_kernels(parts[name]) for name in ("first", "layer", "last"))
    return first + layers * layer + last


def _kernels(part: Sequence[Row]) -> int:
    return sum(row["op"] not in VIEWS for row in part)


def eager(
    geometry: Geometry, length: int, past: int = 0, *, layers: int = 0, batch: int = 1
) -> onnx.ModelProto:
    """The operators for `length` new tokens behind `past` ones: one where there are past ones."""
    return _Eager(geometry, length, past, batch).model(layers or geometry.layers)


class _Eager:
    def __init__(self, g: Geometry, length: int, past: int, batch: int) -> None:
        self.parts = lists()["decode" if past else "prefill"]
        self.sizes = {
            **{"batch": batch, "length": length, "seen": past + length, "rows": batch * length},
            **{"heads": g.heads, "shared": g.shared, "depth": g.depth, "half": g.depth // 2},
            **{"wide": g.wide, "words": g.words, "hidden": g.hidden},
            "hidden_shared": g.shared * g.depth,
        }
        self.net = Net()
        self.inputs: dict[str, Shape] = {}
        self.elements: dict[str, int] = {}
        self.names: dict[str, str] = {}
        self.outputs: list[str] = []

    def model(self, layers: int) -> onnx.ModelProto:
        self.part("first", "")
        x = self.names[self.parts["x"]]
        for layer in range(layers):
            self.names["x"] = x
            x = self.part("layer", f"layer{layer}.")
        self.names["x"] = x
        self.outputs.append(self.part("last", ""))
        return self.net.model(self.inputs, self.outputs, OPSET, self.elements)

    def part(self, name: str, where: str) -> str:
        """The operators of a part; the name of what the last one makes."""
        made = ""
        for row in self.parts[name]:
            made = self.row(row, where)
        return made

    def row(self, row: Row, where: str) -> str:
        op = row["op"]
        shape: Shape = tuple(self.sizes.get(d, d) for d in row["shape"])
        if row["type"] not in TYPES and op not in VIEWS:
            made = self.stand_in(shape)
        else:
            ins = [self.operand(name, where, row, shape) for name in row["in"]]
            made = RULES[op](self, ins, shape, row)
        self.names[row["out"]] = made
        return made

    def operand(self, name: str, where: str, row: Row, shape: Shape) -> str:
        """A value by the name it was recorded under; weights and caches are inputs."""
        if name in self.names:
            return self.names[name]
        full = name if name.startswith(("model.", "lm_head")) else where + name
        if full not in self.inputs:
            self.inputs[full] = self.shape_of_input(name, row, shape)
            self.elements[full] = KINDS.get(name, TensorProto.FLOAT16)
        return full

    def shape_of_input(self, name: str, row: Row, shape: Shape) -> Shape:
        s = self.sizes
        if name in ("input_ids", "position_ids"):
            return shape[:2]
        if row["op"] == "embedding":
            return s["words"], s["hidden"]
        if row["op"] == "t":
            return shape[::-1]
        return shape if row["op"] == "index_copy_" else shape[-1:]

    def stand_in(self, shape: Shape) -> str:
        """A kernel for what is done to numbers of positions: one that adds to so many numbers."""
        name = f"positions{len(shape)}_{'x'.join(map(str, shape))}"
        self.inputs[name], self.elements[name] = shape, TensorProto.FLOAT16
        return str(self.net("Add", name, np.array(1, np.float16)))


def _reshape(e: _Eager, ins: list[str], shape: Shape, row: Row) -> str:
    return str(e.net("Reshape", ins[0], np.array(shape)))


def _transpose(e: _Eager, ins: list[str], shape: Shape, row: Row) -> str:
    perm = list(range(len(shape)))
    a, b = row["with"]
    perm[a], perm[b] = perm[b], perm[a]
    return str(e.net("Transpose", ins[0], perm=perm))


def _slice(e: _Eager, ins: list[str], shape: Shape, row: Row) -> str:
    axis, start, end = (e.sizes.get(v, v) for v in row["with"])
    return str(e.net("Slice", ins[0], *(np.array([n]) for n in (start, end, axis))))


def _cast(e: _Eager, ins: list[str], shape: Shape, row: Row) -> str:
    return str(e.net("Cast", ins[0], to=TYPES[row["type"]]))


def _binary(name: str) -> Callable[..., str]:
    def made(e: _Eager, ins: list[str], shape: Shape, row: Row) -> str:
        number = np.array(row.get("with", [0])[0], np.dtype(row["type"]))
        return str(e.net(name, *ins, *(() if len(ins) == 2 else (number,))))

    return made


def _unary(name: str, **attrs: Any) -> Callable[..., str]:
    return lambda e, ins, shape, row: str(e.net(name, ins[0], **attrs))


def _concat(e: _Eager, ins: list[str], shape: Shape, row: Row) -> str:
    # Of timing alone matters that one kernel reads and writes so much: it repeats the first part.
    if len(ins) == 1:
        return str(e.net("Neg", ins[0]))
    *outer, inner = shape
    parts = [*outer, len(ins), inner // len(ins)]
    apart = e.net("Reshape", ins[0], np.array([*outer, 1, parts[-1]]))
    wide = e.net("Neg", e.net("Expand", apart, np.array(parts)))
    return str(e.net("Reshape", wide, np.array(shape)))


def _index_copy(e: _Eager, ins: list[str], shape: Shape, row: Row) -> str:
    # Torch writes the new row into the cache: a kernel of one row, and the cache is read as it is.
    e.outputs.append(str(e.net("Neg", ins[-1])))
    return ins[0]


def _attention(e: _Eager, ins: list[str], shape: Shape, row: Row) -> str:
    # A mask of all that is seen is left out: it would cost kernels that a device may do without.
    return str(e.net("Attention", *ins[:3], is_causal=int(row["causal"])))


def _embedding(e: _Eager, ins: list[str], shape: Shape, row: Row) -> str:
    return str(e.net("Gather", *ins, axis=0))


def _mean(e: _Eager, ins: list[str], shape: Shape, row: Row) -> str:
    return str(e.net("ReduceMean", ins[0], np.array([-1]), keepdims=1))


RULES: Mapping[str, Callable[..., str]] = {
    "t": lambda e, ins, shape, row: str(e.net("Transpose", ins[0], perm=[1, 0])),
    "detach": lambda e, ins, shape, row: ins[0],
    "view": _reshape,
    "_unsafe_view": _reshape,
    "unsqueeze": _reshape,
    "expand": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "_to_copy": _cast,
    "pow": lambda e, ins, shape, row: str(e.net("Mul", ins[0], ins[0])),
    "mul": _binary("Mul"),
    "add": _binary("Add"),
    "neg": _unary("Neg"),
    "cos": _unary("Cos"),
    "sin": _unary("Sin"),
    "silu": _unary("Swish"),
    "mean": _mean,
    "rsqrt": lambda e, ins, shape, row: str(e.net("Pow", ins[0], np.array(-0.5, np.float32))),
    "mm": lambda e, ins, shape, row: str(e.net("MatMul", *ins)),
    "cat": _concat,
    "index_copy_": _index_copy,
    "attention": _attention,
    "embedding": _embedding,
}
"""How each operator is written in ONNX."""
