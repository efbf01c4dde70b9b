"""Text generation on the device: the tokens of torch, whatever the strategy and the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, StaticCache

import ge
from ge.dialects.diagnostics import UnsupportedError
from ge.runtime.device import DEVICE
from ge.runtime.torch_optimized import MODEL

CONFIG = ge.OptimizeConfig(target="tiny")


def llama(**changes: Any) -> Any:
    """Two layers whose four heads share two of keys."""
    torch.manual_seed(0)
    shape = {
        "vocab_size": 128,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "pad_token_id": 0,
        "eos_token_id": None,
    }
    return LlamaForCausalLM(LlamaConfig(**{**shape, **changes})).eval()


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    """A model, and what the engine makes of it."""
    model = llama()
    return model, ge.GraphEngine(CONFIG).Optimize(model)


IDS = torch.tensor([[5, 7, 9, 11]])
PADDED = torch.tensor([[0, 0, 9, 11], [3, 4, 5, 6]])
MASK = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
WAYS: dict[str, tuple[torch.Tensor, dict[str, Any]]] = {
    "greedy": (IDS, {"max_length": 50}),
    "sampling": (IDS, {"max_length": 24, "do_sample": True, "temperature": 1.5}),
    "beams": (IDS, {"max_length": 12, "num_beams": 3}),
    "padded": (PADDED, {"max_length": 16, "attention_mask": MASK}),
    "static": (IDS, {"max_length": 12, "cache_implementation": "static"}),
    "no cache": (IDS, {"max_length": 6, "use_cache": False}),
}


@pytest.mark.parametrize("way", WAYS)
def test_tokens_are_those_of_torch(pair: tuple[Any, Any], way: str) -> None:
    model, device = pair
    ids, how = WAYS[way]
    torch.manual_seed(3)
    want = model.generate(ids, **how)
    launches = DEVICE.launches
    torch.manual_seed(3)
    got = device.generate(ids, **how)
    assert torch.equal(got, want)
    # Every forward pass ran on the device: one for the prompt, one for each token behind it.
    assert DEVICE.launches - launches == want.shape[1] - ids.shape[1]


def test_fifty_tokens_need_three_programs_at_most() -> None:
    model = llama(num_hidden_layers=1)
    device = ge.GraphEngine(CONFIG).Optimize(model).npu()
    assert isinstance(device, LlamaForCausalLM)
    want = model.generate(IDS, max_new_tokens=50)
    assert torch.equal(device.generate(IDS, max_new_tokens=50), want)
    assert getattr(type(device), MODEL).compiles == 2
    longer = torch.arange(1, 10)[None]
    assert torch.equal(
        device.generate(longer, max_new_tokens=20), model.generate(longer, max_new_tokens=20)
    )
    assert getattr(type(device), MODEL).compiles == 2


def test_logits_are_those_of_torch_step_by_step(pair: tuple[Any, Any]) -> None:
    caches: list[Any] = [StaticCache(config=m.config, max_cache_len=64) for m in pair]
    for ids in (IDS, torch.tensor([[3]]), torch.tensor([[4, 5]])):
        with torch.no_grad():
            want, got = (m(ids, cache=c).logits for m, c in zip(pair, caches, strict=True))
        torch.testing.assert_close(got, want, rtol=0, atol=1e-5)
    want, got = (m(IDS) for m in pair)
    torch.testing.assert_close(got.logits, want.logits.detach(), rtol=0, atol=1e-5)
    assert got.cache.get_seq_length() == want.cache.get_seq_length() == 4


def test_a_cache_stays_in_device_memory(pair: tuple[Any, Any]) -> None:
    model, device = pair
    places = []
    for _ in range(2):
        caches = [transformers.DynamicCache() for _ in pair]
        for ids in (IDS, torch.tensor([[3]]), torch.tensor([[8]])):
            with torch.no_grad():
                want, got = (m(ids, cache=c).logits for m, c in zip(pair, caches, strict=True))
            torch.testing.assert_close(got, want, rtol=0, atol=1e-5)
            places.append([layer.keys.data_ptr() for layer in caches[1].layers])
        del caches
    assert all(place == places[0] for place in places)
    program = getattr(type(device), MODEL).saved().compiled.program
    assert len(program.state) == 2 * model.config.num_hidden_layers


def test_caches_that_take_turns_stay_apart(pair: tuple[Any, Any]) -> None:
    model, device = pair
    caches = [[transformers.DynamicCache() for _ in range(2)] for _ in pair]
    for step in range(6):
        ids = torch.tensor([[step + 3] * (1 if step > 1 else 3)])
        with torch.no_grad():
            want = model(ids, cache=caches[0][step % 2]).logits
        got = device(ids, cache=caches[1][step % 2]).logits
        torch.testing.assert_close(got, want, rtol=0, atol=1e-5)


def test_a_grown_cache_gets_more_room() -> None:
    model = llama(num_hidden_layers=1)
    device = ge.GraphEngine(CONFIG).Optimize(model)
    ids = torch.arange(1, 61)[None]
    want = model.generate(ids, max_new_tokens=8)
    assert torch.equal(device.generate(ids, max_new_tokens=8), want)


def test_other_models_generate_too() -> None:
    torch.manual_seed(0)
    shape = {"vocab_size": 96, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    model = GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=None, eos_token_id=None)).eval()
    device = ge.GraphEngine(CONFIG).Optimize(model)
    how = {"max_length": 12, "pad_token_id": 0}
    assert torch.equal(device.generate(IDS, **how), model.generate(IDS, **how))


@pytest.mark.parametrize(
    ("name", "layers", "how"),
    [("Mistral", 1, {}), ("Gemma2", 2, {"cache_implementation": "static"})],
    ids=["every layer", "every other layer"],
)
def test_tokens_behind_a_window_are_forgotten(name: str, layers: int, how: dict[str, Any]) -> None:
    torch.manual_seed(0)
    shape = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 16, "head_dim": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "sliding_window": 4}
    ends = {"pad_token_id": 0, "eos_token_id": None, "num_hidden_layers": layers}
    config = getattr(transformers, f"{name}Config")(**shape, **heads, **ends)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    device = ge.GraphEngine(CONFIG).Optimize(model)
    how = {"attention_mask": MASK, "max_length": 12, **how}
    assert torch.equal(device.generate(PADDED, **how), model.generate(PADDED, **how))


def test_what_keeps_no_keys_is_refused() -> None:
    cache = transformers.DynamicCache()
    cache.layers.append(transformers.cache_utils.LinearAttentionLayer())
    device = ge.GraphEngine(CONFIG).Optimize(llama())
    with pytest.raises(UnsupportedError, match="got a DynamicCache with a LinearAttentionLayer"):
        device(IDS, cache=cache)


def test_a_model_from_a_folder_stays_a_model_of_its_class(tmp_path: Path) -> None:
    llama(num_hidden_layers=1).save_pretrained(tmp_path)
    model = LlamaForCausalLM.from_pretrained(tmp_path)
    device = model.npu()
    assert device is model
    assert isinstance(device, LlamaForCausalLM)
    assert set(device.state_dict()) == set(llama(num_hidden_layers=1).state_dict())
