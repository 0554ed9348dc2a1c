"""How much does accuracy depend on the seed? 64 seeds of a CNN, images shifted at random in training."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

import nwide as nw


class Cnn(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, 10))


images, labels = load_digits(return_X_y=True)
x, y = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8)[:800] / 16, torch.tensor(labels)[:800]
xt, yt = x[600:], y[600:]
same = dict(data=(x[:600], y[:600]), validation=(xt, yt), lr=3e-3, seeds=64, metrics=["accuracy"], batch=60, quiet=True)

run = nw.train(Cnn, augment=["crop:1"], epochs=8, save="augmented", **same)
print(run.by())
for i, model in enumerate(run.models):  # each number of the table, in PyTorch
    assert abs(F.cross_entropy(model(xt), yt).item() - run.table["loss"][i]) < 1e-4
    assert abs((model(xt).argmax(1) == yt).float().mean().item() - run.table["accuracy"][i]) < 0.006

plain = nw.train(Cnn, epochs=1, order="sequential", save="plain", **same)
for seed in (0, 17, 63):  # without draws: the same as a loop of PyTorch
    torch.manual_seed(seed)
    model = Cnn()
    step = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for begin in range(0, 600, 60):
        step.zero_grad()
        F.cross_entropy(model(x[begin:begin + 60]), y[begin:begin + 60]).backward()
        step.step()
    assert abs(F.cross_entropy(model(xt), yt).item() - plain.table["loss"][seed]) < 1e-4
