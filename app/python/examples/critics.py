"""A population's critics: each values the states and actions of its own agent."""

import torch
from torch import nn

import nwide as nw


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(17 + 6, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, state, action):
        return self.body(torch.cat([state, action], -1)).squeeze(-1)


torch.manual_seed(0)
critics = [Critic() for _ in range(10)]
states, actions = torch.randn(10, 64, 17), torch.randn(10, 64, 6)

wide = nw.compile(critics, (states[0], actions[0])).freeze()
with torch.inference_mode():
    values = wide(states, actions)  # [10, 64]
    alone = torch.stack([c(s, a) for c, s, a in zip(critics, states, actions)])
print("values", values.shape, "equal", torch.allclose(values, alone, atol=1e-5))
print(wide.coverage.counts)
