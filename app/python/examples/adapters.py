"""Low-rank adapters on one base: the base's weights are there once, each user's adapter on top."""

import torch
from torch import nn

import nwide as nw


class Adapted(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


torch.manual_seed(0)
base = nn.Linear(256, 256)
models = [Adapted(base) for _ in range(32)]
x = torch.randn(32, 4, 256)

wide = nw.compile(models, x[0])
with torch.inference_mode():
    alone = torch.stack([m(one) for m, one in zip(models, x)])
    print("equal", torch.allclose(wide(x), alone, atol=1e-4))
print("base", tuple(wide.state_dict()["base.weight"].shape), "adapters", tuple(wide.state_dict()["up.weight"].shape))
