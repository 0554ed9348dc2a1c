"""Configurations of training runs drawn by a seed: networks × losses × metrics × splits × how models stop × steps × formats.

Each dimension goes through its values in a shuffled order, again and again, so that a dozen of configurations has most of all."""
import os
from functools import partial

import numpy
import torch
from safetensors.torch import save_file

from . import networks

ROWS, HELD = 48, 24

# By kind: how its network is made, the losses and metrics that suit it, and what its target is.
KINDS = {
    "classes": (networks.Mlp, ["cross_entropy", "cross_entropy:label_smoothing=0.1", "cross_entropy:weight=1,2,0.5",
                               "cross_entropy:ignore_index=2"], ["accuracy,f1", "top5,ece"], "class"),
    "balanced": (networks.Mlp, ["cross_entropy:weight=balanced"], ["accuracy,auc"], "class"),
    "logs": (partial(networks.Mlp, logs=True), ["nll", "nll:weight=1,1,3"], ["f1,auc", "accuracy,ece"], "class"),
    "labels": (networks.Mlp, ["bce_with_logits", "bce_with_logits:pos_weight=2,1,3"], ["accuracy,f1", "auc,ece"], "labels"),
    "label": (partial(networks.Mlp, 0), ["bce_with_logits:pos_weight=2", "bce_with_logits"], ["f1,auc", "accuracy"], "label"),
    "numbers": (networks.Mlp, ["mse", "huber:delta=0.5", "l1"], ["mae,r2", "rmse"], "numbers"),
    "number": (partial(networks.Mlp, 0), ["huber:delta=0.7", "mse"], ["rmse,r2", "mae"], "number"),
    "images": (networks.Cnn, ["cross_entropy"], ["accuracy,top5", "f1"], "class"),
    "two": (networks.Two, ["mse", "cross_entropy"], ["mae", "accuracy"], None),
    "own": (networks.OwnLoss, ["output.1"], ["min:output.1"], "own"),
}
RATES = {"sgd": 0.2, "adam": 0.06, "adamw": 0.08, "rmsprop": 0.02, "lion": 0.015}


class Cycle:
    """Values in a shuffled order, shuffled anew each time around."""

    def __init__(self, random, values):
        self.random, self.values, self.left = random, list(values), []

    def __call__(self):
        if not self.left:
            self.left = [self.values[i] for i in self.random.permutation(len(self.values))]
        return self.left.pop()


class Configuration:
    """`argv` without what only a place says; `make()` gives the network; `data`: columns by file; `killed`: it goes on after kill -9."""

    def __init__(self, number):
        self.number, self.argv, self.files, self.predict = number, [], {}, []
        self.killed, self.log, self.weights, self.table = False, None, False, None


def configurations(count, seed=0):
    """What each of them has of every dimension: `draw` makes the configuration of it."""
    random = numpy.random.default_rng(seed)

    def cycle(values):
        return Cycle(random, values)
    dimensions = {
        "kind": cycle(KINDS), "format": cycle(["npz", "csv", "npz"]), "dtype": cycle(["f32", "f64", "f32"]),
        "split": cycle(["share", "file", "folds", "column", "group share", "group folds", "own", "share", "file", "none"]),
        "test": cycle(["share", "file", "", "file"]), "stop": cycle(["patience", "prune", "", "diverge", "patience"]),
        "optimizer": cycle(RATES), "schedule": cycle(["constant", "cosine:0.1", "linear", "step:9,0.6", "onecycle", "constant"]),
        "warmup": cycle(["0", "7", "10%"]), "models": cycle(["list", "grid", "range", "table", "seeds"]),
        "weight": cycle([True, False]), "more": cycle(["ema", "clip", "normalize", "no decay", "freeze", "same order", "drop last"]),
        "again": cycle(["ema", "clip", "normalize", "eval", "sequential", "draw"]), "start": cycle(["fresh", "weights", "fresh"]),
        "log": cycle(["log.csv", "log.jsonl", "log/"]), "killed": cycle([True, False, False, False]),
        "loss": {kind: cycle(parts[1]) for kind, parts in KINDS.items()}, "metric": {kind: cycle(parts[2]) for kind, parts in KINDS.items()},
        "monitor": cycle(["loss", "metric"]), "predict": cycle([["--use", "last"], ["--reduce", "std"], ["--top", "2"], ["--reduce", "none"]]),
        "drop": cycle([0.3, 0.0, 0.0]), "dropout": cycle([True, False]), "keep": cycle([2, 0, 0]),
        "augment": cycle(["flip,crop:1", "cutout:2", "flip", "crop:2,cutout:3"]),
    }
    all_of_them = []
    for _ in range(count):
        drawn = {name: cycle() for name, cycle in dimensions.items() if isinstance(cycle, Cycle)}
        all_of_them.append({**drawn, **{name: dimensions[name][drawn["kind"]]() for name in ("loss", "metric")}})
    return all_of_them


