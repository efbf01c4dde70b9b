"""Small models of several architectures, as transformers builds them, beside torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    MixtralConfig,
    MixtralForCausalLM,
    MoonshineConfig,
    MoonshineForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

import ge
from ge.runtime.device import DEVICE

CONFIG = ge.OptimizeConfig(target="tiny")
pytestmark = pytest.mark.filterwarnings("ignore")
IDS = torch.randint(5, 90, (2, 6), generator=torch.Generator().manual_seed(0))
MASK = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


def _bert() -> Any:
    return BertModel(BertConfig(vocab_size=100, max_position_embeddings=32, **SMALL))


def _vit() -> Any:
    return ViTForImageClassification(ViTConfig(image_size=16, patch_size=8, **SMALL))


def _t5() -> Any:
    shape = {"vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1}
    ends = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": None}
    return T5ForConditionalGeneration(T5Config(num_heads=4, **shape, **ends))


def _whisper() -> Any:
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", 1), ("attention_heads", 4), ("ffn_dim", 64))
    }
    ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3}
    lengths = {"num_mel_bins": 8, "max_source_positions": 8, "max_target_positions": 32}
    quiet = {"suppress_tokens": None, "begin_suppress_tokens": None}
    config = WhisperConfig(vocab_size=100, d_model=32, **sides, **ends, **lengths, **quiet)
    return WhisperForConditionalGeneration(config)


def _moonshine() -> Any:
    """Its encoder gives a mask besides what it has encoded."""
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("num_hidden_layers", 1), ("num_attention_heads", 4))
    }
    ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    shape = {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 64}
    return MoonshineForConditionalGeneration(MoonshineConfig(**shape, **sides, **ends))


def _mixtral() -> Any:
    shape = {"vocab_size": 100, "num_key_value_heads": 2, "num_local_experts": 4}
    return MixtralForCausalLM(MixtralConfig(use_cache=False, **shape, **SMALL))


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (_mixtral, {"input_ids": IDS}),
        (_bert, {"input_ids": IDS, "attention_mask": MASK}),
        (_vit, {"pixel_values": torch.randn(1, 3, 16, 16)}),
    ],
    ids=["mixtral", "bert", "vit"],
)
def test_outputs_are_those_of_torch(make: Any, inputs: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = make().eval()
    device = ge.GraphEngine(CONFIG).Optimize(model)
    launches = DEVICE.launches
    got = device(**inputs)
    assert DEVICE.launches == launches + 1
    with torch.no_grad():
        want = model(**inputs)
    assert type(got) is type(want)
    for name, value in want.items():
        torch.testing.assert_close(got[name], value, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (_t5, {"input_ids": IDS, "attention_mask": MASK, "max_length": 6}),
        (_whisper, {"input_features": torch.randn(1, 8, 16), "max_length": 6}),
        (_moonshine, {"input_values": torch.randn(1, 1000), "max_length": 3}),
    ],
    ids=["t5", "whisper", "moonshine"],
)
def test_encoders_and_decoders_generate(make: Any, inputs: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = make().eval()
    want = model.generate(**inputs)
    device = ge.GraphEngine(CONFIG).Optimize(model)
    launches = DEVICE.launches
    got = device.generate(**inputs)
    assert torch.equal(got, want)
    # The encoder once, the decoder for every token that was generated.
    assert DEVICE.launches - launches >= want.shape[1]
