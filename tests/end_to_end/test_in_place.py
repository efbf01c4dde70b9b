"""Outputs that are written over inputs: from the option to the array of the caller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import ge
from examples.models import Net
from ge.codegen.objects import read_object, write_object
from ge.codegen.parse_asm import parse_asm
from ge.dialects.diagnostics import InputError
from ge.tools.ge_compile import main as ge_compile
from ge.tools.ge_run import main as ge_run

ROWS, WIDE = 16, 24
BYTES = 4 * ROWS * WIDE


def cached(late: bool = False) -> onnx.ModelProto:
    """A row put into a cache at a place that is given, and a product of the whole.

    If `late`, something reads what was there before, too.
    """
    net = Net()
    present = net("TensorScatter", "past", "new", "at", axis=1)
    y = net("MatMul", present, net.normal(WIDE, 8))
    if late:
        y = net("Add", y, net("MatMul", "past", net.normal(WIDE, 8)))
    net.nodes.append(onnx.helper.make_node("Identity", [y], ["y"]))
    net.nodes[0].output[0] = "present"
    for node in net.nodes[1:]:
        node.input[:] = ["present" if n == present else n for n in node.input]
    shapes = {"past": (1, ROWS, WIDE), "new": (1, 1, WIDE), "at": (1,)}
    return net.model(shapes, ["y", "present"], 24, {"at": TensorProto.INT64})


def inputs(place: int) -> dict[str, Any]:
    rng = np.random.default_rng(place)
    shapes = {"past": (1, ROWS, WIDE), "new": (1, 1, WIDE)}
    made = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    return made | {"at": np.array([place])}


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    """The program that copies, and the one that writes over its input."""
    model, over = cached(), {"past": "present"}
    return ge.compile(model, target="tiny"), ge.compile(model, target="tiny", in_place=over)


def test_only_the_new_row_is_written(pair: tuple[Any, Any]) -> None:
    plain, model = pair
    assert model.program.outputs[1].symbol == model.program.inputs[0].symbol
    assert plain.program.bytes - model.program.bytes == BYTES
    written = plain.stats().hbm_write - model.stats().hbm_write
    assert written == BYTES
    assert plain.stats().hbm_read - model.stats().hbm_read == 0


@pytest.mark.parametrize("op", ["ScatterND", "ScatterElements"])
def test_rows_at_known_places_leave_all_others_alone(op: str) -> None:
    net, count = Net(), 3
    at = np.arange(5, 5 + count).reshape(-1, 1)
    if op == "ScatterElements":
        present = net(op, "past", np.repeat(at, WIDE, 1), "new", axis=0)
    else:
        present = net(op, "past", at, "new")
    model = net.model({"past": (ROWS, WIDE), "new": (count, WIDE)}, [present], 18)
    over = ge.compile(model, target="tiny", in_place={"past": present})
    given = {n: np.full((r, WIDE), r, np.float32) for n, r in (("past", ROWS), ("new", count))}
    want = np.full((ROWS, WIDE), ROWS)
    want[5 : 5 + count] = count
    np.testing.assert_array_equal(over.run(given, check_hazards=True)[present], want)
    assert over.stats().hbm_write == 4 * count * WIDE


def test_arrays_are_left_as_they_are_unless_they_are_given_up(pair: tuple[Any, Any]) -> None:
    plain, model = pair
    for place in range(4):
        given = inputs(place)
        before = given["past"].copy()
        want, got = plain.run(given), model.run(given, check_hazards=place == 0)
        np.testing.assert_array_equal(given["past"], before)
        assert not np.shares_memory(got["present"], before)
        for name in want:
            np.testing.assert_array_equal(got[name], want[name])


def test_a_cache_stays_where_it_is(pair: tuple[Any, Any]) -> None:
    plain, model = pair
    # Two that take turns: the program of one must not touch the other's.
    caches = [inputs(0)["past"], inputs(1)["past"]]
    wanted = [cache.copy() for cache in caches]
    for step in range(10):
        number = step % 2 if step > 3 else 0
        given = inputs(step)
        want = plain.run(given | {"past": wanted[number]})
        got = model.run(given | {"past": caches[number]}, in_place=True)
        wanted[number] = want["present"]
        assert got["present"] is caches[number]
        np.testing.assert_array_equal(got["y"], want["y"])
        np.testing.assert_array_equal(caches, wanted)


def test_memory_that_must_not_be_written_is_copied(pair: tuple[Any, Any]) -> None:
    given = inputs(2)
    wide = np.zeros((1, ROWS, 2 * WIDE), np.float32)
    wide[..., ::2] = given["past"]
    wanted = pair[0].run(given)["present"]
    for past in (wide[..., ::2], given["past"].copy()):
        past.flags.writeable = False
        for _ in range(3):
            got = pair[1].run(given | {"past": past}, in_place=True)
            np.testing.assert_array_equal(got["present"], wanted)
            np.testing.assert_array_equal(past, given["past"])


def test_memory_that_is_given_twice_is_copied() -> None:
    net = Net()
    net("Relu", "x")
    net("Add", "x", "y")
    net.nodes[0].output[0], net.nodes[1].output[0] = "z", "sum"
    model = net.model({"x": (8, 16), "y": (8, 16)}, ["z", "sum"], 17)
    program = ge.compile(model, target="tiny", in_place={"y": "z"})
    x = -np.ones((8, 16), np.float32)
    for _ in range(3):
        got = program.run({"x": x, "y": x}, in_place=True)
        np.testing.assert_array_equal(got["sum"], 2 * x)
        assert (x == -1).all()


def test_what_is_read_later_is_not_written_over() -> None:
    model = cached(late=True)
    plain = ge.compile(model, target="tiny")
    over = ge.compile(model, target="tiny", in_place={"past": "present"})
    assert not over.program.state
    given = inputs(3)
    want, got = plain.run(given), over.run(given, in_place=True)
    np.testing.assert_array_equal(got["y"], want["y"])


def test_text_and_object_say_it(pair: tuple[Any, Any]) -> None:
    program = pair[1].program
    text = pair[1].assembly
    assert '.output in0, "present", f32, 1x16x24' in text
    for again in (parse_asm(text), read_object(write_object(program))):
        assert again.state == program.state == {"in0"}
        assert again.bytes == program.bytes


def test_every_level_says_it(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    onnx.save(cached(), model)
    how = ["--target", "tiny"]
    assert ge_compile([str(model), *how, "--in-place", "past:present"]) == 0
    want = (tmp_path / "m.o").read_bytes()
    for level in ("graph", "fused", "npu"):
        text = tmp_path / f"{level}.mlir"
        said = ["--in-place", "past:present", "--emit", level, "-o", str(text)]
        assert ge_compile([str(model), *how, *said]) == 0
        assert ge_compile([str(text), *how]) == 0
        assert text.with_suffix(".o").read_bytes() == want
    # Instructions say it themselves.
    assert ge_compile([str(text), *how, "--in-place", "past:present"]) == 3
    text.write_text(text.read_text().replace('over = "past"', 'over = "pass"'))
    assert ge_compile([str(text), *how]) == 3


def test_tools_give_the_right_file(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    onnx.save(cached(), model)
    assert ge_compile([str(model), "--target", "tiny", "--in-place", "past:present"]) == 0
    given, files = inputs(5), []
    for name, array in given.items():
        np.save(tmp_path / f"{name}.npy", array)
        files += ["--input", f"{name}={tmp_path / name}.npy"]
    out = tmp_path / "out"
    assert ge_run([str(tmp_path / "m.o"), *files, "--output-dir", str(out), "--repeat", "3"]) == 0
    want = given["past"].copy()
    want[:, 5] = given["new"][0]
    np.testing.assert_array_equal(np.load(out / "present.npy"), want)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({"pas": "present"}, "got 'pas'; did you mean 'past'?"),
        ({"past": "y"}, "input 'past' must be of the type of 'y'"),
        ({"past": "presents"}, "got 'presents'; did you mean 'present'?"),
    ],
)
def test_what_cannot_be_is_named(pairs: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        ge.compile(cached(), target="tiny", in_place=pairs)
    assert message in str(caught.value)
