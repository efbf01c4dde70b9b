"""Tokens from a checkpoint of your own, on the functional engine (needs the torch extra)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ge import GraphEngine, OptimizeConfig
from ge.dialects.diagnostics import InputError
from ge.runtime.source import need_torch


def generate(folder: Path, words: Sequence[int], tokens: int, config: OptimizeConfig) -> str:
    """The tokens of a prompt and those that follow, as numbers.

    A folder is what `save_pretrained` writes; its safetensors are mapped, not read.
    """
    need_torch(str(folder))
    if not (folder / "config.json").is_file():
        raise InputError("must be a folder with config.json and safetensors", str(folder))
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
    return " ".join(map(str, continued(model, torch.tensor([list(words)]), tokens, config)))


def continued(model: Any, ids: Any, tokens: int, config: OptimizeConfig) -> list[int]:
    """What the device makes of a prompt, token by token."""
    device = GraphEngine(config).Optimize(model)
    found = device.generate(ids, max_new_tokens=tokens, do_sample=False)
    return [int(word) for word in found[0]]
