"""Weights in text, in stores and in files, well-formed and not."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.diagnostics import InputError
from ge.dialects.graph.base import ConstantOp, of_array
from ge.dialects.module_text import (
    make_context,
    parse_module,
    print_module,
    read_module,
    write_module,
)
from ge.dialects.weights import Blob, WeightsAttr, read_weights, to_array, write_weights

LARGE = np.arange(1000, dtype=np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool", "uint8"])
def test_arrays_come_back_without_a_copy(dtype: str) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype)
    back = to_array(WeightsAttr.of(array), of_array(array))
    np.testing.assert_array_equal(back, array)
    assert np.shares_memory(back, array)


def test_equal_bytes_are_one_attribute() -> None:
    assert WeightsAttr.of(LARGE) == WeightsAttr.of(LARGE.copy())
    assert hash(WeightsAttr.of(LARGE)) == hash(WeightsAttr.of(LARGE.copy()))
    assert WeightsAttr.of(LARGE) != WeightsAttr.of(LARGE + 1)


def test_large_constants_travel_in_a_file(tmp_path: Path) -> None:
    small, empty = np.array([1, 2], np.float32), np.zeros((0, 3), np.float32)
    module = ModuleOp([ConstantOp.of(a) for a in (LARGE, small, empty)])
    path = tmp_path / "m.mlir"
    write_module(module, path)
    assert 'ge.weights = "m.weights"' in path.read_text()
    back = read_module(path, make_context())
    for op, array in zip(back.body.block.ops, (LARGE, small, empty), strict=True):
        assert isinstance(op, ConstantOp)
        np.testing.assert_array_equal(op.array, array)
    assert print_module(back) == path.read_text()


def test_values_that_are_not_there_are_only_missed_when_read() -> None:
    text = print_module(ModuleOp([ConstantOp.of(LARGE)]))
    module = parse_module(text, "m.mlir", make_context())
    assert print_module(module) == text
    (op,) = module.body.block.ops
    assert isinstance(op, ConstantOp)
    with pytest.raises(InputError, match="must be at hand, got no file"):
        _ = op.array


def test_other_bytes_than_named_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    write_module(ModuleOp([ConstantOp.of(LARGE)]), path)
    weights = path.with_suffix(".weights")
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    (op,) = read_module(path, make_context()).body.block.ops
    assert isinstance(op, ConstantOp)
    with pytest.raises(InputError, match="must have that digest, its bytes differ"):
        _ = op.array


def test_a_weights_file_must_lie_beside_the_text(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    path.write_text('builtin.module attributes {ge.weights = "../x.weights"} {}')
    with pytest.raises(InputError, match="must lie in the text's folder"):
        read_module(path, make_context())


def test_files_are_aligned_and_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "w.weights"
    blobs = [Blob.of(memoryview(bytes(n))) for n in (3, 64, 128, 6)]
    write_weights(path, [*blobs, blobs[0]])
    (length,) = struct.unpack("<Q", path.read_bytes()[:8])
    header = json.loads(path.read_bytes()[8 : 8 + length])
    assert (8 + length) % 64 == 0
    starts = {row["shape"][0]: row["data_offsets"][0] for row in header.values()}
    assert starts[64] % 64 == 0 == starts[128] % 64
    assert {d: bytes(b) for d, b in read_weights(path).items()} == {
        b.digest: bytes(b.data) for b in blobs
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must start with an 8-byte length, got 0 bytes"),
        (struct.pack("<Q", 1 << 60) + b"{}", "header must lie in the file"),
        (struct.pack("<Q", 2) + b"{]", "header must be JSON"),
        (struct.pack("<Q", 2) + b"[]", "header must be a JSON object, got list"),
        (struct.pack("<Q", 7) + b'{"a":1}', "'a' must lie in the file's 0 bytes, got None"),
        (
            struct.pack("<Q", 29) + b'{"a":{"data_offsets":[0, 9]}}' + bytes(8),
            r"'a' must lie in the file's 8 bytes, got \[0, 9\]",
        ),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "w.weights"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_weights(path)
