"""The same decoder as transformers has it, captured by torch without weights (the torch extra)."""

from __future__ import annotations

import os
from typing import Any

import onnx_ir as ir
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.cache_utils import DynamicCache

from examples.llama3.model import THETA, Geometry
from ge.frontend.torch_capture import capture_module, flatten_arguments


class _Step(nn.Module):
    """A call of the model as a function of tensors: what is cached goes in and comes out."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: torch.Tensor, position_ids: torch.Tensor, past: list[torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(zip(past[::2], past[1::2], strict=True)):
            cache.update(keys, values, layer)
        out = self.model(
            input_ids=input_ids,
            position_ids=position_ids,
            cache=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return (out.logits, *(t for layer in cache.layers for t in (layer.keys, layer.values)))


def captured(
    geometry: Geometry, length: int, past: int = 0, *, layers: int = 0, batch: int = 1
) -> ir.Model:
    """`length` new tokens behind `past` cached ones; weights are inputs, so that they need none."""
    # Heads that share keys are not to be given copies of them.
    os.environ["TRANSFORMERS_SDPA_FORCE_GQA"] = "1"
    g, layers = geometry, layers or geometry.layers
    config = LlamaConfig(
        hidden_size=g.hidden,
        intermediate_size=g.wide,
        num_hidden_layers=layers,
        num_attention_heads=g.heads,
        num_key_value_heads=g.shared,
        vocab_size=g.words,
        rope_theta=THETA,
        max_position_embeddings=length + past,
        tie_word_embeddings=g.tied,
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        with torch.device("meta"):
            step = _Step(LlamaForCausalLM(config).eval())
            ids = torch.zeros(batch, length, dtype=torch.int64)
            size = (batch, g.shared, past, g.depth)
            caches = [torch.zeros(size) for _ in range(2 * layers if past else 0)]
    finally:
        torch.set_default_dtype(before)
    leaves, spec = flatten_arguments((ids, ids.clone(), caches), {})
    model = capture_module(step, leaves, spec).model
    assert model is not None
    _weights_as_inputs(model.graph)
    return model


def _weights_as_inputs(graph: ir.Graph) -> None:
    for name, value in list(graph.initializers.items()):
        tensor = getattr(value.const_value, "raw", None)
        if isinstance(tensor, torch.Tensor) and tensor.is_meta:
            del graph.initializers[name]
            value.const_value = None
            graph.inputs.append(value)
