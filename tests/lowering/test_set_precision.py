"""Every operator can be computed in every precision, and its signature stays."""

from __future__ import annotations

import pytest
from xdsl.context import Context

from ge.dialects.graph.base import GraphOp
from ge.dialects.graph.module import main_of
from ge.dialects.module_text import print_module
from ge.lowering.set_precision import MODES, SetPrecisionPass
from tests.graph.test_ops import example_module, ops


@ops
@pytest.mark.parametrize("mode", MODES)
def test_a_graph_is_retyped_once_and_for_all(cls: type[GraphOp], mode: str) -> None:
    module = example_module(cls)
    signature = main_of(module).function_type
    SetPrecisionPass(mode).apply(Context(), module)
    module.verify()
    assert main_of(module).function_type == signature
    text = print_module(module)
    SetPrecisionPass(mode).apply(Context(), module)
    assert print_module(module) == text
