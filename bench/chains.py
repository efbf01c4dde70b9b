"""Long models of small operators, to measure compile time on.

`python -m bench.chains OUT.onnx COUNT` writes one.
"""

from __future__ import annotations

import sys
from typing import Any

import onnx

from examples.models import Net

ROWS, WIDTH = 16, 32
LAYERS = 8
"""Operators of one layer below."""


def chain(count: int) -> Any:
    """A chain of `count` operators: products with bias and relu, elementwise, residuals."""
    net, x = Net(seed=count), "x"
    for layer in range(count // LAYERS):
        x = _layer(net, x, f"layer{layer}")
    for extra in range(count % LAYERS):
        x = net("Relu" if extra % 2 else "Neg", x)
    return net.model({"x": (ROWS, WIDTH)}, [x], opset=17)


def _layer(net: Net, x: str, name: str) -> str:
    product = net("MatMul", x, net.normal(WIDTH, WIDTH, scale=WIDTH**-0.5), name=f"{name}/MatMul")
    shifted = net("Add", product, net.normal(WIDTH), name=f"{name}/Add")
    active = net("Relu", shifted, name=f"{name}/Relu")
    sharp = net("Tanh", net("Mul", active, net.normal(WIDTH), name=f"{name}/Mul"))
    residual = net("Add", sharp, x, name=f"{name}/residual")
    gate = net("Sigmoid", residual, name=f"{name}/gate")
    return str(net("Mul", residual, gate, name=f"{name}/out"))


if __name__ == "__main__":
    onnx.save(chain(int(sys.argv[2])), sys.argv[1])