def draw(number, drawn, attempt=0):
    """A configuration with rows and rates of its own for every attempt."""
    random = numpy.random.default_rng([number, attempt])
    made = Configuration(number)
    kind, split = drawn["kind"], drawn["split"]
    # No rate that may be set leads float64 beyond its numbers at once.
    made.kind, made.dtype, made.make = kind, drawn["dtype"] if drawn["stop"] != "diverge" else "f32", KINDS[kind][0]
    drops = drawn["drop"] and kind not in ("two", "own")
    if drops:
        made.make = partial(made.make, drop=drawn["drop"])
    if split == "own" and kind in ("own", "images"):
        split = "file"
    loss, metric = drawn["loss"], drawn["metric"]
    target = KINDS[kind][3] or ("class" if loss == "cross_entropy" else "number")
    if kind == "two":
        metric = "accuracy" if target == "class" else "mae"
    table = drawn["format"] == "csv" and kind not in ("images", "own") and split != "own"
    made.extension = "csv" if table else "npz"
    argv = made.argv
    argv += ["--loss", loss, "--optimizer", drawn["optimizer"], "--seed", str(int(random.integers(1000))), "--threads", "1"]
    if kind == "two":
        argv += ["--output", "0" if target == "class" else "1"]
    if kind == "own":
        argv += ["--output", "0"]
    settings(made, random, drawn, argv)
    if drops and drawn["dropout"]:
        rates = argv[argv.index("--lr") + 1].count(",") + 1 if "--lr" in argv and ".." not in argv[argv.index("--lr") + 1] else 1
        argv += ["--set", "dropout=" + ",".join(str(0.1 + 0.2 * i) for i in range(rates))]
    argv += ["--augment", drawn["augment"]] if kind == "images" else []
    if "folds" in split or split == "column":  # each configuration once a fold
        made.argv = argv = [{"-n": "6", "--seeds": "1"}.get(argv[i - 1], word) for i, word in enumerate(argv)]
    weighted = drawn["weight"] and kind != "images"
    rows(made, random, kind, target, split, drawn["test"], table, weighted, argv)
    if split != "none":
        argv += ["--metric", metric]
        argv += ["--monitor", metric.split(",")[0]] if drawn["monitor"] == "metric" else []
        argv += {"patience": ["--patience", "4"], "prune": ["--prune", "2,3"]}.get(drawn["stop"], [])
        argv += ["--min-delta", "0.001"] if drawn["stop"] == "patience" and number % 2 else []
        argv += ["--keep", str(drawn["keep"])] if drawn["keep"] else []
    made.log, made.killed = drawn["log"], drawn["killed"]
    made.predict = [[], drawn["predict"] if split != "none" or drawn["predict"][0] != "--top" else ["--use", "last"]]
    if target == "class" and number % 3 == 0:
        made.predict[0] = ["--reduce", "vote"]
    return made


