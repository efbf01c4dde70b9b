"""Writes down what eager torch runs in a Llama: `python -m examples.llama3.record` (torch extra).

The model is one of odd sizes without weights; a size stands for what it is a size of, so that the
list serves every geometry. Attention stays one operator: a device has a kernel for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

LISTS = Path(__file__).with_name("eager.json")
BATCH, LENGTH, SEEN, HEADS, SHARED, DEPTH, WIDE, WORDS = 29, 11, 53, 14, 7, 26, 1000, 5003
SIZES = {
    BATCH: "batch",
    LENGTH: "length",
    SEEN: "seen",
    HEADS: "heads",
    SHARED: "shared",
    DEPTH: "depth",
    DEPTH // 2: "half",
    WIDE: "wide",
    WORDS: "words",
    HEADS * DEPTH: "hidden",
    SHARED * DEPTH: "hidden_shared",
    BATCH * LENGTH: "rows",
}
"""What each size of the recorded model is."""
LAYERS = 3
"""The middle one is what every layer does."""


class _Names:
    """Tensors by name, and the operators of the part being run."""

    def __init__(self) -> None:
        self.parts: list[list[dict[str, Any]]] = [[]]
        self.embedded = ""
        """The tensor that the first layer takes."""
        self._named: dict[int, str] = {}
        self._held: list[Any] = []
        self.quiet = False

    def name(self, tensor: Any, name: str) -> None:
        self._named[id(tensor)] = name
        self._held.append(tensor)

    def begin(self, x: Any) -> None:
        """Begin a layer with its input."""
        self.embedded = self.embedded or self._named[id(x)]
        self.parts.append([])
        self.name(x, "x")

    def add(self, op: str, ins: Any, out: Any, **said: Any) -> None:
        part = self.parts[-1]
        # What has no name is a tensor of nothing, or of one number.
        given = [t for t in tree_leaves(ins) if isinstance(t, torch.Tensor)]
        names = [self._named[id(t)] for t in given if id(t) in self._named]
        made = f"{len(self.parts) - 1}.{len(part)}"
        kind = str(out.dtype).removeprefix("torch.")
        shape = symbols(list(out.shape))
        part.append({"op": op, "in": names, "out": made, "shape": shape, "type": kind, **said})
        self.name(out, made)


class _Kernels(TorchDispatchMode):
    """Hears of every operator."""

    def __init__(self, names: _Names) -> None:
        super().__init__()
        self._names = names

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not self._names.quiet:
            op = func._schema.name.removeprefix("aten::")
            rest = [a for a in args if not _tensors(a)]
            self._names.add(op, args, out, **{"with": symbols(rest)} if rest else {})
        return out


class _Attention(TorchFunctionMode):
    """Keeps attention whole."""

    def __init__(self, names: _Names) -> None:
        super().__init__()
        self._names = names

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.nn.functional.scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        names = self._names
        names.quiet = True
        out = torch.empty_like(args[0])
        names.quiet = False
        mask = kwargs.get("attn_mask")
        causal = bool(kwargs.get("is_causal"))
        names.add("attention", [*args, *([] if mask is None else [mask])], out, causal=causal)
        return out


def _tensors(value: Any) -> bool:
    return any(isinstance(v, torch.Tensor) for v in tree_leaves(value))


def symbols(value: Any) -> Any:
    """A value with sizes as words, in a form that JSON has."""
    if isinstance(value, (list, tuple)):
        return [symbols(v) for v in value]
    if isinstance(value, (bool, float, str)) or value is None:
        return value
    return SIZES.get(value, value) if isinstance(value, int) else str(value)


def recorded() -> dict[str, Any]:
    """The lists of the prompt and of one more token."""
    import transformers

    os.environ["TRANSFORMERS_SDPA_FORCE_GQA"] = "1"
    versions = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
    return {**versions, "prefill": _list(LENGTH), "decode": _list(1)}


def _list(length: int) -> dict[str, Any]:
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.cache_utils import DynamicCache, StaticCache

    config = LlamaConfig(
        hidden_size=HEADS * DEPTH,
        intermediate_size=WIDE,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=SHARED,
        vocab_size=WORDS,
        attn_implementation="sdpa",
    )
    names = _Names()
    with torch.device("meta"), torch.no_grad(), _default(torch.float16):
        model = LlamaForCausalLM(config).eval()
        given = {"input_ids": torch.zeros(BATCH, length, dtype=torch.int64)}
        given["position_ids"] = torch.zeros(BATCH, length, dtype=torch.int64)
        cache: Any = DynamicCache()
        if length == 1:
            cache = StaticCache(config=config, max_cache_len=SEEN)
            cache.early_initialization(BATCH, SHARED, DEPTH, torch.float16, "meta")
        _name_all(names, model, given, cache if length == 1 else None)
        _follow_layers(names, model)
        with _Attention(names), _Kernels(names):
            model(**given, cache=cache, use_cache=True, logits_to_keep=1)
    first, *layers, last = names.parts
    return {"x": names.embedded, "first": first, "layer": layers[1], "last": last}


@contextmanager
def _default(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    yield
    torch.set_default_dtype(before)


def _name_all(names: _Names, model: Any, given: dict[str, Any], cache: Any) -> None:
    for name, tensor in (*model.named_parameters(), *model.named_buffers(), *given.items()):
        names.name(tensor, name.split(".", 3)[-1] if ".layers." in name else name)
    for layer in cache.layers if cache else ():
        names.name(layer.keys, "keys")
        names.name(layer.values, "values")
        names.name(layer.cumulative_length, "start")


def _follow_layers(names: _Names, model: Any) -> None:
    """Each layer is a part of its own; what goes in and out of it is `x`."""

    def begin(module: Any, args: Any) -> None:
        names.begin(args[0])

    def end(module: Any, args: Any, out: Any) -> None:
        if module is model.model.layers[-1]:
            names.parts.append([])
        names.name(out, "x")

    for layer in model.model.layers:
        layer.register_forward_pre_hook(begin)
        layer.register_forward_hook(end)


def main() -> None:
    """Write the lists, one operator a line."""
    found = recorded()
    lines = json.dumps(found, indent=None).replace('{"op"', '\n{"op"')
    LISTS.write_text(lines + "\n", "utf-8")


if __name__ == "__main__":
    main()
