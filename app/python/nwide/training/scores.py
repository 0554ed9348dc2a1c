"""Chooses ensembles by the loss of their mean prediction; tables of configurations."""

import torch
from torch.nn import functional as F

from ..errors import fail

CLASSIFY = ("cross_entropy", "nll")
LOSSES = (*CLASSIFY, "bce_with_logits", "mse", "l1", "huber")


def _numbers(text):
    return torch.tensor([float(number) for number in text.split(",")], dtype=torch.float64)


def loss_of(text, smoothing=0.0):
    """The loss of a run's report, such as "huber:delta=0.1", as a function of mean answers (probabilities where the loss has
    them) `[S, ...]`, targets and row weights `[S]` or None. `smoothing`: the models' label smoothing."""
    name, *keys = text.split(":")
    keys = dict(key.split("=", 1) for key in keys)
    if name not in LOSSES or keys.get("weight") == "balanced":
        fail("ensemble", "loss", text, f"one of {', '.join(LOSSES)}, with weights in numbers", "run.best(8)")
    weight = _numbers(keys["weight"]) if "weight" in keys else None
    ignored = int(keys.get("ignore_index", -100))
    positive = _numbers(keys.get("pos_weight", "1"))

    def rows(p, y):
        """Losses, and what each of them weighs in the mean."""
        if name in CLASSIFY:
            counts = (y != ignored).double() * (1 if weight is None else weight[y.clamp(0)])
            extra = {"label_smoothing": smoothing} if name == "cross_entropy" else {}
            loss = F.cross_entropy if name == "cross_entropy" else F.nll_loss
            return loss(p.log(), y, weight=weight, ignore_index=ignored, reduction="none", **extra), counts
        if name == "bce_with_logits":
            each = F.binary_cross_entropy(p, y, reduction="none", weight=torch.where(y == 1, positive, 1.0))
        elif name == "huber":
            each = F.huber_loss(p, y, delta=float(keys.get("delta", 1)), reduction="none")
        else:
            each = (F.mse_loss if name == "mse" else F.l1_loss)(p, y, reduction="none")
        return each, torch.ones_like(each)

    def mean(p, y, w):
        losses, counts = (t.reshape(len(p), -1).sum(1) for t in rows(p, y.long() if name in CLASSIFY else y.double()))
        return float(losses.sum() / counts.sum() if w is None else (losses * w).sum() / (counts * w).sum())

    return mean


def greedy(score, answers, targets, weights, k):
    """Numbers of models, with repetition: greedy forward selection, of which the best length up to k is kept. `score`: as
    `loss_of` gives it; `answers` [N, S, ...]."""
    answers = answers.double()
    finite = [i for i in range(len(answers)) if answers[i].isfinite().all()]
    picks, total, best = [], torch.zeros_like(answers[0]), (float("inf"), 0)
    for count in range(1, k + 1):
        losses = [score((total + answers[i]) / count, targets, weights) for i in finite]
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

