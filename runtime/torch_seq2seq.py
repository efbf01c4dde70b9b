"""Models with an encoder and a decoder: both run on the device, the decoder with its two caches."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad

from ge.dialects.diagnostics import UnsupportedError
from ge.lowering.pipelines import Options
from ge.runtime.torch_decoder import padded_length, static_cache
from ge.runtime.torch_held import Held, check_kinds
from ge.runtime.torch_model import Specialised, TorchModel
from ge.runtime.torch_pool import Pool

TAKEN = ("decoder_input_ids", "encoder_outputs", "cache")
"""Arguments by which such a model is known."""

_KNOWN = {*TAKEN, "attention_mask", "decoder_position_ids", "decoder_attention_mask", "use_cache"}

LAYERS = ("num_decoder_layers", "decoder_layers", "decoder_num_hidden_layers")
HEADS = ("decoder_attention_heads", "num_heads", "decoder_num_attention_heads")
KEY_HEADS = ("decoder_num_key_value_heads", *HEADS)
WIDTH = ("d_model", "hidden_size")
"""What configurations call the decoder's layers, its heads, those of keys, and its width."""


class _Step(nn.Module):
    """One call of the decoder as a function of tensors, which changes those of its own cache."""

    def __init__(self, model: nn.Module, takes_positions: bool) -> None:
        super().__init__()
        self.model = model
        self.takes_positions = takes_positions

    def forward(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        encoded: Any,
        encoder_mask: torch.Tensor | None,
        start: torch.Tensor,
        own: list[torch.Tensor],
        cross: list[torch.Tensor],
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The logits, and the other cache: `cross` may be empty, then it is computed.

        What the encoder made comes as it is: models have classes of their own for that.
        """
        from transformers.cache_utils import DynamicCache, EncoderDecoderCache

        cache = EncoderDecoderCache(static_cache(own, start), DynamicCache())
        for i, (keys, values) in enumerate(zip(cross[::2], cross[1::2], strict=True)):
            cache.cross_attention_cache.update(keys, values, i)
            cache.is_updated[i] = True
        more = {"decoder_position_ids": positions} if self.takes_positions else {}
        out = self.model.forward(
            decoder_input_ids=ids,
            encoder_outputs=encoded,
            attention_mask=encoder_mask,
            cache=cache,
            use_cache=True,
            **more,
        )
        made = cache.cross_attention_cache.layers
        return out.logits, [t for layer in made for t in (layer.keys, layer.values)]


class EncoderDecoder(TorchModel):
    """Calls that use a cache go through a decoder's step; others are those of any module."""

    def __init__(self, module: nn.Module, options: Options, **how: Any) -> None:
        super().__init__(module, options, **how)
        self._signature = inspect.signature(module.forward)
        positions = "decoder_position_ids" in self._signature.parameters
        self._pool = Pool()
        self._steps = TorchModel(_Step(module, positions), options, **how)

    @property
    def compiles(self) -> int:
        """How many programs there are."""
        return super().compiles + self._steps.compiles

    def saved(self) -> Specialised:
        """What is saved: the last call of either kind."""
        return self._steps.last or super().saved()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the model gives for these arguments, computed by the device."""
        given = dict(self._signature.bind(*args, **kwargs).arguments)
        given |= given.pop("kwargs", {})
        if given.get("cache") is None:
            return super().__call__(*args, **{**kwargs, "use_cache": False})
        return self._decode(given)

    def _decode(self, given: Mapping[str, Any]) -> Any:
        from transformers.modeling_outputs import Seq2SeqLMOutput

        cache, ids = given["cache"], given["decoder_input_ids"]
        encoded = given["encoder_outputs"]
        self._check(given)
        check_kinds(cache.self_attention_cache)
        empty = [self._empty(ids.shape[0])] * (2 * self._layers)
        own = Held(cache.self_attention_cache, empty, self._pool)
        cross = [t for c in cache.cross_attention_cache.layers for t in (c.keys, c.values)]
        length = ids.shape[1]
        behind = padded_length(length) - length
        buffers = own.buffers(own.past + length + behind)
        positions = given.get("decoder_position_ids")
        if positions is None:
            positions = torch.arange(own.past, own.past + length)[None].expand(ids.shape)
        logits, seen = self._steps(
            pad(ids, (0, behind)),
            pad(positions, (0, behind)),
            encoded,
            given.get("attention_mask"),
            torch.tensor([own.past]),
            buffers,
            cross if any(cache.is_updated.values()) else [],
        )
        own.take(buffers, own.past + length)
        if not any(cache.is_updated.values()):
            for i in range(self._layers):
                cache.cross_attention_cache.update(seen[2 * i], seen[2 * i + 1], i)
                cache.is_updated[i] = True
        return Seq2SeqLMOutput(
            logits=logits[:, :length], cache=cache, encoder_last_hidden_state=encoded[0]
        )

    def _check(self, given: Mapping[str, Any]) -> None:
        """What would be left out must not be asked for."""
        mask = given.get("decoder_attention_mask")
        other = [
            n for n, v in given.items() if n not in _KNOWN and v is not None and v is not False
        ]
        other = [n for n in other if n not in ("input_ids", "input_features", "return_dict")]
        if mask is not None and not bool(mask.bool().all()):
            other.append("decoder_attention_mask")
        if other:
            raise UnsupportedError(f"a call with a cache must not have '{other[0]}'")

    @property
    def _layers(self) -> int:
        return int(_first(self.module.config, *LAYERS))

    def _empty(self, batch: int) -> torch.Tensor:
        """A tensor of no tokens, shaped as the keys of a layer are."""
        config: Any = self.module.config
        heads = _first(config, *KEY_HEADS)
        width = getattr(config, "d_kv", None) or _first(config, *WIDTH) // _first(config, *HEADS)
        dtype = next(self.module.parameters()).dtype
        return torch.zeros(batch, heads, 0, width, dtype=dtype)


def _first(config: Any, *names: str) -> Any:
    """The first of several attributes that a configuration has."""
    for name in names:
        if (value := getattr(config, name, None)) is not None:
            return value
    raise UnsupportedError(f"a model that generates must have a '{names[0]}' in its configuration")


def is_encoder_decoder(module: nn.Module) -> bool:
    """Whether it generates with an encoder, as transformers does."""
    if not hasattr(module, "generate"):
        return False
    return set(TAKEN) <= set(inspect.signature(module.forward).parameters)
