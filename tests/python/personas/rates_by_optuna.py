"""Which learning rate? Optuna proposes eight at a time, each is tried by eight seeds, and the 64 models are one wide run."""

import optuna
import torch
from sklearn.datasets import load_diabetes
from torch import nn

import nwide as nw


def make():
    return nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(0))


x, y = load_diabetes(return_X_y=True)
x, y = torch.tensor(x * 21), torch.tensor((y - y.mean()) / y.std())


def search(losses_of, rounds=2):
    """`losses_of`: of eight rates, the mean of each over eight seeds."""
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0, n_startup_trials=8))
    for number in range(rounds):
        trials = [study.ask() for _ in range(8)]
        rates = [trial.suggest_float("lr", 1e-4, 1e-1, log=True) for trial in trials]
        for trial, loss in zip(trials, losses_of(rates, number)):
            study.tell(trial, loss)
    return study


def wide(rates, number):
    run = nw.train(make, data=(x[:300], y[:300]), validation=(x[300:], y[300:]), loss="mse", lr=rates, seeds=8, epochs=10,
                   batch=50, order="sequential", dtype="f64", save=f"round-{number}", quiet=True)
    by = run.by("lr").set_index("lr")["loss"]
    return [by[rate] for rate in rates]


if __name__ == "__main__":
    print(search(wide).trials_dataframe())
