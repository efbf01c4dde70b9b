"""One forward walk with rules by operation type: linear, unlike a rewriter that looks for work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from ge.dialects.graph.base import Array, ConstantOp, GraphOp
from ge.dialects.graph.module import functions_of


class Here:
    """The place of an operation that a rule looks at: new operations go before it."""

    def __init__(self, op: GraphOp) -> None:
        self.op = op
        self.made: list[Operation] = []

    def make(
        self,
        cls: type[GraphOp],
        *operands: SSAValue | None,
        absorbs: Sequence[SSAValue] = (),
        **attrs: Any,
    ) -> SSAValue:
        """A new operation's first result; it stands for the old one and for those it absorbs."""
        new = cls.make(*operands, **attrs)
        owners = [self.op, *(v.owner for v in absorbs)]
        return self._put(new, [o for o in owners if isinstance(o, GraphOp)])

    def constant(self, array: Array) -> SSAValue:
        """A new constant."""
        return self._put(ConstantOp.of(array), [self.op])

    def _put(self, new: Any, owners: Sequence[GraphOp]) -> SSAValue:
        names = dict.fromkeys(n for o in owners for n in o.source.split(",") if n)
        if names:
            new.attributes["source"] = StringAttr(",".join(names))
        block = self.op.parent
        assert block is not None
        block.insert_op_before(new, self.op)
        self.made.append(new)
        result: SSAValue = new.results[0]
        return result

    def forget(self) -> None:
        """Take back what a rule made before it found that it does not apply."""
        for op in reversed(self.made):
            assert op.parent is not None
            op.parent.erase_op(op)
        self.made.clear()


Made: TypeAlias = "SSAValue | Sequence[SSAValue] | None"
Rule: TypeAlias = Callable[[Here, Any], Made]
"""The operation's result, or all of them, or None where the rule does not apply."""
Rules: TypeAlias = Mapping[type[GraphOp], Sequence[Rule]]


def rewrite(
    module: ModuleOp, rules: Rules, unless: Callable[[GraphOp], bool] = lambda _: False
) -> None:
    """Replace each operation for which a rule has another value, and drop what nothing reads then.

    Rules look back at operands only, so one walk in order is enough; what a rule made is looked at
    again. Operations of which `unless` holds are left as they are.
    """
    for function in functions_of(module):
        _rewrite(function.body.block, rules, unless)


def _rewrite(block: Block, rules: Rules, unless: Callable[[GraphOp], bool]) -> None:
    op: Any = block.first_op
    while op is not None:
        here = Here(op) if isinstance(op, GraphOp) and not unless(op) else None
        value = None if here is None else _first(here, rules.get(type(op), ()))
        if here is None or value is None:
            op = op.next_op
            continue
        after = here.made[0] if here.made else op.next_op
        values = [value] if isinstance(value, SSAValue) else value
        for result, new in zip(op.results, values, strict=True):
            if new.name_hint is None:
                new.name_hint = result.name_hint
            result.replace_all_uses_with(new)
        drop_unread(op)
        op = after


def _first(here: Here, rules: Sequence[Rule]) -> Made:
    for rule in rules:
        if (value := rule(here, here.op)) is not None:
            return value
        here.forget()
    return None


def drop_unread(op: Operation) -> None:
    """Erase an operation that nothing reads, and those that only it read."""
    worklist = [op]
    while worklist:
        dead = worklist.pop()
        if dead.parent is None or any(r.first_use is not None for r in dead.results):
            continue
        owners = {v.owner for v in dead.operands}
        dead.parent.erase_op(dead)
        worklist += [o for o in owners if isinstance(o, Operation) and is_side_effect_free(o)]
