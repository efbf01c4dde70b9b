"""Language models of transformers with a cache: a few shapes serve every length.

A call is padded to one of few lengths, its cache to a capacity; what is padded is masked. The cache
stays what the caller knows it as, its tensors being views of the padded ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad

from ge.dialects.diagnostics import UnsupportedError
from ge.lowering.pipelines import Options
from ge.runtime.torch_model import Specialised, TorchModel

CAPACITY = 64
"""Tokens that a growing cache has room for at first; it doubles when they are not enough."""
SHORTEST = 16
"""Tokens that a call of more than one is padded to at least."""

BUFFERS = "_ge_buffers"


class _Step(nn.Module):
    """One call of the model as a function of tensors: the cache goes in and comes out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor,
        start: torch.Tensor,
        kept: torch.Tensor,
        cache: list[torch.Tensor],
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The logits at the places `kept`, and the cache with the tokens from `start` on."""
        from transformers.cache_utils import StaticCache

        capacity = cache[0].shape[2]
        static = StaticCache(config=self.model.config, max_cache_len=capacity)
        for layer, keys, values in zip(static.layers, cache[::2], cache[1::2], strict=True):
            layer.keys, layer.values = keys, values
            layer.device, layer.dtype = keys.device, keys.dtype
            layer.cumulative_length = start[0].clone()
            layer.is_initialized = True
        out = self.model.forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            cache=static,
            use_cache=True,
            logits_to_keep=kept,
        )
        return out.logits, [t for layer in static.layers for t in (layer.keys, layer.values)]


@dataclass
class _Call:
    """The arguments of a call, as they are whether they were given or not."""

    ids: torch.Tensor
    mask: torch.Tensor
    positions: torch.Tensor
    kept: torch.Tensor
    past: int

    @property
    def length(self) -> int:
        return int(self.ids.shape[1])

    @classmethod
    def of(cls, given: Mapping[str, Any], past: int) -> _Call:
        ids = given["input_ids"]
        batch, length = ids.shape
        mask = given.get("attention_mask")
        if isinstance(mask, dict):
            mask = mask["full_attention"]
        if mask is None:
            mask = torch.ones(batch, past + length, dtype=torch.int64)
        positions = given.get("position_ids")
        if positions is None:
            positions = torch.arange(past, past + length)[None]
        keep = given.get("logits_to_keep", 0)
        if not isinstance(keep, torch.Tensor):
            keep = torch.arange(length - keep if keep else 0, length)
        return cls(ids, mask, positions.expand(batch, length), keep, past)


class Decoder:
    """Runs a causal language model with a cache that the caller holds."""

    def __init__(self, model: nn.Module, runner: TorchModel) -> None:
        self._config = model.config.get_text_config(decoder=True)
        self._layers = self._config.num_hidden_layers
        self._runner = TorchModel(
            _Step(model), runner.options, check=runner.check, cache=runner.cache
        )

    @property
    def compiles(self) -> int:
        """How many programs there are."""
        return self._runner.compiles

    @property
    def last(self) -> Specialised | None:
        """What the last call ran."""
        return self._runner.last

    def run(self, given: Mapping[str, Any]) -> Any:
        """The model's output for arguments by name."""
        from transformers.cache_utils import DynamicCache, StaticCache
        from transformers.modeling_outputs import CausalLMOutputWithPast

        cache = given.get("cache")
        cache = DynamicCache() if cache is None else cache
        held: _Static | Growing
        if isinstance(cache, StaticCache):
            held = _Static(cache, self._shape(given["input_ids"]))
        elif isinstance(cache, DynamicCache):
            held = Growing(cache, self._layers, self._shape(given["input_ids"]))
        else:
            raise _unknown(cache)
        call = _Call.of(given, held.past)
        logits = self._step(call, held)
        if given.get("return_dict") is False:
            return logits, cache
        return CausalLMOutputWithPast(logits=logits, cache=cache)

    def _step(self, call: _Call, held: Any) -> torch.Tensor:
        """One call on the device; the cache then holds its tokens too."""
        buffers = held.buffers(call.past + call.length)
        capacity = buffers[0].shape[2]
        length = padded_length(call.length)
        behind = length - call.length
        every = call.kept.numel() == call.length
        logits, made = self._runner(
            pad(call.ids, (0, behind)),
            _padded(call.mask, behind, capacity),
            pad(call.positions, (0, behind)),
            torch.tensor([call.past]),
            torch.arange(length) if every else call.kept,
            buffers,
        )
        held.take(made, call.past + call.length)
        result: torch.Tensor = logits[:, : call.length] if every else logits
        return result

    def _shape(self, ids: torch.Tensor) -> torch.Tensor:
        """A tensor of no tokens, shaped as the keys of a layer are."""
        config = self._config
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = getattr(config, "head_dim", None)
        width = width or config.hidden_size // config.num_attention_heads
        dtype = next(self._runner.module.parameters()).dtype
        return torch.zeros(ids.shape[0], heads, 0, width, dtype=dtype)


