"""Which learning rate? Eight of them, eight seeds each, in a table by configuration."""

import torch
from sklearn.datasets import load_diabetes
from torch import nn

import nwide as nw


def make():
    return nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(0))


x, y = load_diabetes(return_X_y=True)
x, y = x * 21, (y - y.mean()) / y.std()
run = nw.train(make, data=(x[:300], y[:300]), validation=(x[300:], y[300:]), loss="mse", lr=nw.log(1e-4, 1e-1, 8), seeds=8,
               metrics=["r2"], epochs=10, batch=50, order="sequential", dtype="f64", save="rates", quiet=True)
table, by = run.table, run.by("lr")
print(by[["lr", "n", "loss", "loss.low", "loss.high", "r2"]])
assert (by["n"] == 8).all() and by["loss"].is_monotonic_increasing
print(run.best(8).predict(x[:3]))

x, y = torch.tensor(x), torch.tensor(y)
for i, row in table.iterrows():  # each of the 64 alone
    torch.manual_seed(i)
    model = make().double()
    step = torch.optim.AdamW(model.parameters(), lr=row["lr"])
    losses = []
    for epoch in range(10):
        for begin in range(0, 300, 50):
            step.zero_grad()
            (model(x[begin:begin + 50]) - y[begin:begin + 50]).square().mean().backward()
            step.step()
        losses.append((model(x[300:]) - y[300:]).square().mean().item())
    assert abs(min(losses) - row["loss"]) < 1e-9, (i, min(losses), row["loss"])
means = table.groupby("lr")["loss"].mean()
assert all(abs(means[lr] - loss) < 1e-12 for lr, loss in zip(by["lr"], by["loss"]))
