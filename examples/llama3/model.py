"""Decoder layers of Llama-3 as an ONNX graph; weights are inputs, so that they need no memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from examples.models import Net

HALF = 2
"""Bytes of an element."""
THETA = 500_000.0
"""What the slowest pair of a head turns by, nearly: one radian in so many tokens."""


@dataclass(frozen=True)
class Geometry:
    """The sizes of a Llama-3 model."""

    name: str
    hidden: int
    layers: int
    heads: int
    shared: int
    """Heads of keys and values: several heads of queries share one."""
    wide: int
    words: int = 128256
    tied: bool = False
    """Whether the head shares the embedding's table."""

    @property
    def depth(self) -> int:
        """The width of a head."""
        return self.hidden // self.heads

    @property
    def layer_weights(self) -> int:
        """Elements of a layer's matrices."""
        return self.hidden * (2 * self.hidden + 2 * self.shared * self.depth + 3 * self.wide)

    @property
    def weights_bytes(self) -> int:
        """Bytes of all weights in half precision, embedding and head included."""
        norms = (2 * self.layers + 1) * self.hidden
        tables = (1 if self.tied else 2) * self.words * self.hidden
        return HALF * (self.layers * self.layer_weights + norms + tables)

    def cache_bytes(self, batch: int, length: int) -> int:
        """Bytes of the keys and values of all layers."""
        return HALF * 2 * self.layers * batch * length * self.shared * self.depth

    def multiply_adds(self, batch: int, length: int, past: int, head: int) -> int:
        """Multiply-adds that `length` new tokens behind `past` ones need, `head` of them a word."""
        seen = length * past + length * (length + 1) // 2
        scores = 2 * self.hidden * seen
        layers = self.layers * (length * self.layer_weights + scores)
        return batch * (layers + head * self.hidden * self.words)


GEOMETRIES = {
    "8b": Geometry("Llama-3-8B", 4096, 32, 32, 8, 14336),
    "3.2-1b": Geometry("Llama-3.2-1B", 2048, 16, 32, 8, 8192, tied=True),
    "70b": Geometry("Llama-3-70B", 8192, 80, 64, 8, 28672),
}


def decoder(
    geometry: Geometry,
    length: int,
    past: int = 0,
    *,
    layers: int = 0,
    batch: int = 1,
    apart: bool = False,
) -> onnx.ModelProto:
    """`length` new tokens behind `past` cached ones, through `layers` layers, or all of them.

    All layers are followed by the product of the last token with the vocabulary. Queries, keys and
    values come of one product, or `apart` of three.
    """
    return _Decoder(geometry, length, past, layers, batch, apart).model()


def caches(model: onnx.ModelProto) -> dict[str, str]:
    """The caches that a decoder takes, each with what it makes of it."""
    nodes = (node for node in model.graph.node if node.op_type == "TensorScatter")
    return {node.input[0]: node.output[0] for node in nodes}


