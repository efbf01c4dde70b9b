"""The cases of ONNX's own backend suite, and which of them count as what."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
NUMBERS = frozenset(
    getattr(TensorProto, name)
    for name in (
        *("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL"),
        *("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
    )
)
RANDOM = frozenset(
    ("Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
OTHER = re.compile("Sequence(?!$)|Optional|ImageDecoder|String|Regex").search
"""Operators on what is no tensor of numbers."""
CONTROL = frozenset(("If", "Loop", "Scan"))
OTHER_FLOATS = frozenset((TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16))
NUMPY_SEED = re.compile(r"test_training_dropout(_default)?(_mask)?")
"""Their expected outputs are what numpy's own generator gives for a seed."""


Data = Sequence[tuple[Sequence[Any], Sequence[Any]]]


class Case(NamedTuple):
    """One case: a model, with inputs and the outputs that are expected."""

    name: str
    kind: str
    model: onnx.ModelProto
    data: Data
    rtol: float
    atol: float

    @property
    def operators(self) -> list[str]:
        """What the case is about: its operators, without repetition."""
        return list(dict.fromkeys(node.op_type for node in self.model.graph.node))


def cases() -> Iterator[Case]:
    """All cases, in the order of kinds and names."""
    for kind in KINDS:
        for test in sorted(load_model_tests(kind=kind), key=lambda t: t.name):
            if test.model is not None:
                yield Case(test.name, kind, test.model, test.data_sets or [], test.rtol, test.atol)
            else:
                stored = Path(test.model_dir or "")
                model, data = _light(test.url) if test.url else _stored(stored)
                yield Case(test.name, kind, model, data, test.rtol, test.atol)


def _stored(folder: Path) -> tuple[onnx.ModelProto, Data]:
    """A model and its data sets in a folder; what is no tensor stays the name of its file."""
    model = onnx.load(folder / "model.onnx")
    found = []
    for data in sorted(folder.glob("test_data_set_*")):
        sides = []
        for stem, infos in (("input", model.graph.input), ("output", model.graph.output)):
            count = len(list(data.glob(f"{stem}_*.pb")))
            types = [info.type for info in infos][:count]
            sides.append([_value(data / f"{stem}_{i}.pb", t) for i, t in enumerate(types)])
        found.append((sides[0], sides[1]))
    return model, found


def _light(url: str) -> tuple[onnx.ModelProto, Data]:
    """A network whose weights are constants, with the input that the suite's runner makes."""
    path = Path(onnx.__file__).parents[1] / url
    model = onnx.load(path)
    known = {i.name for i in model.graph.initializer}
    inputs = [Runner.generate_dummy_data(i) for i in model.graph.input if i.name not in known]
    output = path.with_name(f"{path.stem}_output_0.pb")
    return model, [(inputs, [_tensor(output)])]


def _value(path: Path, type_: onnx.TypeProto) -> Any:
    return _tensor(path) if type_.HasField("tensor_type") else path


def _tensor(path: Path) -> Any:
    tensor = TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def is_core(case: Case) -> bool:
    """Tensors of numbers only, nothing random, operators of ONNX itself only."""
    nodes = list(_nodes(case.model.graph))
    if any(
        n.domain not in ("", "ai.onnx") or n.op_type in RANDOM or OTHER(n.op_type) for n in nodes
    ):
        return False
    types = [v.type for v in (*case.model.graph.input, *case.model.graph.output)]
    return all(t.HasField("tensor_type") for t in types) and _elements(case) <= NUMBERS


def is_headline(case: Case) -> bool:
    """What an inference compiler for floats and integers is asked for: cases of one operator."""
    if case.kind != "node" or "_expanded" in case.name or not is_core(case):
        return False
    ends = (*case.model.graph.input, *case.model.graph.output)
    types = {v.type.tensor_type.elem_type for v in ends}
    plain = not types & OTHER_FLOATS and not CONTROL & set(case.operators)
    return plain and NUMPY_SEED.fullmatch(case.name) is None


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)


def _elements(case: Case) -> set[int]:
    """The element types of all tensors that a model names."""
    graph = case.model.graph
    infos = (*graph.input, *graph.output, *graph.value_info)
    found = {v.type.tensor_type.elem_type for v in infos}
    found |= {t.data_type for t in graph.initializer}
    for node in _nodes(graph):
        found |= {a.t.data_type for a in node.attribute if a.HasField("t")}
        found |= {a.i for a in node.attribute if a.name == "to"}
    return found - {TensorProto.UNDEFINED}