def settings(made, random, drawn, argv):
    """How models differ, how they are stepped, and where they start."""
    optimizer, rate = drawn["optimizer"], RATES[drawn["optimizer"]]
    more = {drawn["more"], drawn["again"]}
    diverges = drawn["stop"] == "diverge"
    lr = [rate, rate / 3]
    if diverges:
        lr.append(3e37 if optimizer in ("adam", "adamw") else 3e38)  # torch.optim divides the former's by 1 - beta1 in float32
    models = "list" if diverges else drawn["models"]
    count = 4
    if models == "list":
        argv += ["--lr", ",".join(f"{v:.6g}" for v in lr), "--seeds", "2"]
        count = 2 * len(lr)
    elif models == "grid":
        argv += ["--grid", f"lr={rate:.6g},{rate / 2:.6g}", "--grid", "weight_decay=0,0.05", "--seeds", "1"]
    elif models == "range":
        argv += ["-n", "4", "--lr", f"log:{rate / 4:.6g}..{rate:.6g}"]
    elif models == "table":
        made.table = "lr,weight_decay,seed,name,site\n" + "".join(
            f"{rate / (1 + i % 2):.6g},{0.02 * (i // 2)},{int(random.integers(100)) + 100 * i},m{i},s{i % 2}\n" for i in range(4))
    else:
        argv += ["--seeds", "4", "--lr", f"{rate:.6g}"]
    if optimizer == "sgd":
        argv += ["--momentum", "0.9", "--set", "nesterov=1"] if made.number % 2 else ["--momentum", "0.8", "--set", "dampening=0.1"]
    if optimizer == "rmsprop":
        argv += ["--momentum", "0.5"]
    if "ema" in more and not diverges:  # whose averages would end at the largest number that there is
        argv += ["--set", "ema=0.8"]
    if "clip" in more and not diverges:
        argv += ["--set", "clip=0.5"]
    if "draw" in more and models in ("range", "seeds"):
        argv += ["--set", "eps=loguniform:1e-8..1e-6"] if optimizer in ("adam", "adamw") and models == "range" else []
    argv += ["--normalize", "x=standard"] if "normalize" in more else []
    argv += ["--no-decay", "*.bias", "--weight-decay" if models not in ("grid", "table") else "--no-decay",
             "0.1" if models not in ("grid", "table") else "*.bias"] if "no decay" in more else []
    argv += ["--freeze", "first.bias" if made.kind != "images" else "norm.bias"] if "freeze" in more else []
    argv += ["--same-order"] if "same order" in more else []
    argv += ["--order", "sequential"] if "sequential" in more else []
    argv += ["--drop-last"] if "drop last" in more else []
    argv += ["--batch", str(int(random.choice([8, 11, 16]))), "--epochs", str(int(random.choice([12, 16])))]
    argv += ["--eval-every", "7"] if "eval" in more else []
    if not diverges or drawn["schedule"] == "step:9,0.6":  # at full length from the first step on
        argv += ["--schedule", drawn["schedule"]] if drawn["schedule"] != "constant" else []
        argv += ["--warmup", drawn["warmup"]] if drawn["schedule"] != "onecycle" and drawn["warmup"] != "0" and not diverges else []
    argv += ["--dtype", "f64"] if made.dtype == "f64" else []
    if drawn["start"] == "weights" and models in ("list", "grid", "range", "seeds"):
        made.weights = True
    made.own_models = count