class _Decoder:
    def __init__(
        self, g: Geometry, length: int, past: int, layers: int, batch: int, apart: bool
    ) -> None:
        self.g = g
        self.apart = apart
        self.batch = batch
        self.length = length
        self.past = past
        self.inputs: dict[str, tuple[int, ...]] = {"input_ids": (batch, length)}
        self.inputs |= {"position_ids": (batch, length), "table": (g.words, g.hidden)}
        self.inputs |= {"start": (batch,)} if past else {}
        self.outputs: list[str] = []
        self.net = Net()
        x = self.net("Gather", "table", "input_ids", axis=0)
        self.turns = self._turns()
        for layer in range(layers or g.layers):
            x = self._layer(x, f"layer{layer}")
        if not layers:
            last = self.net("Slice", x, *(np.array([n]) for n in (length - 1, length, 1)))
            x = self._linear(self._norm(last, "norm"), "words", g.hidden, g.words)
        self.outputs.insert(0, x)

    def model(self) -> onnx.ModelProto:
        elements = dict.fromkeys(self.inputs, TensorProto.FLOAT16)
        elements |= dict.fromkeys(("input_ids", "position_ids"), TensorProto.INT32)
        elements |= {"start": TensorProto.INT64} if self.past else {}
        return self.net.model(self.inputs, self.outputs, 24, elements)

    def _turns(self) -> tuple[str, ...]:
        """Cosine and sine of how far the halves of a head are turned at each position."""
        shape = np.array([self.batch, self.length, 1])
        places = self.net("Cast", self.net("Reshape", "position_ids", shape), to=TensorProto.FLOAT)
        depth = self.g.depth
        speeds = (THETA ** -(np.arange(0, depth, 2) / depth)).astype(np.float32)
        angles = self.net("Mul", places, speeds)
        both = (self.net(op, angles) for op in ("Cos", "Sin"))
        return tuple(str(self.net("Cast", x, to=TensorProto.FLOAT16)) for x in both)

    def _layer(self, x: str, name: str) -> str:
        g = self.g
        mixed = self._attention(self._norm(x, f"{name}_norm1"), name)
        x = self.net("Add", x, self._linear(mixed, f"{name}_o", g.hidden, g.hidden))
        y = self._norm(x, f"{name}_norm2")
        gate, up = (self._linear(y, f"{name}_{n}", g.hidden, g.wide) for n in ("gate", "up"))
        inner = self.net("Mul", self.net("Mul", gate, self.net("Sigmoid", gate)), up)
        down = self._linear(inner, f"{name}_down", g.wide, g.hidden)
        return str(self.net("Add", x, down))

    def _attention(self, x: str, name: str) -> str:
        g = self.g
        q, k, v = self._projected(x, name)
        q = self.net("RotaryEmbedding", q, *self.turns, num_heads=g.heads)
        k = self.net("RotaryEmbedding", k, *self.turns, num_heads=g.shared)
        if not self.past:
            heads = {"q_num_heads": g.heads, "kv_num_heads": g.shared}
            self.outputs += [k, v]
            return str(self.net("Attention", q, k, v, is_causal=1, **heads))
        k, v = (self._cached(new, f"{name}_past_{n}") for new, n in ((k, "k"), (v, "v")))
        self.outputs += [k, v]
        mixed = self.net("Attention", self._apart(q, g.heads), k, v)
        joined = self.net("Transpose", mixed, perm=[0, 2, 1, 3])
        shape = np.array([self.batch, self.length, g.hidden])
        return str(self.net("Reshape", joined, shape))

    def _projected(self, x: str, name: str) -> list[str]:
        """Queries, keys and values."""
        g = self.g
        sizes = (g.hidden, *(g.shared * g.depth,) * 2)
        if self.apart:
            rows = zip("qkv", sizes, strict=True)
            return [self._linear(x, f"{name}_{n}", g.hidden, size) for n, size in rows]
        # What the compiler makes of three products with constant weights, which these are not.
        qkv = self._linear(x, f"{name}_qkv", g.hidden, sum(sizes))
        return list(self.net("Split", qkv, np.array(sizes), axis=2, outputs=3))

    def _cached(self, new: str, name: str) -> str:
        """The cache with the new tokens in their places, which are the next ones."""
        rows = self.past + self.length
        self.inputs[name] = (self.batch, self.g.shared, rows, self.g.depth)
        return str(self.net("TensorScatter", name, self._apart(new, self.g.shared), "start"))

    def _apart(self, x: str, heads: int) -> Any:
        shape = np.array([self.batch, self.length, heads, self.g.depth])
        return self.net("Transpose", self.net("Reshape", x, shape), perm=[0, 2, 1, 3])

    def _linear(self, x: str, name: str, inputs: int, outputs: int) -> str:
        # Checkpoints hold a row for each output.
        self.inputs[name] = (outputs, inputs)
        return str(self.net("MatMul", x, self.net("Transpose", name, perm=[1, 0])))

    def _norm(self, x: str, name: str) -> str:
        self.inputs[name] = (self.g.hidden,)
        return str(self.net("RMSNormalization", x, name, epsilon=1e-5))
