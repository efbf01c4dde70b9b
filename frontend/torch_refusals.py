"""What a user is told of a module that no program can be made of, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import onnx_ir as ir
import torch

from ge.dialects.diagnostics import GeError, InputError, UnsupportedError
from ge.frontend.onnx_load import OpenShape
from ge.frontend.onnx_stages import NeedsStage, NeedsValues

BRANCHES = ("GuardOnDataDependent", "DataDependentOutput", "data-dependent")
"""What torch calls it that Python looked at the value of a tensor."""

ADVICE = (
    "what a Python 'if', 'for' or 'int()' sees would be fixed to this call's value; write it with "
    "torch.where or torch.cond, give the number as an argument that is no tensor, or load "
    "torch.jit.script(module)"
)
OUTSIDE = (
    "call it outside of the module, or in a function that is marked with torch.compiler.disable, "
    "which torch.compile leaves to torch"
)
UNKNOWN = re.compile(r"No ONNX function found for <OpOverload\(op='([\w.]+)', overload='(\w+)'")


class DecidesByValue(UnsupportedError):
    """A module that looks at the values of its tensors."""


def refusal(error: Exception, what: str) -> Exception:
    """What a user is told when an exporter gives up."""
    if isinstance(error, (InputError, UnsupportedError)):
        return error
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    first = _first_line(chain)
    # The interpreter of TorchScript passes on what an error says, not what it is.
    if any(branch in f"{type(e).__name__} {e}" for e in chain for branch in BRANCHES):
        return DecidesByValue(
            f"{what} must not decide by the value of a tensor, got one that does: {first}; {ADVICE}"
        )
    if unknown := UNKNOWN.search(first):
        operator = ".".join(unknown.groups()).removesuffix(".default")
        return UnsupportedError(
            f"{what} must be of operators that ONNX can say, got {operator}; {OUTSIDE}"
        )
    return UnsupportedError(f"{what} must be what torch.export can trace, got: {first}; {OUTSIDE}")


def _first_line(chain: Sequence[BaseException]) -> str:
    """The first line that says something, of the first cause."""
    lines = (line.strip() for e in reversed(chain) for line in str(e).splitlines())
    return next((line for line in lines if line), type(chain[-1]).__name__)


def in_words_of_torch(error: GeError, model: ir.Model) -> GeError:
    """What is wrong with a captured model, for somebody who has no ONNX file."""
    if isinstance(error, (NeedsStage, NeedsValues)):
        return UnsupportedError(
            "a module must give tensors whose shapes do not depend on what others hold, got one "
            "that does, as nonzero, bincount and x[mask] do; choose with torch.where, or multiply "
            "by the mask, or use torch.compile, which leaves it to torch"
        )
    if isinstance(error, OpenShape) and any(0 in (v.shape or ()) for v in model.graph.inputs):
        return UnsupportedError(
            "tensors that a module is given must have elements, got an empty one"
        )
    return error


def check_dense(tensor: torch.Tensor) -> None:
    """Raise UnsupportedError for a tensor that is not an array of numbers."""
    if tensor.is_nested:
        raise UnsupportedError(
            "tensors must be dense, got a nested one; give torch.nested.to_padded_tensor(x, 0) and "
            "a mask"
        )
    if tensor.layout is not torch.strided:
        raise UnsupportedError(
            f"tensors must be dense, got one in {tensor.layout}; give x.to_dense()"
        )
    if tensor.is_quantized:
        raise UnsupportedError("tensors must be plain, got a quantized one; give x.dequantize()")
