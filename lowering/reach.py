"""How far the keys reach that a constant mask leaves: what it hides need not be computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.ir import Block, BlockArgument, SSAValue

from ge.dialects.fused.base import ViewOp, YieldOp
from ge.dialects.fused.ops import AttentionOp
from ge.dialects.graph.base import constant_of, shape_of
from ge.dialects.graph.ops.binary import AddOp, MaxOp, WhereOp
from ge.dialects.lazy import lazy

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy("numpy")


class Mask(NamedTuple):
    """A region that does nothing to the scores but to hide some of them."""

    arg: BlockArgument
    """What says which: true where a score stays, or what is added to it."""
    hidden: float | None
    """What a hidden score becomes; None where the mask is added."""


HIDDEN = -6e4
"""A score that has this added has no weight: the lowest half float is below."""


def reach_of(scores: Block, masks: list[SSAValue], rows: int, keys: int) -> int | None:
    """The softmax of row i needs keys up to i plus this; None if it may need all.

    `scores` is the region on the scores, whose arguments behind the first stand for `masks`. Each
    row must be left a key: the softmax of nothing but hidden scores is that of all of them.
    """
    visible = None
    for arg, mask in zip(scores.args[1:], masks, strict=True):
        shown = _shown(arg, mask)
        if shown is None or shown.ndim < 2 or shown.shape[-2:] != (rows, keys):
            continue
        if shown.size != rows * keys:
            continue
        shown = shown.reshape(rows, keys)
        visible = shown if visible is None else visible & shown
    if visible is None or not visible.any(axis=1).all():
        return None
    last = keys - 1 - visible[:, ::-1].argmax(axis=1)
    reach = int((last - np.arange(rows)).max())
    return reach if reach + 1 < keys else None


def only_mask(op: AttentionOp) -> Mask | None:
    """The mask of a region that is nothing else."""
    scores, user = op.body.block.args[0], op.yielded.owner
    if isinstance(user, WhereOp) and user.operands[1] is scores:
        arg, other = user.operands[0], constant_of(user.operands[2])
        if isinstance(arg, BlockArgument) and other is not None and other.size == 1:
            return Mask(arg, float(other.reshape(-1)[0]))
    if isinstance(user, AddOp) and scores in user.operands:
        arg = next((v for v in user.operands if v is not scores), scores)
        if isinstance(arg, BlockArgument) and arg is not scores:
            return Mask(arg, None)
    return None


def clear_of(op: AttentionOp) -> int | None:
    """Query i has its scores for keys up to i plus this as they are; None if that is not known.

    Where a mask is added, it must leave each query a key.
    """
    mask = only_mask(op)
    array = _array(op.ins[op.ANCHOR_INS - 1 + mask.arg.index]) if mask else None
    rows, keys = shape_of(op.body.block.args[0])[-2:]
    if mask is None or array is None or array.shape[-2:] != (rows, keys):
        return None
    changed = (array == 0) if mask.hidden is not None else (array != 0)
    changed = changed.reshape(-1, rows, keys).any(axis=0)
    if mask.hidden is None and not (array > HIDDEN).any(axis=-1).all():
        return None
    first = np.where(changed.any(axis=1), changed.argmax(axis=1), rows + keys)
    clear = int((first - np.arange(rows)).min()) - 1
    return clear if clear > -rows else None


def _shown(arg: SSAValue, mask: SSAValue) -> Any:
    """Which scores a mask leaves; None if it is not known or does more than to hide."""
    array = _array(mask)
    uses = list(arg.uses)
    if array is None or len(uses) != 1:
        return None
    user = uses[0].operation
    if isinstance(user, WhereOp) and user.operands[0] is arg:
        other = constant_of(user.operands[2])
        hides = other is not None and other.size == 1 and float(other.reshape(-1)[0]) <= HIDDEN
        return array if hides and _ends(user.results[0]) else None
    if isinstance(user, AddOp) and np.issubdtype(array.dtype, np.floating):
        return array > HIDDEN if _ends(user.results[0]) else None
    return None


def _array(mask: SSAValue) -> Any:
    source = mask.owner.source if isinstance(mask.owner, ViewOp) else mask
    array = constant_of(source)
    shape = shape_of(mask)
    whole = array is not None and array.size == np.prod(shape)
    return array.reshape(shape) if array is not None and whole else None


def _ends(value: SSAValue) -> bool:
    """Whether a masked score goes to the softmax with nothing but masks on its way."""
    while True:
        uses = list(value.uses)
        if len(uses) != 1:
            return False
        user, index = uses[0].operation, uses[0].index
        if isinstance(user, YieldOp):
            return True
        masks = isinstance(user, WhereOp) and index == 1
        bounds = isinstance(user, MaxOp) and any(constant_of(v) is not None for v in user.operands)
        if not masks and not bounds:
            return False
        value = user.results[0]
