"""A scripted module, optimised and saved as TorchScript, which needs no `ge` to be loaded."""

import torch
from simple_transformer import SimpleTransformer

from ge import GraphEngine

model = SimpleTransformer()
scripted_model = torch.jit.script(model)

ge = GraphEngine()
ge.LoadModel(scripted_model)
ge.OptimizeGraph()
optimized_model = ge.SaveOptimizedModel("simple_transformer_optimized.pt")

x = torch.randn(2, 16, 64)
saved = torch.jit.load("simple_transformer_optimized.pt")
for name, run in (("device", optimized_model), ("saved", saved)):
    print(f"{name}: difference {(run(x) - model(x)).abs().max().item():.1e}")
