"""The models that figures are given for: the examples, and two that others published."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from examples.models import MODELS

CACHE = Path.home() / ".cache" / "ge-bench"
WHEEL = "rapidocr-onnxruntime==1.4.4"
CLASSIFIER = "ch_ppocr_mobile_v2.0_cls_infer.onnx"
CLASSIFIER_SHAPE = (1, 3, 48, 192)


class Unavailable(Exception):
    """A model that could not be had; it says why."""


def light_resnet50(side: int = 224, narrow: int = 1) -> onnx.ModelProto:
    """ResNet-50 of the onnx package with seeded weights; `narrow` divides its channels."""
    path = Path(onnx.__file__).parent / "backend/test/data/light/light_resnet50.onnx"
    model = onnx.load(path)
    graph = model.graph
    users = {name: (node, i) for node in graph.node for i, name in enumerate(node.input)}
    shapes = {n: shape for n, shape in _weight_shapes(graph).items() if n in users}
    rng = np.random.default_rng(50)
    kept = [i for i in graph.initializer if i.name in users and i.name not in shapes]
    made = {name: _weight(*users[name], shape, narrow, rng) for name, shape in shapes.items()}
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    data = graph.input[0].name
    _replace(graph.initializer, [*kept, *(numpy_helper.from_array(a, n) for n, a in made.items())])
    _replace(graph.node, nodes)
    _replace(graph.input, [i for i in graph.input if i.name == data])
    del graph.value_info[:]
    model.ir_version = 8
    _set_side(graph, side, narrow)
    return model


def _weight_shapes(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    """Shapes of what convolutions, batch norms and products take besides their input."""
    given = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    shapes = {name: array.shape for name, array in given.items() if array.dtype == np.float32}
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            shapes[node.output[0]] = tuple(map(int, given[node.input[0]]))
    return shapes


def _weight(
    user: onnx.NodeProto, place: int, shape: tuple[int, ...], narrow: int, rng: Any
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Random values that keep a signal's size; small ones at the end, so that no class wins."""
    classes = user.op_type == "Gemm"
    shape = tuple(
        n if n < 64 or (classes and axis == 0) else n // narrow for axis, n in enumerate(shape)
    )
    if len(shape) > 1:
        made = rng.standard_normal(shape) * np.prod(shape[1:]) ** -0.5 * (0.3 if classes else 1.0)
    elif user.op_type == "BatchNormalization" and place in (1, 4):
        made = rng.random(shape) + 0.5
    else:
        made = rng.standard_normal(shape) * 0.1
    return np.asarray(made, np.float32)


def _set_side(graph: onnx.GraphProto, side: int, narrow: int) -> None:
    """Another image size: the last pool covers what is left, the reshape takes the channels."""
    for dim in graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_value = side
    for node in graph.node:
        if node.op_type == "AveragePool":
            (kernel,) = (a for a in node.attribute if a.name == "kernel_shape")
            kernel.ints[:] = [side // 32] * 2
        if node.op_type == "Reshape":
            (shape,) = (i for i in graph.initializer if i.name == node.input[1])
            shape.CopyFrom(numpy_helper.from_array(np.array([1, 2048 // narrow]), shape.name))


def _replace(field: Any, values: Any) -> None:
    del field[:]
    field.extend(values)


def classifier() -> onnx.ModelProto:
    """The text direction classifier that a wheel brings; raises Unavailable without it."""
    path = CACHE / CLASSIFIER
    if not path.is_file():
        _download(path)
    model = onnx.load(path)
    for dim, n in zip(
        model.graph.input[0].type.tensor_type.shape.dim, CLASSIFIER_SHAPE, strict=True
    ):
        dim.dim_value = n
    return model


def _download(path: Path) -> None:
    """Take the model out of its wheel, which is not installed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = ["download", "--quiet", "--no-deps", "--dest", str(path.parent), WHEEL]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Unavailable(f"{WHEEL} could not be downloaded: {last}")
    (wheel,) = path.parent.glob("rapidocr_onnxruntime-1.4.4-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith(CLASSIFIER))
        path.write_bytes(archive.read(member))


WORKLOADS: dict[str, Callable[[], onnx.ModelProto]] = {
    **MODELS,
    "light_resnet50": light_resnet50,
    "ch_ppocr_mobile_v2.0_cls": classifier,
}
