"""Chooses ensembles by the loss of their mean prediction; tables of configurations."""

import copy
import math

import torch
from torch.nn import functional as F

from ..errors import fail

LOSSES = ("cross_entropy", "nll", "bce_with_logits", "mse", "l1", "huber")


class MeanLoss:
    """A loss of `workbench train`, such as "huber:delta=0.1", of a mean answer: the weighted mean over the rows, in float64.
    `targets` [S, ...]; `weights` [S] of rows or None; `smoothing`: of labels; `balanced`: class weights [C] where the loss asks
    for them. An answer has logarithms of probabilities where the loss has probabilities, as `log_probabilities` gives them."""

    def __init__(self, loss, targets, weights=None, smoothing=0.0, balanced=None):
        self.name, *keys = loss.split(":")
        if self.name not in LOSSES:
            fail("ensemble", "loss", loss, f"one of {', '.join(LOSSES)}, or a function in the process that trained", "run.best(8)")
        self.keys = dict(key.split("=") for key in keys)
        self.targets = targets.long() if self.name in ("cross_entropy", "nll") else targets.double()
        self.weights = None if weights is None else weights.double()
        self.smoothing, self.balanced = smoothing, balanced

    def __call__(self, answer):
        if self.name in ("cross_entropy", "nll"):
            return self._of_classes(answer)
        if self.name == "bce_with_logits":
            log_p, log_rest = answer.unbind(-1)
            targets = self.targets.reshape(log_p.shape)
            each = -(self._numbers("pos_weight", 1.0) * targets * log_p + (1 - targets) * log_rest)
        elif self.name == "huber":
            delta = float(self.keys.get("delta", 1))
            each = F.huber_loss(answer, self.targets.reshape(answer.shape), reduction="none", delta=delta)
        else:
            each = (F.mse_loss if self.name == "mse" else F.l1_loss)(answer, self.targets.reshape(answer.shape), reduction="none")
        return weighted_mean(each, self.weights)

    def _of_classes(self, log_p):
        targets = self.targets.reshape(log_p.shape[:1] + log_p.shape[2:])
        counted = targets != int(self.keys.get("ignore_index", -100))
        of_rows = counted.double() if self.weights is None else counted * spread(self.weights, targets)
        of_classes = self.balanced if self.keys.get("weight") == "balanced" else self._numbers("weight", 1.0).expand(log_p.shape[1])
        classes = targets.where(counted, 0)
        weights = of_rows * of_classes[classes]
        loss = -(log_p.gather(1, classes[:, None])[:, 0].where(weights > 0, 0) * weights).sum()
        if self.smoothing:
            smooth = (log_p * spread(of_classes, log_p[0])).sum(1).where(of_rows > 0, 0)
            loss = (1 - self.smoothing) * loss - self.smoothing * (smooth * of_rows).sum() / log_p.shape[1]
        return loss / weights.sum()

    def _numbers(self, key, default):
        found = [float(text) for text in self.keys[key].split(",")] if key in self.keys else [default]
        return torch.tensor(found, dtype=torch.float64)


def spread(weights, each):
    """Numbers for the first dimension of `each`, to be multiplied with it."""
    return weights.view(-1, *[1] * (each.dim() - 1)).expand(each.shape)


def weighted_mean(each, weights):
    """The mean of numbers [S, ...] with weights [S] of rows, or none."""
    if weights is None:
        return each.mean()
    weights = spread(weights, each)
    return (each * weights).sum() / weights.sum()


def log_probabilities(loss, outputs):
    """Of the models' outputs [N, S, ...], float64, the logarithms of their probabilities; of bce_with_logits [N, S, ..., 2]: of 1
    and of 0. None for a loss without probabilities."""
    name = loss.partition(":")[0]
    if name == "bce_with_logits":
        return torch.stack([F.logsigmoid(outputs), F.logsigmoid(-outputs)], -1)
    return outputs.log_softmax(2) if name == "cross_entropy" else outputs if name == "nll" else None


def greedy(loss, answers, k, logs=False):
    """Greedy forward selection of up to k models, with repetition; returns their numbers for the best length. `loss`: a function of
    a mean answer [S, ...]; `answers` [N, S, ...]. `logs`: they are logarithms of probabilities, and so is the mean's answer, of
    the mean probabilities."""
    add, empty = (torch.logaddexp, -math.inf) if logs else (torch.add, 0)
    usable = [i for i in range(len(answers)) if (answers[i] < math.inf if logs else answers[i].isfinite()).all()]  # -inf: of 0
    picks, total, best = [], torch.full_like(answers[0], empty), (math.inf, 0)
    for count in range(1, k + 1) if usable else ():
        sums = (add(total, answers[i]) for i in usable)
        losses = [float(loss(added - math.log(count) if logs else added / count)) for added in sums]
        losses = [value if value == value else math.inf for value in losses]
        least = min(range(len(usable)), key=losses.__getitem__)
        picks.append(usable[least])
        total = add(total, answers[usable[least]])
        best = min(best, (losses[least], count))
    if not best[1]:
        fail("ensemble", "models", f"{len(answers)} without a finite loss", "one with a finite loss", "a smaller lr")
    return picks[:best[1]]


def column_of(key, metrics):
    """The column for what was chosen, such as a loss, where metrics have columns by their names."""
    return f"chosen.{key}" if key in metrics else key


def merged_report(places):
    """One report of all models, given as parts and numbers there, in which what changes the program is a hyperparameter. The values
    of one that is no number for all models are their places in a list; returns also these lists, by name."""
    merged, words = copy.deepcopy(places[0][0].report), {}
    merged["models"] = [copy.deepcopy(part.report["models"][number]) for part, number in places]
    for model, (part, number) in zip(merged["models"], places):
        for name, values in part.measured().items() if model["best"] else ():
            finite = values[number] is not None and math.isfinite(values[number])
            model["best"][name] = values[number] if finite else None
    merged["n"] = len(places)
    given = [{**part.report["models"][number]["hyperparameters"], **part.chosen} for part, number in places]
    for model in merged["models"]:
        model["hyperparameters"] = {}
    for name in dict.fromkeys(name for values in given for name in values):
        values = [math.nan if (value := of.get(name)) is None else value for of in given]
        numbers = [isinstance(value, (int, float)) and not isinstance(value, bool) for value in values]
        if not all(numbers) or any(value != value for value in values):
            known = list(dict.fromkeys(zip(numbers, values)))
            words[name] = [value for _, value in known]
            values = [known.index(key) for key in zip(numbers, values)]
        for model, value in zip(merged["models"], values):
            model["hyperparameters"][name] = value
    return merged, words


def scores_of(configs, keys, words):
    """A row per configuration: its keys, how many models, and of each metric mean, deviation and interval."""
    rows, metrics = [], {metric for config in configs for metric in config["metrics"]}
    for config in configs:
        row = {}
        for key in keys:
            value = config["hyperparameters"][key]
            row[column_of(key, metrics)] = words[key][int(value)] if key in words else value
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

