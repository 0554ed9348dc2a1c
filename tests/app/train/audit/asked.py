"""What a run was asked for, read from its command line without the product: settings, and the list of its models."""
import argparse
import csv
import math

from . import draws

# torch.optim's defaults; the trainer's own are added to each.
DEFAULTS = {
    "sgd": {"lr": 1e-3, "weight_decay": 0.0, "momentum": 0.0, "nesterov": 0.0, "dampening": 0.0},
    "adam": {"lr": 1e-3, "weight_decay": 0.0, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8},
    "adamw": {"lr": 1e-3, "weight_decay": 1e-2, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8},
    "rmsprop": {"lr": 1e-2, "weight_decay": 0.0, "momentum": 0.0, "alpha": 0.99, "eps": 1e-8},
    "lion": {"lr": 1e-4, "weight_decay": 0.0, "beta1": 0.9, "beta2": 0.99},
}
OWN_DEFAULTS = {"clip": 0.0, "label_smoothing": 0.0, "ema": 0.0}
SEEDS = ("seed", "seed.init", "seed.order", "seed.dropout")
MORE_IS_BETTER = {"accuracy", "top5", "f1", "auc", "r2"}


def parser():
    """The options that the auditor knows: any other one is an error of the audit."""
    options = argparse.ArgumentParser(allow_abbrev=False)
    options.add_argument("command", choices=["train"])
    options.add_argument("net")
    for name in ("data", "validation", "test", "target", "fold", "group", "sample-weight", "output", "models", "lr", "weight-decay",
                 "momentum", "loss", "monitor", "prune", "save", "log", "init", "dtype", "name", "db"):
        options.add_argument("--" + name, default="")
    for name, value in (("optimizer", "adamw"), ("schedule", "constant"), ("warmup", "0"), ("order", "shuffled")):
        options.add_argument("--" + name, default=value)
    for name in ("folds", "seeds", "seed", "batch", "epochs", "steps", "eval-every", "patience", "save-every", "keep"):
        options.add_argument("--" + name, type=int, default=0)
    options.add_argument("-n", "--n", type=int, default=0)
    options.add_argument("--check", type=int, default=3)
    options.add_argument("--threads", type=int, default=0)
    options.add_argument("--min-delta", type=float, default=0.0)
    for name in ("own", "column", "normalize", "set", "grid", "metric", "weights", "freeze", "no-decay", "augment"):
        options.add_argument("--" + name, action="append", default=[])
    for name in ("same-order", "drop-last", "exact", "overwrite", "quiet"):
        options.add_argument("--" + name, action="store_true")
    return options


def spread_values(text, count, key, seed):
    """`count` numbers: one for all, a list, a range with its ends, or draws."""
    kind, _, rest = text.rpartition(":")
    if ".." not in rest:
        numbers = [float(part) for part in rest.split(",")]
        return numbers * count if len(numbers) == 1 else numbers
    low, high = (float(end) for end in rest.split(".."))
    shares = [i / (count - 1) if count > 1 else 0.0 for i in range(count)]
    if kind in ("uniform", "loguniform"):
        shares = [draws.uniform(seed, key, i) for i in range(count)]
    if kind in ("log", "loguniform"):
        return [math.exp(math.log(low) + share * (math.log(high) - math.log(low))) for share in shares]
    return [low + share * (high - low) for share in shares]


class Model:
    """One of the N: its number, configuration, seeds, fold, and all of its hyperparameters."""

    def __init__(self, number, hyper, said, seed, folds):
        self.number, self.hyper = number, hyper
        self.seed = int(said.get("seed", seed + number))
        self.seeds = {kind: int(said.get("seed." + kind, self.seed)) for kind in ("init", "order", "dropout")}
        self.fold = int(said["fold"]) if "fold" in said else number % folds if folds else None
        self.config, self.name, self.labels, self.weights = 0, "", {}, ""


class Asked:
    def __init__(self, argv):
        self.options = options = parser().parse_args(argv)
        loss, *keys = options.loss.split(":")
        self.loss, self.loss_keys = loss, dict(key.split("=") for key in keys)
        self.classifies = loss in ("cross_entropy", "nll")
        self.monitor = options.monitor or "loss"
        self.metrics = list(dict.fromkeys([self.monitor, *(m for text in options.metric for m in text.split(",")), "loss"]))
        self.more_is_better = self.monitor in MORE_IS_BETTER or self.monitor.startswith("max:")
        factor, _, grace = options.prune.partition(",")
        self.halving = (int(factor), int(grace or 1)) if factor else None

    def varied_settings(self):
        """{key: text} of all that is set side by side."""
        options, settings = self.options, {}
        for key, text in (("lr", options.lr), ("weight_decay", options.weight_decay), ("momentum", options.momentum)):
            if text:
                settings[key] = text
        settings.update(text.split("=", 1) for text in options.set)
        return settings

    def table(self):
        """The rows of --models."""
        if not self.options.models:
            return []
        with open(self.options.models, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def table_columns(self):
        return [key for row in self.table()[:1] for key in row]

    def models(self, folds):
        """The N models: rows of values × grids × seeds × folds, the last of them fastest. `folds`: 0 where there are none."""
        options, settings = self.options, self.varied_settings()
        grid = [(key, [float(v) for v in values.split(",")]) for key, values in (text.split("=") for text in options.grid)]
        table = self.table()
        says_fold = "fold" in settings or bool(table and "fold" in table[0])
        each = math.prod(len(values) for _, values in grid) * max(options.seeds, 1) * (1 if says_fold else max(folds, 1))
        counts = [len(table)] if table else [len(text.split(",")) for text in settings.values() if "," in text]
        rows = counts[0] if counts else max(options.n, len(options.weights)) // each if options.n or options.weights else 1
        columns = {key: spread_values(text, rows, key, options.seed) for key, text in settings.items()}
        defaults = {**DEFAULTS[options.optimizer], **OWN_DEFAULTS}
        defaults["label_smoothing"] = float(self.loss_keys.get("label_smoothing", 0))
        made, found = [], []
        for number in range(rows * each):
            config = number // (max(options.seeds, 1) * (1 if says_fold else max(folds, 1)))
            row, place = divmod(config, math.prod(len(values) for _, values in grid))
            said = {key: values[row] for key, values in columns.items()}
            texts = table[row] if table else {}
            said.update({key: float(text) for key, text in texts.items() if key in defaults or key in SEEDS or key == "fold"})
            for key, values in reversed(grid):
                place, at = divmod(place, len(values))
                said[key] = values[at]
            hyper = {key: said.get(key, value) for key, value in defaults.items()}
            if "dropout" in said:  # unsaid: as the network has it
                hyper["dropout"] = said["dropout"]
            model = Model(number, hyper, said, options.seed, folds)
            model.name, model.weights = texts.get("name", ""), texts.get("weights", "")
            model.labels = {key: text for key, text in texts.items()
                            if not (key in defaults or key in SEEDS or key in ("fold", "name", "weights"))}
            if hyper not in found:
                found.append(hyper)
            model.config = found.index(hyper)
            made.append(model)
        return made
