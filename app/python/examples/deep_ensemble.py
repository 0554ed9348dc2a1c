"""A deep ensemble: mean and spread of 16 networks' probabilities in one call."""

import torch
from torch import nn

import nwide as nw

torch.manual_seed(0)
models = [nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 5)).eval() for _ in range(16)]
x = torch.randn(32, 20)

wide = nw.compile(models, x, in_dims=None)  # one batch for all
with torch.inference_mode():
    probabilities = wide(x).softmax(-1)  # [16, 32, 5]
    print("mean", probabilities.mean(0)[0])
    print("spread", probabilities.std(0)[0])
    alone = torch.stack([m(x) for m in models]).softmax(-1)
    print("equal", torch.allclose(probabilities, alone, atol=1e-5))