class LanguageModel(TorchModel):
    """A causal language model of transformers: calls that use a cache go to a Decoder."""

    def __init__(self, module: nn.Module, options: Options, **how: Any) -> None:
        super().__init__(module, options, **how)
        self._decoder = Decoder(module, self)
        self._signature = inspect.signature(module.forward)

    @property
    def compiles(self) -> int:
        """How many programs there are."""
        return super().compiles + self._decoder.compiles

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the model gives for these arguments, computed by the device."""
        kwargs = {_RENAMED.get(name, name): value for name, value in kwargs.items()}
        given = dict(self._signature.bind(*args, **kwargs).arguments)
        given |= given.pop("kwargs", {})
        if _uses_cache(given, self.module):
            return self._decoder.run(given)
        return super().__call__(*args, **{**kwargs, "use_cache": False})

    def saved(self) -> Specialised:
        """What is saved: the last call of either kind."""
        return self._decoder.last or super().saved()


_RENAMED = {"past_key_values": "cache"}
"""What older scripts call things."""

_PLAIN = ("labels", "inputs_embeds", "output_attentions", "output_hidden_states")
"""Arguments with which a call must not have a cache."""


def is_language_model(module: nn.Module) -> bool:
    """Whether it generates text and takes a cache as transformers does."""
    if not hasattr(module, "generate"):
        return False
    return {"input_ids", "cache", "logits_to_keep"} <= set(
        inspect.signature(module.forward).parameters
    )


def _uses_cache(given: Mapping[str, Any], module: Any) -> bool:
    if any(given.get(name) is not None and given[name] is not False for name in _PLAIN):
        if given.get("cache") is not None:
            raise UnsupportedError(f"a call with a cache must have none of {', '.join(_PLAIN)}")
        return False
    use = given.get("use_cache")
    return bool(module.config.use_cache if use is None else use)


def padded_length(length: int) -> int:
    """Tokens of the program that runs a call of `length`."""
    return 1 if length == 1 else max(SHORTEST, 1 << (length - 1).bit_length())


def _padded(mask: torch.Tensor, behind: int, capacity: int) -> torch.Tensor:
    """Which tokens may be seen: of each sequence, or by each token of it."""
    wider = capacity - mask.shape[-1]
    if mask.dim() == 4:
        return pad(mask, (0, wider, 0, behind))
    return pad(mask.to(torch.int64), (0, wider))


def _unknown(cache: Any) -> UnsupportedError:
    return UnsupportedError(
        f"a cache must be a DynamicCache or a StaticCache of full attention, got "
        f"{type(cache).__name__}; call with use_cache=False"
    )


class _Static:
    """A cache of fixed length: its own tensors are the buffers."""

    def __init__(self, cache: Any, empty: torch.Tensor) -> None:
        from transformers.cache_utils import StaticLayer

        self._layers = cache.layers
        if any(type(layer) is not StaticLayer for layer in cache.layers):
            raise _unknown(cache)
        for layer in self._layers:
            if not layer.is_initialized:
                layer.lazy_initialization(empty, empty)
        self.past = int(self._layers[0].cumulative_length)

    def buffers(self, length: int) -> list[torch.Tensor]:
        """The cache's tensors."""
        return [t for layer in self._layers for t in (layer.keys, layer.values)]

    def take(self, made: list[torch.Tensor], length: int) -> None:
        """The cache after a call."""
        for layer, keys, values in zip(self._layers, made[::2], made[1::2], strict=True):
            layer.keys, layer.values = keys, values
            layer.cumulative_length.fill_(length)


class Growing:
    """A cache that grows: what it shows are the first tokens of buffers with room for more."""

    def __init__(self, cache: Any, count: int, empty: torch.Tensor) -> None:
        from transformers.cache_utils import DynamicLayer

        while len(cache.layers) < count:
            cache.layers.append(DynamicLayer())
        if any(type(layer) is not DynamicLayer for layer in cache.layers):
            raise _unknown(cache)
        self._cache = cache
        self._empty = empty
        self.past = cache.layers[0].get_seq_length()

    def _shown(self) -> list[torch.Tensor]:
        layers = self._cache.layers
        if not self.past:
            return [self._empty] * (2 * len(layers))
        return [t for layer in layers for t in (layer.keys, layer.values)]

    def buffers(self, length: int) -> list[torch.Tensor]:
        """Buffers for `length` tokens: those there are, unless somebody changed what they hold."""
        shown = self._shown()
        known = getattr(self._cache, BUFFERS, None)
        if known is not None and known[0].shape[2] >= length:
            pairs = zip(shown, known, strict=True)
            if self.past and all(s.data_ptr() == k.data_ptr() for s, k in pairs):
                return list(known)
        room = max(CAPACITY, 1 << (length - 1).bit_length())
        return [pad(t, (0, 0, 0, room - t.shape[2])) for t in shown]

    def take(self, made: list[torch.Tensor], length: int) -> None:
        """The cache after a call."""
        setattr(self._cache, BUFFERS, made)
        for layer, keys, values in zip(self._cache.layers, made[::2], made[1::2], strict=True):
            layer.device, layer.dtype, layer.is_initialized = keys.device, keys.dtype, True
            layer.keys, layer.values = keys[:, :, :length], values[:, :, :length]
