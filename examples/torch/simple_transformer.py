"""The model of these examples, and a call of it: `python examples/torch/simple_transformer.py`."""

import torch
from torch import nn


class SimpleTransformer(nn.Module):
    """One encoder layer."""

    def __init__(self, hidden_size: int = 64, num_heads: int = 4) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(hidden_size, num_heads, batch_first=True)
        self.layer_norm1 = nn.LayerNorm(hidden_size)
        self.ffn = nn.Sequential(
            nn.Linear(hidden_size, 4 * hidden_size),
            nn.GELU(),
            nn.Linear(4 * hidden_size, hidden_size),
        )
        self.layer_norm2 = nn.LayerNorm(hidden_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention and two products, a norm behind each."""
        attn_output, _ = self.attention(x, x, x)
        x = self.layer_norm1(x + attn_output)
        return self.layer_norm2(x + self.ffn(x))


if __name__ == "__main__":
    # Nothing of this project is imported: torch itself loads `.npu()` where it is installed.
    model = SimpleTransformer().npu()
    x = torch.randn(2, 16, 64).npu()
    output = model(x)
    print(tuple(output.shape), torch.npu.launch_count())
