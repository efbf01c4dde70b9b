"""The same decoder as transformers has it, captured by torch without weights (the torch extra)."""

from __future__ import annotations

import os
from typing import Any

import onnx_ir as ir
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from examples.llama3.model import THETA, Geometry
from ge.frontend.torch_capture import Captured, capture_module, flatten_arguments


class _Layer(DynamicLayer):
    """Keys and values of a layer in tensors with room for the new ones."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, places: torch.Tensor) -> None:
        super().__init__()
        self.keys, self.values, self.places = keys, values, places
        self.is_initialized = True

    def update(self, keys: torch.Tensor, values: torch.Tensor, *_: Any, **__: Any) -> Any:
        """Put in the new ones."""
        for into, new in ((self.keys, keys), (self.values, values)):
            into.index_copy_(2, self.places, new)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """How many were there before."""
        return int(self.keys.shape[2] - self.places.shape[0])


class _Step(nn.Module):
    """A call of the model as a function of tensors: caches go in and are changed, or come out."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: torch.Tensor, position_ids: torch.Tensor, past: list[torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        pairs = zip(past[::2], past[1::2], strict=True)
        cache = Cache(layers=[_Layer(*pair, position_ids[0]) for pair in pairs])
        made = DynamicCache() if not past else cache
        out = self.model(
            input_ids=input_ids,
            position_ids=position_ids,
            cache=made,
            use_cache=True,
            logits_to_keep=1,
        )
        return out.logits, *(() if past else (t for x in made.layers for t in (x.keys, x.values)))


def captured(
    geometry: Geometry, length: int, past: int = 0, *, layers: int = 0, batch: int = 1
) -> Captured:
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
            size = (batch, g.shared, past + length, g.depth)
            caches = [torch.zeros(size) for _ in range(2 * layers if past else 0)]
    finally:
        torch.set_default_dtype(before)
    leaves, spec = flatten_arguments((ids, ids.clone(), caches), {})
    found = capture_module(step, leaves, spec)
    assert found.model is not None
    _weights_as_inputs(found.model.graph)
    return found


def _weights_as_inputs(graph: ir.Graph) -> None:
    for name, value in list(graph.initializers.items()):
        tensor = getattr(value.const_value, "raw", None)
        if isinstance(tensor, torch.Tensor) and tensor.is_meta:
            del graph.initializers[name]
            value.const_value = None
            if value.uses():
                graph.inputs.append(value)
