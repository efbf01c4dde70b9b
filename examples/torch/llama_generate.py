"""A language model from a folder: optimised, moved to the NPU, timed while it generates."""

import sys
import time

import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from ge import GraphEngine, OptimizeConfig

folder, warm_up, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
model = LlamaForCausalLM.from_pretrained(folder)
tokenizer = AutoTokenizer.from_pretrained(folder)

ge = GraphEngine(OptimizeConfig(fuse_ops=True, precision_mode="origin"))
optimized_model = ge.Optimize(model)
optimized_model = optimized_model.npu()

input_ids = tokenizer.encode("Once upon a time", return_tensors="pt").npu()
output = optimized_model.generate(input_ids, max_length=50, do_sample=False)
print(tokenizer.decode(output[0], skip_special_tokens=True))

for _ in range(warm_up):
    optimized_model.generate(input_ids, max_length=50, do_sample=False)
torch.npu.synchronize()
start = time.time()
for _ in range(calls):
    output = optimized_model.generate(input_ids, max_length=50, do_sample=False)
torch.npu.synchronize()
seconds = (time.time() - start) / calls
tokens = output.shape[1] - input_ids.shape[1]
print(f"latency {seconds * 1e3:.1f} ms, throughput {tokens / seconds:.1f} tokens/s, simulated")
