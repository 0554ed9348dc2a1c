"""64 users and one frozen base: a low-rank adapter for each, trained on as many rows as that user has."""

import torch
from torch import nn
from torch.nn import functional as F

import nwide as nw

torch.manual_seed(64)
base = nn.Linear(24, 5)
users = [(torch.randn(count, 24), torch.randint(5, (count,))) for count in torch.randint(3, 60, (64,)).tolist()]


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(24, 5).requires_grad_(False)
        self.base.load_state_dict(base.state_dict())
        self.down, self.up = nn.Linear(24, 4, bias=False), nn.Linear(4, 5, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


run = nw.train(Adapted, data=users, lr=0.02, epochs=3, batch=16, order="sequential", dtype="f64", save="users", quiet=True)
print(run.table[["model", "step", "train_loss"]], run.report["frozen"])
for user, ((x, y), model) in enumerate(zip(users, run.models)):  # each alone, by its own epochs
    torch.manual_seed(user)
    alone = Adapted().double()
    step = torch.optim.AdamW([p for p in alone.parameters() if p.requires_grad], lr=0.02, weight_decay=0.01)
    for batch in [slice(begin, begin + 16) for _ in range(3) for begin in range(0, len(y), 16)]:
        step.zero_grad()
        F.cross_entropy(alone(x[batch].double()), y[batch]).backward()
        step.step()
    assert run.table["step"][user] == 3 * -(-len(y) // 16)
    assert all((p - q).abs().max() < 1e-9 for p, q in zip(alone.parameters(), model.parameters())), user
