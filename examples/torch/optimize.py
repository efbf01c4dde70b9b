"""A module optimised as it is, with options; its shapes come from the call."""

import torch
from simple_transformer import SimpleTransformer

from ge import GraphEngine, OptimizeConfig

config = OptimizeConfig(
    fuse_ops=True, memory_reuse=True, pipeline_schedule=True, precision_mode="fp16"
)
ge = GraphEngine(config)
model = SimpleTransformer()
optimized_model = ge.Optimize(model)

x = torch.randn(2, 16, 64)
output = optimized_model(x)
print(f"difference {(output - model(x)).abs().max().item():.1e}, fp16")