def rows(made, random, kind, target, split, test, table, weighted, argv):
    """Columns of each file, and the options that say what they are for."""
    def columns(count):
        x = random.normal(0.3, 1.5, (count, networks.FEATURES))
        clear = x[:, :3] @ numpy.array([[1, -1, 0.3], [0.5, 1, -1], [-0.7, 0.2, 1]])
        noisy = clear + random.normal(0, 2.5, clear.shape)
        if kind == "images":
            x = random.normal(0, 1, (count, 1, networks.SIDE, networks.SIDE))
            noisy = x.reshape(count, -1)[:, :networks.KINDS_OF_IMAGES] + random.normal(0, 1.0, (count, networks.KINDS_OF_IMAGES))
        made_columns = {"x": x if made.dtype == "f64" else x.astype("float32")}
        y = {"class": noisy.argmax(1), "labels": (noisy > 0.5).astype("float32"), "label": (noisy[:, 0] > 0).astype("float32"),
             "numbers": noisy, "number": noisy[:, 0], "own": noisy[:, :2]}[target]
        made_columns["y"] = y if made.dtype == "f64" or target == "class" else y.astype("float32")
        if weighted:
            made_columns["w"] = random.choice([0, 0.5, 1, 2.5], count, p=[0.1, 0.3, 0.3, 0.3]).astype("float32")
        return made_columns
    files = made.files
    files["data"] = columns(ROWS)
    if split == "file":
        files["validation"] = columns(HELD)
    if test == "file" or (split == "none" and not test):
        files["test"] = columns(HELD)
    files["more"] = {name: values for name, values in columns(HELD).items() if name == "x" or (name == "y" and kind == "own")}
    if split == "own":
        for file in (files[name] for name in ("data", "test") if name in files):
            file["x"] = numpy.stack([file["x"] + 0.2 * random.normal(size=file["x"].shape).astype(file["x"].dtype)
                                     for _ in range(made.own_models)])
        argv += ["--own", "x"]
        if "--normalize" in argv:
            argv[argv.index("x=standard")] = "x=0.3,1.5"
    if split == "column":
        files["data"]["f"] = random.permutation(numpy.arange(ROWS) % 3 + 1)
        argv += ["--fold", "f"]
    if split.startswith("group"):
        files["data"]["g"] = random.integers(0, 14, ROWS)
        argv += ["--group", "g"]
    if "folds" in split:
        argv += ["--folds", "3"]
    if split in ("share", "group share", "own"):
        argv += ["--validation", "0.3"]
    if split == "file":
        argv += ["--validation", "validation"]
    if "test" in files:
        argv += ["--test", "test"]
    elif test == "share":
        argv += ["--test", "0.2"]
    argv += ["--sample-weight", "w"] if weighted else []
    made.row_weights = weighted
    argv += ["--target", "y"] if not (table and target in ("labels", "numbers")) else ["--target", "y0,y1,y2"]
    if kind == "own":
        argv.remove("--target")
        argv.remove("y")
    if table:
        for name in list(files):
            files[name] = as_table(files[name], random if name != "data" else None)


def as_table(columns, random):
    """Features and targets as columns of their own; `random`: in another order."""
    flat = {}
    for name, values in columns.items():
        if values.ndim == 1:
            flat[name] = values
        else:
            flat.update({f"{name}{k}": values[:, k] for k in range(values.shape[1])})
    names = list(flat)
    return {names[i]: flat[names[i]] for i in (random.permutation(len(names)) if random is not None else range(len(names)))}


def write(made, folder, net):
    """All files of a configuration; returns its command line and the files to predict with their options."""
    def path(name):
        return os.path.join(folder, name)
    for name, columns in made.files.items():
        file = path(f"{name}.{made.extension}")
        if made.extension == "npz":
            numpy.savez(file, **columns)
            continue
        with open(file, "w", encoding="utf-8") as text:
            text.write(",".join(columns) + "\n")
            for row in zip(*columns.values()):
                text.write(",".join(repr(v.item()) for v in row) + "\n")
    argv = [path(f"{word}.{made.extension}") if word in ("validation", "test") else word for word in made.argv]
    argv = ["train", net, "--data", path(f"data.{made.extension}"), "--save", path("run"), "--db", path("results.db"), "--log",
            path(made.log), *argv]
    if made.table:
        with open(path("models.csv"), "w", encoding="utf-8") as text:
            text.write(made.table)
        argv += ["--models", path("models.csv")]
    return argv, [(path(f"more.{made.extension}"), options) for options in made.predict]


def write_weights(count, make, folder, dtype):
    """Checkpoints to start from, and the options that name them."""
    options = []
    for m in range(count):
        torch.manual_seed(1000 + m)
        file = os.path.join(folder, f"start-{m}.safetensors")
        save_file({name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in make().state_dict().items()}, file)
        options += ["--weights", file]
    return options
