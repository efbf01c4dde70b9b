"""The Llama example beside torch: its tokens, and the operators that eager torch runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from examples.llama3.__main__ import main
from examples.llama3.capture import captured
from examples.llama3.eager import lists
from examples.llama3.generate import continued
from examples.llama3.model import Geometry, caches, decoder
from examples.llama3.record import recorded
from ge import OptimizeConfig
from ge.lowering.pipelines import Options
from ge.runtime.driver import begin
from ge.runtime.simulator import Simulator
from ge.runtime.source import Source
from ge.timing.cost import Tally

SMALL = Geometry("small", 64, 2, 4, 2, 128, words=256)

PROMPT = torch.tensor([[5, 7, 9]])


@pytest.fixture(scope="module")
def model() -> Any:
    """Four layers whose four heads share two of keys."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        rope_theta=500_000.0,
        pad_token_id=0,
        eos_token_id=None,
    )
    return LlamaForCausalLM(config).eval()


def tokens(model: Any, count: int) -> list[int]:
    return [int(t) for t in model.generate(PROMPT, max_new_tokens=count, do_sample=False)[0]]


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
def test_tokens_are_those_of_torch(model: Any, precision: str) -> None:
    config = OptimizeConfig(target="tiny", precision_mode=precision)
    assert continued(model, PROMPT, 5, config) == tokens(model, 5)


def test_a_checkpoint_is_generated_with(
    model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model.save_pretrained(tmp_path)
    capsys.readouterr()
    words = ",".join(map(str, PROMPT[0].tolist()))
    given = ["--target", "tiny", "--words", words, "--tokens", "2"]
    assert main(["--model", str(tmp_path), *given]) == 0
    assert capsys.readouterr().out.split() == [str(t) for t in tokens(model, 2)]


def test_a_folder_without_a_model_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--model", str(tmp_path)]) == 3
    assert f"{tmp_path}: error: must be a folder with config.json" in capsys.readouterr().err


@pytest.mark.parametrize(("length", "past"), [(24, 0), (1, 23)])
def test_what_torch_captures_has_the_kernels_of_the_graph_written_out(
    length: int, past: int
) -> None:
    written, found = decoder(SMALL, length, past, apart=True), captured(SMALL, length, past)
    assert found.model is not None
    models = [
        Source(written, in_place=caches(written)),
        Source(found.model, in_place=found.in_place),
    ]
    kinds = []
    for model in models:
        options = Options(target="tiny", narrow=True)
        kernels = Simulator(begin(model, options).program()).run(mode="timing").stats.kernels
        work = [(k.name, k.tallies[Tally.MATRIX]) for k in kernels if k.tallies[Tally.MATRIX]]
        # A mask, which torch has, keeps heads with one query each from being rows of one product.
        work = [(name, n if name != "Attention" else 0) for name, n in work]
        norms = sum(k.name == "RMSNormalization" for k in kernels)
        kinds.append((sorted(work), norms))
    assert kinds[0] == kinds[1]


def test_the_recorded_operators_are_those_that_torch_runs() -> None:
    assert recorded() == lists()
