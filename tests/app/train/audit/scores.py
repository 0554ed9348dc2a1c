"""Losses by PyTorch and metrics by scikit-learn, of outputs, targets and row weights."""
import numpy
import torch
from sklearn import metrics
from torch.nn import functional

BINS = 15  # of the calibration error


class Scorer:
    """What a run minimises and looks at. `class_weight`: None, or a weight for each class."""

    def __init__(self, asked, class_weight=None, smoothing=0.0):
        keys = asked.loss_keys
        self.loss, self.smoothing, self.classifies = asked.loss, smoothing, asked.classifies
        self.ignored = int(keys.get("ignore_index", -100))
        self.delta = float(keys.get("delta", 1))
        numbers = [float(number) for number in keys.get("pos_weight", "").split(",") if number]
        self.pos_weight = torch.tensor(numbers) if numbers else None
        self.class_weight = class_weight
        output = asked.options.output
        self.output = int(asked.loss.split(".")[1]) if asked.loss.startswith("output.") else int(output or 0)
        self.answer = int(output or self.output)

    def sums(self, outputs, target, weight):
        """(Σ w·l, Σ w): their ratio is the loss. `weight`: [B] or None."""
        x = outputs[self.output]
        rows = torch.ones(len(x), dtype=x.dtype) if weight is None else weight.to(x.dtype)
        if self.classifies:
            classes = None if self.class_weight is None else self.class_weight.to(x.dtype)
            if self.loss == "cross_entropy":
                each = functional.cross_entropy(x, target, classes, ignore_index=self.ignored, reduction="none",
                                                label_smoothing=self.smoothing)
            else:
                each = functional.nll_loss(x, target, classes, ignore_index=self.ignored, reduction="none")
            counts = (target != self.ignored).to(x.dtype)
            if classes is not None:
                counts = counts * classes[target.clamp(0, len(classes) - 1)]
        elif self.loss.startswith("output."):
            each, counts = x, torch.ones_like(x)
        else:
            target = target.to(x.dtype)
            if target.shape != x.shape:
                raise ValueError(f"shapes differ: {target.shape} and {x.shape}")
            if self.loss == "mse":
                each = functional.mse_loss(x, target, reduction="none")
            elif self.loss == "l1":
                each = functional.l1_loss(x, target, reduction="none")
            elif self.loss == "huber":
                each = functional.huber_loss(x, target, reduction="none", delta=self.delta)
            else:
                positive = None if self.pos_weight is None else self.pos_weight.to(x.dtype)
                each = functional.binary_cross_entropy_with_logits(x, target, pos_weight=positive, reduction="none")
            counts = torch.ones_like(x)
        rows = rows.reshape(-1, *[1] * (each.ndim - 1))
        return (each * rows).sum(), (counts * rows).sum()

    def probabilities(self, x):
        if self.loss == "cross_entropy":
            return x.softmax(1)
        return x.exp() if self.loss == "nll" else x.sigmoid() if self.loss == "bce_with_logits" else x

    def mean_outputs(self, every):
        """Outputs whose probabilities are the mean of the models', or the mean outputs. `every`: a list of outputs a model."""
        means = [torch.stack(own).mean(0) for own in zip(*every)]
        p = torch.stack([self.probabilities(outputs[self.output]) for outputs in every]).mean(0)
        if self.classifies:
            p = p.log()
        elif self.loss == "bce_with_logits":
            p = torch.logit(p)
        means[self.output] = p
        return means

    def metric(self, name, outputs, target, weight):
        """One number, float64. `outputs`: forward's, each [S, ...] float64; `weight` [S] or None."""
        if name == "loss":
            total, counts = self.sums(outputs, target, weight)
            return float(total / counts)
        w = numpy.ones(len(outputs[0])) if weight is None else weight.double().numpy()
        if ":output." in name:
            own = outputs[int(name.split(".")[1])].double().numpy()
            return float((own.reshape(len(own), -1).mean(1) * w).sum() / w.sum())
        x, y = outputs[self.output].double(), target
        if name in ("mae", "rmse", "r2"):
            x, y = x.numpy().reshape(len(x), -1), y.double().numpy().reshape(len(y), -1)
            function = {"mae": metrics.mean_absolute_error, "rmse": metrics.root_mean_squared_error, "r2": metrics.r2_score}[name]
            return float(function(y, x, sample_weight=w))
        if self.classifies:
            there = (y != self.ignored).numpy()
            return self.of_classes(name, self.probabilities(x).numpy()[there], y.numpy()[there], w[there])
        return self.of_labels(name, x.sigmoid().numpy(), y.numpy() > 0.5, w)

    @staticmethod
    def of_classes(name, p, y, w):
        classes = numpy.arange(p.shape[1])
        if name == "accuracy":
            return float(metrics.accuracy_score(y, p.argmax(1), sample_weight=w))
        if name == "top5":
            return float(metrics.top_k_accuracy_score(y, p, k=min(5, p.shape[1]), labels=classes, sample_weight=w))
        if name == "f1":
            average = "binary" if p.shape[1] == 2 else "macro"
            return float(metrics.f1_score(y, p.argmax(1), average=average, sample_weight=w, zero_division=0))
        if name == "auc":
            if p.shape[1] == 2:
                return float(metrics.roc_auc_score(y, p[:, 1], sample_weight=w))
            each = [metrics.roc_auc_score(y == c, p[:, c], sample_weight=w) for c in classes]
            return float(numpy.mean(each))
        return calibration_error(p.max(1), p.argmax(1) == y, w)

    @staticmethod
    def of_labels(name, p, y, w):
        """Of logits: a row of several labels is right where all are; f1 and auc are means over labels."""
        several = p.ndim > 1 and p.shape[1] > 1
        if not several:
            p, y = p.reshape(-1), y.reshape(-1)
        said = p > 0.5
        if name == "accuracy":
            return float(metrics.accuracy_score(y, said, sample_weight=w))
        if name == "f1":
            average = "macro" if several else "binary"
            return float(metrics.f1_score(y, said, average=average, sample_weight=w, zero_division=0))
        if name == "auc":
            return float(metrics.roc_auc_score(y, p, average="macro", sample_weight=w))
        w = numpy.broadcast_to(w.reshape(-1, *[1] * (p.ndim - 1)), p.shape).reshape(-1)
        p, y, said = p.reshape(-1), y.reshape(-1), said.reshape(-1)
        return calibration_error(numpy.where(said, p, 1 - p), said == y, w)


def calibration_error(confidence, right, w):
    """Σ over bins of equal width of |Σ w (right - confidence)| / Σ w."""
    bins = numpy.clip(numpy.ceil(confidence * BINS) - 1, 0, BINS - 1)
    gaps = [abs((w * (right - confidence))[bins == b].sum()) for b in range(BINS)]
    return float(sum(gaps) / w.sum())


def balanced(classes, count, ignored):
    """scikit-learn's class_weight="balanced": rows / (classes · rows of the class)."""
    classes = classes[classes != ignored]
    counts = numpy.bincount(classes, minlength=count)
    return torch.tensor(numpy.divide(len(classes), count * counts, out=numpy.zeros(count), where=counts > 0))
