"""Monte-Carlo dropout: 50 draws of one network at once, every copy with masks of its own."""

import torch
from torch import nn

import nwide as nw

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 1)).train()
x = torch.randn(64, 10)

wide = nw.compile(model, x, n=50, in_dims=None)
with torch.inference_mode():
    draws = wide(x)  # [50, 64, 1]
print("predictions", draws.mean(0)[:3, 0])
print("uncertainty", draws.std(0)[:3, 0])
print("masks differ", not torch.equal(draws[0], draws[1]))
