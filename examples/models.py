"""The example models with seeded weights; `python examples/models.py DIR` writes them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

BATCH, LENGTH, HIDDEN, HEADS = 16, 128, 768, 12


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str | None]],
    outputs: Sequence[str],
    weights: Mapping[str, Any],
    opset: int,
    elements: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """A model of float inputs but for those in `elements`; output types are left to inference."""
    kinds = elements or {}
    ins = [
        helper.make_tensor_value_info(n, kinds.get(n, onnx.TensorProto.FLOAT), list(s))
        for n, s in inputs.items()
    ]
    outs = [onnx.ValueInfoProto(name=n) for n in outputs]
    initializers = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    graph = helper.make_graph(list(nodes), "g", ins, outs, initializers)
    # Below this, opset 7 asks for initializers among the inputs.
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


class Net:
    """Collects nodes and seeded weights."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Any] = {}
        self.prefix = ""
        """What all names of values begin with."""

    def __call__(self, op: str, *inputs: Any, outputs: int = 1, **attrs: Any) -> Any:
        """Add a node; an array becomes an initializer. Returns the output's name, or names."""
        names = [self.constant(i) if not isinstance(i, str) else i for i in inputs]
        made = [f"{self.prefix}{op.lower()}{len(self.nodes)}_{i}" for i in range(outputs)]
        name = attrs.pop("name", f"{op}_{len(self.nodes)}")
        self.nodes.append(helper.make_node(op, names, made, name, **attrs))
        return made[0] if outputs == 1 else made

    def constant(self, value: Any) -> str:
        """The name of a new initializer."""
        name = f"w{len(self.weights)}"
        self.weights[name] = value
        return name

    def normal(self, *shape: int, scale: float = 1.0) -> Any:
        """Normal random values."""
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)

    def model(
        self,
        inputs: Mapping[str, Sequence[int | str | None]],
        outputs: Sequence[str],
        opset: int,
        elements: Mapping[str, int] | None = None,
    ) -> onnx.ModelProto:
        """What was collected, as a model."""
        return model(self.nodes, inputs, outputs, self.weights, opset, elements)


def simple_transformer(
    opset: int = 17, shape: tuple[int, int, int] = (BATCH, LENGTH, HIDDEN), heads: int = HEADS
) -> onnx.ModelProto:
    """One encoder layer; below opset 17 the layer norms are written out, GELU always is."""
    net = Net(seed=17)
    width = shape[2]
    mixed = _attention(net, shape, heads)
    first = _layer_norm(net, net("Add", "x", mixed, name="residual1"), width, "norm1", opset)
    hidden = _linear(net, first, width, 4 * width, "mlp/up")
    out = _linear(net, _gelu(net, hidden), 4 * width, width, "mlp/down")
    y = _layer_norm(net, net("Add", first, out, name="residual2"), width, "norm2", opset)
    return _named(net.model({"x": shape}, [y], opset), y)


def _attention(net: Net, shape: tuple[int, int, int], heads: int) -> str:
    batch, length, width = shape
    depth = width // heads
    parts = {}
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        rows = _linear(net, "x", width, width, f"attention/{name}")
        split = net("Reshape", rows, np.array([batch, length, heads, depth]))
        parts[name] = net("Transpose", split, perm=order)
    scores = net("MatMul", parts["q"], parts["k"], name="attention/scores")
    scaled = net("Mul", scores, np.float32(depth**-0.5), name="attention/scale")
    weights = net("Softmax", scaled, axis=-1, name="attention/softmax")
    mixed = net("MatMul", weights, parts["v"], name="attention/mix")
    joined = net("Transpose", mixed, perm=[0, 2, 1, 3])
    flat = net("Reshape", joined, np.array([batch, length, width]))
    return _linear(net, flat, width, width, "attention/out")


def _linear(net: Net, x: str, i: int, o: int, name: str) -> str:
    product = net("MatMul", x, net.normal(i, o, scale=i**-0.5), name=f"{name}/MatMul")
    return str(net("Add", product, net.normal(o, scale=0.1), name=f"{name}/Add"))


