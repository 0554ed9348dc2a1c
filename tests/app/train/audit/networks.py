"""Small networks of the drawn configurations."""
import torch
from torch import nn

FEATURES, CLASSES, SIDE, KINDS_OF_IMAGES = 6, 3, 5, 7


class Mlp(nn.Module):
    """`width`: numbers a row, 0: one number without a dimension of its own; `drop`: of its dropout, 0: it has none."""

    def __init__(self, width=CLASSES, hidden=10, logs=False, drop=0.0):
        super().__init__()
        self.first, self.last = nn.Linear(FEATURES, hidden), nn.Linear(hidden, max(width, 1))
        self.drop = nn.Dropout(drop) if drop else nn.Identity()
        self.width, self.logs = width, logs

    def forward(self, x):
        y = self.last(self.drop(torch.tanh(self.first(x))))
        if self.logs:
            y = torch.log_softmax(y, 1)
        return y if self.width else y.squeeze(1)


class Cnn(nn.Module):
    """Without a bias before the normalisation, whose gradient is 0: an optimiser would make rounding into steps."""

    def __init__(self, width=KINDS_OF_IMAGES, drop=0.0):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4)
        self.drop = nn.Dropout(drop) if drop else nn.Identity()
        self.last = nn.Linear(4 * (SIDE - 2) ** 2, width)

    def forward(self, x):
        return self.last(self.drop(torch.tanh(self.norm(self.conv(x))).flatten(1)))


class Two(nn.Module):
    """Scores of classes, and a number."""

    def __init__(self):
        super().__init__()
        self.first, self.scores, self.number = nn.Linear(FEATURES, 10), nn.Linear(10, CLASSES), nn.Linear(10, 1)

    def forward(self, x):
        h = torch.tanh(self.first(x))
        return self.scores(h), self.number(h).squeeze(1)


class OwnLoss(nn.Module):
    """A prediction, and what it loses of each row."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(FEATURES, 10), nn.Linear(10, 2)

    def forward(self, x, y):
        p = self.last(torch.tanh(self.first(x)))
        return p, ((p - y) ** 2).sum(1)


def example(network, rows=4):
    """Inputs of a few rows."""
    if isinstance(network, Cnn):
        return (torch.randn(rows, 1, SIDE, SIDE),)
    return (torch.randn(rows, FEATURES), torch.randn(rows, 2)) if isinstance(network, OwnLoss) else (torch.randn(rows, FEATURES),)


def export(network, path):
    batch = torch.export.Dim("batch", min=1)
    inputs = example(network)
    torch.export.save(torch.export.export(network.eval(), inputs, dynamic_shapes=tuple({0: batch} for _ in inputs)), path)
