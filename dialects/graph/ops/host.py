"""Operators without anything regular in them: the AI CPU computes them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def

from ge.dialects import dtypes
from ge.dialects.graph.base import TENSOR, Array, Tensor, TensorOp, axis_of, dims, need, tensor
from ge.dialects.graph.kinds import Choice, Floats, Int, Ints, attribute
from ge.dialects.graph.precision import in_single


@irdl_op_definition
class DetOp(TensorOp):
    """
    The determinant of the last two dims.

    ```mlir
    %r = graph.det %x : (tensor<5x3x3xf32>) -> tensor<5xf32>
    ```
    """

    name = "graph.det"
    ONNX: ClassVar = "Det"
    HOST: ClassVar = True
    x = operand_def(TENSOR)

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        shape = dims(x)
        square = len(shape) >= 2 and shape[-1] == shape[-2]
        need(square and dtypes.of_ir(x.element_type).is_float, f"must be square, got {x}")
        return tensor(shape[:-2], x.element_type)

    @staticmethod
    @in_single
    def evaluate(x: Array) -> Array:
        return np.linalg.det(x)


@irdl_op_definition
class ReverseSequenceOp(TensorOp):
    """
    For each `i` of the batch the first `lengths[i]` elements of time in reverse.

    ```mlir
    %r = graph.reverse_sequence %x, %lengths
      : (tensor<4x2xf32>, tensor<2xi64>) -> tensor<4x2xf32>
    ```
    """

    name = "graph.reverse_sequence"
    ONNX: ClassVar = "ReverseSequence"
    HOST: ClassVar = True
    x = operand_def(TENSOR)
    sequence_lens = operand_def(TENSOR)
    batch_axis = attribute(Int(1))
    time_axis = attribute(Int(0))

    @staticmethod
    def infer(x: Tensor, sequence_lens: Tensor, *, batch_axis: int, time_axis: int) -> Tensor:
        axes = axis_of(batch_axis, len(dims(x))), axis_of(time_axis, len(dims(x)))
        need(sorted(axes) == [0, 1], f"the axes must be 0 and 1, got {axes}")
        want = (dims(x)[axes[0]],)
        need(dims(sequence_lens) == want, f"must have {want[0]} lengths, got {sequence_lens}")
        return x

    @staticmethod
    def evaluate(x: Array, sequence_lens: Array, *, batch_axis: int, time_axis: int) -> Array:
        batch, most = batch_axis % x.ndim, x.shape[time_axis]
        if sequence_lens.size and not 0 <= sequence_lens.min() <= sequence_lens.max() <= most:
            raise IndexError(f"lengths must be 0 to {most}")
        out = x.copy()
        rows, into = x.swapaxes(0, batch), out.swapaxes(0, batch)
        for row, reversed_, n in zip(rows, into, sequence_lens, strict=True):
            reversed_[:n] = row[:n][::-1]
        return out


class Weighting(StrEnum):
    """What a count of n-grams becomes; the words are those of ONNX."""

    TF = "TF"
    IDF = "IDF"
    TFIDF = "TFIDF"


@irdl_op_definition
class TfIdfVectorizerOp(TensorOp):
    """
    How often each n-gram of a pool of integers occurs in each row, with gaps of up to a length.

    ```mlir
    %r = graph.tf_idf_vectorizer %x {max_gram_length = 2, max_skip_count = 0, min_gram_length = 1,
      mode = TF, ngram_counts = [0, 2], ngram_indexes = [0, 1, 2], pool_int64s = [2, 3, 5, 4]}
      : (tensor<2x6xi32>) -> tensor<2x3xf32>
    ```
    """

    name = "graph.tf_idf_vectorizer"
    ONNX: ClassVar = "TfIdfVectorizer"
    HOST: ClassVar = True
    x = operand_def(TENSOR)
    max_gram_length = attribute(Int())
    max_skip_count = attribute(Int())
    min_gram_length = attribute(Int())
    mode = attribute(Choice(words=Weighting))
    ngram_counts = attribute(Ints())
    ngram_indexes = attribute(Ints())
    pool_int64s = attribute(Ints())
    weights = attribute(Floats(None))

    @staticmethod
    def infer(x: Tensor, *, ngram_indexes: tuple[int, ...], **how: Any) -> Tensor:
        fits = len(dims(x)) in (1, 2) and dtypes.of_ir(x.element_type) in (dtypes.I32, dtypes.I64)
        need(fits, f"must be one row or rows of integers, got {x}")
        need(min(ngram_indexes, default=0) >= 0, "places of the result must be 0 or more")
        return tensor((*dims(x)[:-1], max(ngram_indexes, default=-1) + 1), dtypes.F32.ir)

    @staticmethod
    def evaluate(
        x: Array,
        *,
        max_gram_length: int,
        max_skip_count: int,
        min_gram_length: int,
        mode: Weighting,
        ngram_counts: tuple[int, ...],
        ngram_indexes: tuple[int, ...],
        pool_int64s: tuple[int, ...],
        weights: tuple[float, ...] | None,
    ) -> Array:
        grams = _grams(pool_int64s, ngram_counts, min_gram_length, max_gram_length)
        rows = np.atleast_2d(x)
        counts = np.zeros((len(rows), max(ngram_indexes, default=-1) + 1), np.float32)
        for row, into in zip(rows.tolist(), counts, strict=True):
            for gram in _occurring(row, min_gram_length, max_gram_length, max_skip_count):
                if gram in grams:
                    into[ngram_indexes[grams[gram]]] += 1
        factor = np.ones(counts.shape[1], np.float32)
        if weights is not None:
            factor[list(ngram_indexes)] = weights
        if mode is not Weighting.TF:
            counts = (counts > 0) * factor if mode is Weighting.IDF else counts * factor
        return counts.astype(np.float32).reshape(*x.shape[:-1], -1)


Gram = tuple[int, ...]


def _grams(pool: Gram, counts: Gram, least: int, most: int) -> dict[Gram, int]:
    """The n-grams of the pool by their order; those of other lengths have their places, too."""
    found: dict[Gram, int] = {}
    number = 0
    for length, start in enumerate(counts, 1):
        end = counts[length] if length < len(counts) else len(pool)
        for at in range(start, end - length + 1, length):
            if least <= length <= most:
                found[pool[at : at + length]] = number
            number += 1
    return found


def _occurring(row: list[int], least: int, most: int, skips: int) -> Iterator[Gram]:
    """All n-grams of a row; single ones have no gaps."""
    for length in range(least, most + 1):
        for gap in range(1, (skips if length > 1 else 0) + 2):
            span = (length - 1) * gap + 1
            for at in range(len(row) - span + 1):
                yield tuple(row[at : at + span : gap])