def _layer_norm(net: Net, x: str, width: int, name: str, opset: int) -> str:
    scale, shift = 1 + net.normal(width, scale=0.1), net.normal(width, scale=0.1)
    epsilon = 1e-5
    if opset >= 17:
        return str(net("LayerNormalization", x, scale, shift, axis=-1, epsilon=epsilon, name=name))
    mean = net("ReduceMean", x, axes=[-1], name=f"{name}/mean")
    centred = net("Sub", x, mean, name=f"{name}/centre")
    square = net("Pow", centred, np.float32(2), name=f"{name}/square")
    variance = net("ReduceMean", square, axes=[-1], name=f"{name}/variance")
    root = net("Sqrt", net("Add", variance, np.float32(epsilon)), name=f"{name}/root")
    normal = net("Div", centred, root, name=f"{name}/normal")
    return str(net("Add", net("Mul", normal, scale), shift, name=f"{name}/shift"))


def _gelu(net: Net, x: str) -> str:
    error = net("Erf", net("Div", x, np.float32(2**0.5)), name="mlp/gelu/Erf")
    return str(net("Mul", net("Mul", x, net("Add", error, np.float32(1))), np.float32(0.5)))


def resnet_small(side: int = 64, width: int = 16) -> onnx.ModelProto:
    """A stem and three basic blocks of convolutions, pooled and classified."""
    net = Net(seed=3)
    x, channels = _conv(net, "x", 3, width, 3, "stem"), width
    x = net("Relu", x, name="stem/Relu")
    for number, (out, stride) in enumerate([(width, 1), (2 * width, 2), (4 * width, 2)]):
        x, channels = _block(net, x, channels, out, stride, f"block{number}"), out
    pooled = net("Flatten", net("GlobalAveragePool", x, name="pool"))
    weights = net.normal(10, channels, scale=channels**-0.5)
    y = net("Gemm", pooled, weights, net.normal(10, scale=0.1), transB=1, name="fc")
    return _named(net.model({"x": (1, 3, side, side)}, [y], 17), y)


def _block(net: Net, x: str, i: int, o: int, stride: int, name: str) -> str:
    first = net("Relu", _conv(net, x, i, o, 3, f"{name}/1", stride), name=f"{name}/1/Relu")
    second = _conv(net, first, o, o, 3, f"{name}/2")
    same = (i, stride) == (o, 1)
    skip = x if same else _conv(net, x, i, o, 1, f"{name}/skip", stride)
    return str(net("Relu", net("Add", second, skip, name=f"{name}/Add"), name=f"{name}/Relu"))


def _conv(net: Net, x: str, i: int, o: int, k: int, name: str, stride: int = 1) -> str:
    """A convolution and its batch norm."""
    weights = net.normal(o, i, k, k, scale=(i * k * k) ** -0.5)
    pads, strides = [k // 2] * 4, [stride, stride]
    y = net("Conv", x, weights, pads=pads, strides=strides, name=f"{name}/Conv")
    scale, shift, mean = (net.normal(o, scale=0.1) for _ in range(3))
    variance = net.rng.random(o).astype(np.float32) + np.float32(0.5)
    numbers = [1 + scale, shift, mean, variance]
    return str(net("BatchNormalization", y, *numbers, name=f"{name}/BatchNorm"))


def _named(made: onnx.ModelProto, output: str) -> onnx.ModelProto:
    """The model with its output called `y`."""
    for node in made.graph.node:
        node.output[:] = ["y" if name == output else name for name in node.output]
    made.graph.output[0].name = "y"
    return made


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "simple_transformer": simple_transformer,
    "simple_transformer_opset13": lambda: simple_transformer(opset=13),
    "resnet_small": resnet_small,
}


def main(folder: Path) -> None:
    """Write all models to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, build in MODELS.items():
        onnx.save(build(), folder / f"{name}.onnx")
        print(folder / f"{name}.onnx")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/models.py DIR")
    main(Path(sys.argv[1]))
