"""What runs the calls of a module: chosen by what the module is."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

from ge.lowering.pipelines import Options
from ge.runtime.torch_decoder import LanguageModel, is_language_model
from ge.runtime.torch_lazy import ScriptModel
from ge.runtime.torch_model import TorchModel
from ge.runtime.torch_optimized import optimized
from ge.runtime.torch_seq2seq import EncoderDecoder, is_encoder_decoder


def runner_of(module: nn.Module, options: Options, **how: Any) -> TorchModel:
    """What runs a module's calls; `how` is what TorchModel takes."""
    if isinstance(module, torch.jit.ScriptModule):
        return ScriptModel(module, options, **how)
    if is_language_model(module):
        return LanguageModel(module, options, **how)
    if is_encoder_decoder(module):
        _place_encoder(module, options, **how)
        return EncoderDecoder(module, options, **how)
    return TorchModel(module, options, **how)


def _place_encoder(module: Any, options: Options, **how: Any) -> None:
    """`generate` calls the encoder itself: it has to run on the device by itself."""
    encoder = module.get_encoder()
    for parent in list(module.modules()):
        for name, part in parent.named_children():
            if part is encoder:
                setattr(parent, name, _placed(options, how, encoder))
                return


def _placed(options: Options, how: dict[str, Any], encoder: nn.Module) -> nn.Module:
    model = TorchModel(encoder, options, **how)
    return optimized(encoder, model, partial(_placed, options, how))
