"""A model for every user, and new weights for one of them while the others go on."""

import torch
from torch import nn

import nwide as nw

torch.manual_seed(0)
users = [nn.LSTM(8, 16, batch_first=True) for _ in range(12)]
x = torch.randn(12, 1, 20, 8)

wide = nw.compile(users, x[0])
with torch.inference_mode():
    before, _ = wide(x)
    fresh = nn.LSTM(8, 16, batch_first=True)
    wide[3].load_state_dict(fresh.state_dict())
    after, (hidden, cell) = wide(x)
    print("user 3", torch.allclose(after[3], fresh(x[3])[0], atol=1e-5))
    print("others unchanged", torch.equal(after[4], before[4]))
print("hidden", tuple(hidden.shape), "cell", tuple(cell.shape))
