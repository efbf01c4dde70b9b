"""An optimised module saved as ONNX and run on a CPU that knows nothing of NPUs."""

import onnxruntime as ort
import torch
from simple_transformer import SimpleTransformer

from ge import GraphEngine

model = SimpleTransformer()
ge = GraphEngine()
optimized_model = ge.Optimize(model)
x = torch.randn(2, 16, 64)
optimized_model(x)
ge.SaveOptimizedModel("optimized_model.onnx")

session = ort.InferenceSession("optimized_model.onnx", providers=["CPUExecutionProvider"])
(output,) = session.run(None, {"x": x.numpy()})
difference = (torch.from_numpy(output) - model(x)).abs().max().item()
print(f"difference {difference:.1e}")
