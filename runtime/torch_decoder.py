"""Language models of transformers with a cache: a few shapes serve every length.

A call is padded to one of few lengths, its cache to a capacity; what is padded is masked. The cache
stays what the caller knows it as, its tensors being views of the padded ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import pad

from ge.dialects.diagnostics import UnsupportedError
from ge.frontend.torch_capture import experts_as_products, quiet
from ge.frontend.torch_refusals import refusal
from ge.lowering.pipelines import Options
from ge.runtime.torch_held import Held, check_kinds
from ge.runtime.torch_model import Specialised, TorchModel
from ge.runtime.torch_pool import Pool

SHORTEST = 16
"""Tokens that a call of more than one is padded to at least."""


def static_cache(buffers: Sequence[torch.Tensor], start: torch.Tensor) -> Any:
    """A cache of transformers that is made of the buffers; the next token goes to `start`.

    Every layer holds all tokens, so that masks hide what lies outside a window that slides.
    """
    from transformers.cache_utils import Cache, StaticLayer

    layers = [StaticLayer(max_cache_len=buffers[0].shape[2]) for _ in buffers[::2]]
    for layer, keys, values in zip(layers, buffers[::2], buffers[1::2], strict=True):
        layer.keys, layer.values = keys, values
        layer.device, layer.dtype = keys.device, keys.dtype
        layer.cumulative_length = start[0].clone()
        layer.is_initialized = True
    return Cache(layers=layers)


class _Step(nn.Module):
    """One call of the model as a function of tensors, which changes those of the cache."""

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
    ) -> torch.Tensor:
        """The logits at the places `kept`; the cache gets the tokens from `start` on."""
        out = self.model.forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            cache=static_cache(cache, start),
            use_cache=True,
            logits_to_keep=kept,
        )
        logits: torch.Tensor = out.logits
        return logits


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
            mask = _seen(mask["full_attention"])
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
        self._model = model
        self._empty: dict[int, list[torch.Tensor]] = {}
        self._pool = Pool()
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
        from transformers.cache_utils import DynamicCache
        from transformers.modeling_outputs import CausalLMOutputWithPast

        cache = given.get("cache")
        cache = DynamicCache() if cache is None else cache
        check_kinds(cache)
        held = Held(cache, self._no_tokens(given["input_ids"].shape[0]), self._pool)
        call = _Call.of(given, held.past)
        logits = self._step(call, held)
        if given.get("return_dict") is False:
            return logits, cache
        return CausalLMOutputWithPast(logits=logits, cache=cache)

    def _step(self, call: _Call, held: Held) -> torch.Tensor:
        """One call on the device; the cache then holds its tokens too."""
        length = padded_length(call.length)
        buffers = held.buffers(call.past + length)
        capacity = buffers[0].shape[2]
        behind = length - call.length
        every = call.kept.numel() == call.length
        logits = self._runner(
            pad(call.ids, (0, behind)),
            _padded(call.mask, behind, call.past, capacity),
            pad(call.positions, (0, behind)),
            torch.tensor([call.past]),
            torch.arange(length) if every else call.kept,
            buffers,
        )
        held.take(buffers, call.past + call.length)
        result: torch.Tensor = logits[:, : call.length] if every else logits
        return result

    def _no_tokens(self, batch: int) -> list[torch.Tensor]:
        """Keys and values of no tokens for each layer, shaped as the model makes them."""
        if batch not in self._empty:
            self._empty[batch] = _keys_and_values(self._model, batch)
        return self._empty[batch]


def _keys_and_values(model: nn.Module, batch: int) -> list[torch.Tensor]:
    """What the model puts into a cache, cut to no tokens; only shapes are computed."""
    from transformers.cache_utils import DynamicCache

    cache: Any = DynamicCache()
    # What a module keeps of such a call would be of no use later.
    before = [(vars(p), dict(vars(p)), p._buffers, dict(p._buffers)) for p in model.modules()]
    try:
        with (
            FakeTensorMode(allow_non_fake_inputs=True),
            torch.no_grad(),
            quiet(),
            experts_as_products(model),
        ):
            ids = torch.zeros(batch, 1, dtype=torch.int64)
            model.forward(input_ids=ids, cache=cache, use_cache=True)
    except Exception as e:
        raise refusal(e, type(model).__name__) from e
    finally:
        for attributes, kept, buffers, those in before:
            attributes.update(kept)
            buffers.update(those)
    made = [t for layer in cache.layers for t in (layer.keys, layer.values)]
    return [torch.zeros((*t.shape[:2], 0, t.shape[3]), dtype=t.dtype) for t in made]


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


def _padded(mask: torch.Tensor, behind: int, past: int, capacity: int) -> torch.Tensor:
    """Which tokens may be seen: of each sequence, or by each token of it."""
    if mask.dim() != 4:
        return pad(mask.to(torch.int64), (0, capacity - mask.shape[-1]))
    hidden = 0 if mask.dtype == torch.bool else torch.finfo(mask.dtype).min
    # Of a window that slides, a mask has the last places only.
    before = max(0, past + mask.shape[2] - mask.shape[3])
    after = capacity - before - mask.shape[3]
    return pad(mask, (before, after, 0, behind), value=hidden)


def _seen(mask: torch.Tensor | None) -> torch.Tensor | None:
    """Which tokens of each sequence are there: what its last token sees."""
    if mask is None:
        return None
    last = mask[:, 0, -1]
    return last if last.dtype == torch.bool else last == 0
