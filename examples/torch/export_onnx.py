"""Export to ONNX, optimise, save: by torch's default exporter and by the old one."""

import torch
from simple_transformer import SimpleTransformer

from ge import GraphEngine

model = SimpleTransformer()
dummy_input = torch.randn(2, 16, 64)

for name, dynamo in (("simple_transformer", True), ("simple_transformer_13", False)):
    torch.onnx.export(
        model,
        (dummy_input,),
        f"{name}.onnx",
        input_names=["input"],
        output_names=["output"],
        opset_version=18 if dynamo else 13,
        dynamo=dynamo,
    )
    ge = GraphEngine()
    ge.LoadModel(f"{name}.onnx")
    ge.OptimizeGraph()
    optimized_model = ge.SaveOptimizedModel(f"{name}_optimized.onnx")
    difference = (optimized_model(dummy_input) - model(dummy_input)).abs().max().item()
    print(f"{name}: difference {difference:.1e}")
