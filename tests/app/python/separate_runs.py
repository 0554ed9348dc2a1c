"""What tests of `nw.train` have in common: a network, rows, and separate modules trained one by one in PyTorch."""

import os
import tempfile
import unittest

import torch
from torch import nn
from torch.nn import functional as F

import nwide as nw


class Net(nn.Module):
    """With a start that is none of PyTorch's defaults."""

    def __init__(self, width=7):
        super().__init__()
        self.a = nn.Linear(5, width)
        self.norm = nn.BatchNorm1d(width)
        self.b = nn.Linear(width, 3)
        nn.init.orthogonal_(self.a.weight)
        nn.init.constant_(self.b.bias, 0.25)

    def forward(self, x):
        return self.b(torch.tanh(self.norm(self.a(x))))


def rows(count=53, seed=3):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 5, generator=generator, dtype=torch.float64)
    y = (x[:, 0] + 0.3 * torch.randn(count, generator=generator, dtype=torch.float64) > 0).long() + (x[:, 1] > 0.7).long()
    return x, y


def start(seed, **net):
    torch.manual_seed(seed)
    return Net(**net)


def separate(model, x, y, xv, yv, lr, weight_decay=0.01, epochs=3, batch=16, optimizer=torch.optim.AdamW, loss=F.cross_entropy):
    """A plain loop, rows in their order. Of each epoch the training loss, and what is true of the validation rows."""
    model.double().train()
    step = optimizer(model.parameters(), lr=lr, weight_decay=weight_decay)
    looks, weights = [], []
    for _ in range(epochs):
        losses = []
        for begin in range(0, len(x), batch):
            step.zero_grad()
            value = loss(model(x[begin:begin + batch]), y[begin:begin + batch])
            value.backward()
            step.step()
            losses.append(value.item())
        model.eval()
        with torch.no_grad():
            output = model(xv)
            right = (output.argmax(1) == yv).double().mean().item() if output.dim() == 2 else None
            looks.append((sum(losses) / len(losses), loss(output, yv).item(), right))
        weights.append({k: v.clone() for k, v in model.state_dict().items()})
        model.train()
    return looks, weights


class Runs(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)

    def path(self, name):
        return os.path.join(self._folder.name, name)

    def train(self, models, *beside, save="run", **options):
        return nw.train(models, *beside, save=self.path(save), quiet=True, no_store=True, **options)

    def refused(self, words, call):
        with self.assertRaises(nw.Error) as caught:
            call()
        self.assertEqual(str(caught.exception).replace(self._folder.name + "/", ""), words)
