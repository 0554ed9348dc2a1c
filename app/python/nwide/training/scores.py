"""Chooses ensembles by the loss of their mean prediction; tables of configurations."""

import torch
from torch.nn import functional as F

from ..errors import fail

LOSSES = {
    "cross_entropy": lambda p, y: F.nll_loss(p.log(), y),
    "nll": lambda p, y: F.nll_loss(p.log(), y),
    "bce_with_logits": F.binary_cross_entropy,
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "huber": F.huber_loss,
}


def greedy(loss, answers, targets, k):
    """Numbers of models, with repetition: greedy forward selection, of which the best length up to k is kept. `answers`
    [N, S, ...]: probabilities where the loss has them."""
    score = LOSSES.get(loss.split(":")[0])
    if score is None:
        fail("ensemble", "loss", loss, f"one of {', '.join(LOSSES)}", "run.best(8)")
    answers = answers.double()
    targets = targets.long() if loss.startswith(("cross_entropy", "nll")) else targets.double()
    finite = [i for i in range(len(answers)) if answers[i].isfinite().all()]
    picks, total, best = [], torch.zeros_like(answers[0]), (float("inf"), 0)
    for count in range(1, k + 1):
        losses = [float(score((total + answers[i]) / count, targets)) for i in finite]
        least = min(range(len(finite)), key=losses.__getitem__)
        picks.append(finite[least])
        total = total + answers[finite[least]]
        best = min(best, (losses[least], count))
    return picks[:best[1]]


def scores_of(configs, keys, words):
    """A row per configuration: its keys, how many models, and of each metric mean, deviation and interval."""
    rows = []
    for config in configs:
        row = {}
        for key in keys:
            value = config["hyperparameters"][key]
            row[key] = words[key][int(value)] if key in words else value
        row["n"] = config["n"]
        for metric, parts in config["metrics"].items():
            for where, spread in parts.items():
                if spread:
                    name = metric if where == "validation" else f"{where}.{metric}"
                    low, high = spread["ci95"]
                    row.update({name: spread["mean"], f"{name}.sd": spread["sd"], f"{name}.iqm": spread["iqm"],
                                f"{name}.low": low, f"{name}.high": high})
        rows.append(row)
    return rows

