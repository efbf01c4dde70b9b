"""Fourier transforms as products with tables of cosines and sines."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ge.dialects.graph.ops.binary import AddOp, MulOp, SubOp
from ge.dialects.graph.ops.conv import ConvOp
from ge.dialects.graph.ops.linear import MatMulOp
from ge.dialects.graph.precision import Array
from ge.frontend.onnx_maths import Maths
from ge.frontend.onnx_nodes import Builder, Node, Refused, Value
from ge.frontend.onnx_versions import adapts

FEW_FRAMES = 8
"""Up to so many frames a signal is cut before it is multiplied; more of them are a convolution."""


def _tables(n: int, count: int, inverse: bool) -> tuple[Array, Array]:
    """Cosines and sines from `n` places to `count`, exact at quarters of a turn."""
    turns = np.outer(np.arange(n), np.arange(count)) % n
    quarter = 4 * turns % n == 0
    angle = 2 * np.pi * turns / n
    cosine = np.where(quarter, np.rint(np.cos(angle)), np.cos(angle))
    sine = np.where(quarter, np.rint(np.sin(angle)), np.sin(angle))
    return (cosine / n, -sine / n) if inverse else (cosine, sine)


def transformed(m: Maths, x: Value, count: int, *, inverse: bool, half: bool) -> Value:
    """Real and imaginary parts, the last dim, of the dim before it."""
    shape = m.shape(x)
    n, dtype = shape[-2], m.g.numpy_type(x)
    cosine, sine = (t.astype(dtype) for t in _tables(n, n // 2 + 1 if half else count, inverse))
    real = m.place(x, len(shape) - 1, 0)
    if shape[-1] == 1:
        parts = [m(MatMulOp, real, cosine), m(MulOp, m(MatMulOp, real, sine), -1.0)]
    else:
        imaginary = m.place(x, len(shape) - 1, 1)
        parts = [
            m(AddOp, m(MatMulOp, real, cosine), m(MatMulOp, imaginary, sine)),
            m(SubOp, m(MatMulOp, imaginary, cosine), m(MatMulOp, real, sine)),
        ]
    return m.stack(parts, len(shape) - 1)


def _real_again(m: Maths, x: Value, n: int) -> Value:
    """The real signal of `n` places behind the first half of its spectrum."""
    shape = m.shape(x)
    kept, dtype = shape[-2], m.g.numpy_type(x)
    cosine, sine = _tables(n, n, True)
    twice = np.full(kept, 2.0)
    twice[0] = 1.0
    if n % 2 == 0 and kept == n // 2 + 1:
        twice[-1] = 1.0
    tables = [(t[:kept] * twice[:, None]).astype(dtype) for t in (cosine, sine)]
    real, imaginary = (m.place(x, len(shape) - 1, i) for i in (0, 1))
    made = m(AddOp, m(MatMulOp, real, tables[0]), m(MatMulOp, imaginary, tables[1]))
    return m.reshape(made, *m.shape(made), 1)


@adapts("DFT")
def _dft(g: Builder, node: Node) -> list[Value]:
    m, x = Maths(g), node.needed(0)
    rank = len(m.shape(x))
    given = (node.attrs.get("axis", 1),) if node.version < 20 else node.ints(2, "axis")
    axis = (given or (-2,))[0] % rank
    perm = [i for i in range(rank - 1) if i != axis] + [axis, rank - 1]
    turned = m.transpose(x, *perm)
    inverse, half = bool(node.attrs.get("inverse", 0)), bool(node.attrs.get("onesided", 0))
    length = (node.ints(1, "dft_length") or (0,))[0]
    if inverse and half:
        n = length or 2 * (m.shape(turned)[-2] - 1)
        y = _real_again(m, m.slice(turned, rank - 2, 0, min(n // 2 + 1, m.shape(turned)[-2])), n)
    else:
        n = length or m.shape(turned)[-2]
        cut = m.slice(turned, rank - 2, 0, min(n, m.shape(turned)[-2]))
        rest = [n - m.shape(cut)[-2] if i == rank - 2 else 0 for i in range(rank)]
        y = transformed(m, m.pad(cut, (0,) * rank, rest), n, inverse=inverse, half=half)
    back = [perm.index(i) for i in range(rank)]
    return [m.transpose(y, *back)]


@adapts("STFT")
def _stft(g: Builder, node: Node) -> list[Value]:
    """Windows of a signal, each transformed"""
    m, x = Maths(g), node.needed(0)
    step, length = node.ints(1, "frame_step"), node.ints(3, "frame_length")
    window = node.input(2)
    if length is None and window is not None:
        length = m.shape(window)
    if step is None or length is None:
        raise Refused("needs 'frame_step' and the length of a frame")
    (size,), (by,) = length[:1], step[:1]
    if len(m.shape(x)) == 2:
        x = m.reshape(x, *m.shape(x), 1)  # As exporters write real signals.
    total, parts = m.shape(x)[1:]
    half = bool(node.attrs.get("onesided", 1)) and parts == 1
    count = (total - size) // by + 1
    if parts == 1 and count > FEW_FRAMES and not isinstance(window, SSAValue):
        return [_convolved(m, x, size, by, size // 2 + 1 if half else size, window)]
    frames = [m.slice(x, 1, at, at + size) for at in range(0, total - size + 1, by)]
    rows = m.stack(frames, 1)
    if window is not None:
        rows = m(MulOp, rows, m.reshape(window, size, 1))
    return [transformed(m, rows, size, inverse=False, half=half)]


def _convolved(m: Maths, x: Value, size: int, by: int, count: int, window: Array | None) -> Value:
    """The first `count` numbers of the spectrum of each frame of a real signal."""
    dtype = m.g.numpy_type(x)
    cosine, sine = _tables(size, count, False)
    shares = np.ones(size) if window is None else window.reshape(size).astype(np.float64)
    table = np.stack([cosine.T, -sine.T]).reshape(2 * count, 1, 1, size) * shares
    batch, total = m.shape(x)[:2]
    line = m.reshape(x, batch, 1, 1, total)
    made = m(ConvOp, line, table.astype(dtype), strides=(1, by))
    frames = m.shape(made)[-1]
    return m.transpose(m.reshape(made, batch, 2, count, frames), 0, 3, 2, 1)
